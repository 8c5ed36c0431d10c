import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { BenchError } from './measured.js';
import type { PlainAnswer, PlainTask } from './plain-task.js';

/** Runs the plain engine in a fresh process. Rejects with the signal's reason when it is aborted. */
export function runPlainApart(task: PlainTask, signal?: AbortSignal): Promise<PlainAnswer> {
  return new Promise((resolve, reject) => {
    const child = fork(fileURLToPath(new URL('./plain-task.js', import.meta.url)), [], { execArgv: [] });
    const stop = (): void => {
      child.kill('SIGKILL');
      reject(signal?.reason);
    };
    let answer: PlainAnswer | undefined;
    signal?.addEventListener('abort', stop, { once: true });
    child.once('message', (message) => {
      answer = message as PlainAnswer;
    });
    child.once('error', reject);
    child.once('exit', (code, by) => {
      signal?.removeEventListener('abort', stop);
      if (answer !== undefined) resolve(answer);
      else reject(new BenchError(`the process of the plain engine ended with ${by ?? `code ${code}`}, seed '${task.seed}'`));
    });
    if (signal?.aborted) stop();
    else child.send(task);
  });
}
