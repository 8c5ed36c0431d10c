import type { PholdParameters } from './phold.js';
import { type PlainResult, runPlainPhold } from './plain-engine.js';

/** What the child process is asked to run. */
export interface PlainTask {
  readonly parameters: PholdParameters;
  readonly seed: string;
  readonly untilNs: number;
  readonly warmNs: number;
}

export type PlainAnswer = PlainResult;

// Ctrl-C reaches the whole process group; the parent decides when this process ends.
process.on('SIGINT', () => undefined);

// A process of its own: the plain engine's memory and compiled code stay apart from the kernel's.
process.once('message', ({ parameters, seed, untilNs, warmNs }: PlainTask) => {
  process.send?.(runPlainPhold(parameters, seed, untilNs, warmNs) satisfies PlainAnswer, () => process.disconnect());
});
