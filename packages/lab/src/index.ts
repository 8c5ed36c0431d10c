export * from './bench-job.js';
export * from './run-scenario.js';
export * from './sweep.js';
export * from './window-bound.js';
