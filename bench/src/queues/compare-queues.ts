import { Worker } from 'node:worker_threads';
import { BenchError, type BenchOptions, median } from '../measured.js';
import { type HoldCase, type HoldResult, type LoadName, loadNames, type QueueName, queueNames } from './hold-model.js';

export interface QueueRow {
  readonly load: LoadName;
  readonly pending: number;
  readonly hash: string;
  readonly nsPerEvent: Readonly<Record<QueueName, number>>;
  readonly fastest: QueueName;
}

export interface QueueComparison {
  readonly seed: string;
  readonly operations: number;
  readonly rows: readonly QueueRow[];
  readonly interrupted: boolean;
}

export interface QueueComparisonOptions extends BenchOptions {
  readonly seed: string;
  /** Events held in each measurement. */
  readonly operations: number;
  readonly pending?: readonly number[];
  readonly rounds?: number;
}

/**
 * Compares the queues on the same slab, loads and keys. Each has a thread of its own, so that none spoils the others' compiled code; runs are
 * interleaved and the median is kept.
 * @throws BenchError when two queues popped in different orders.
 */
export async function compareQueues(options: QueueComparisonOptions): Promise<QueueComparison> {
  const { seed, operations, pending: sizes = [64, 1024, 65_536], rounds = 3, signal, progress } = options;
  const threads = new Map(queueNames.map((queue) => [queue, new Worker(new URL('./queue-worker.js', import.meta.url))]));
  const rows: QueueRow[] = [];
  let interrupted = false;
  try {
    const cases = loadNames.flatMap((load) => sizes.map((pending) => ({ load, pending })));
    for (const [index, { load, pending }] of cases.entries()) {
      if (signal?.aborted) {
        interrupted = true;
        break;
      }
      progress?.(index / cases.length, `${load}, ${pending} pending`);
      const taken: Record<QueueName, HoldResult[]> = { kernel: [], 'four-ary-heap': [], calendar: [] };
      for (let round = 0; round < rounds; round++) {
        for (const queue of queueNames)
          taken[queue].push(await ask(threads.get(queue) as Worker, { queue, load, pending, operations, seed }));
      }
      rows.push(rowOf(load, pending, seed, taken));
    }
  } finally {
    await Promise.all([...threads.values()].map((thread) => thread.terminate()));
  }
  return { seed, operations, rows, interrupted };
}

function rowOf(load: LoadName, pending: number, seed: string, taken: Record<QueueName, HoldResult[]>): QueueRow {
  const hashes = queueNames.map((queue) => [...new Set(taken[queue].map((result) => result.hash))].join('/'));
  if (new Set(hashes).size > 1) {
    const list = queueNames.map((queue, index) => `${queue} ${hashes[index]}`).join(', ');
    throw new BenchError(`load '${load}', ${pending} pending, seed '${seed}': the queues popped in different orders: ${list}`);
  }
  const medianOf = (queue: QueueName): number => median(taken[queue].map((result) => result.nsPerEvent));
  const nsPerEvent = { kernel: medianOf('kernel'), 'four-ary-heap': medianOf('four-ary-heap'), calendar: medianOf('calendar') };
  const fastest = [...queueNames].sort((a, b) => nsPerEvent[a] - nsPerEvent[b])[0] as QueueName;
  return { load, pending, hash: hashes[0] as string, nsPerEvent, fastest };
}

function ask(thread: Worker, hold: HoldCase): Promise<HoldResult> {
  return new Promise((resolve, reject) => {
    thread.once('message', (result: HoldResult) => {
      thread.off('error', reject);
      resolve(result);
    });
    thread.once('error', reject);
    thread.postMessage(hold);
  });
}
