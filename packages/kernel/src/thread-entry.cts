import type { ThreadTask } from './thread-pool.js';

import threads = require('node:worker_threads');

/**
 * What piscina loads in every thread. Piscina loads with `require`, and a thread that is ended while it requires an ES module takes the whole
 * process with it (V8 aborts in `Module::IsGraphAsync`, Node 20.20); one that is ended while it imports does not.
 */
const preload = (threads.workerData as { readonly module: string }).module;
import(preload).catch(() => undefined); // The first task imports it again, and reports why it cannot be loaded.

async function runTask({ module, name, task }: ThreadTask): Promise<unknown> {
  const loaded = (await import(module)) as Readonly<Record<string, (task: unknown) => unknown>>;
  return (loaded[name] as (task: unknown) => unknown)(task);
}

export = runTask;
