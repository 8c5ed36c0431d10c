import { parentPort } from 'node:worker_threads';
import { type HoldCase, runHold } from './hold-model.js';

parentPort?.on('message', (hold: HoldCase) => parentPort?.postMessage(runHold(hold)));
