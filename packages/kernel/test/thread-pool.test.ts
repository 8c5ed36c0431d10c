import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { ThreadPool } from '@braess/kernel';
import { describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('../../..', import.meta.url));

/** Pools of two threads ended after 0 to 120 ms: some have not begun to load, some are loading, some have loaded. */
const endEarly = `
  import { prepareThreads } from '@braess/kernel';
  import { echoProgram } from '@braess/kernel/testing';
  for (let at = 0; at < 80; at++) {
    const threads = prepareThreads(echoProgram, 2);
    await new Promise((resolve) => setTimeout(resolve, (at * 37) % 121));
    await threads.destroy();
  }
`;

/** How many threads are started by a run whose threads its caller ends, too. */
const endTwice = `
  import { prepareThreads, run } from '@braess/kernel';
  import { echoProgram } from '@braess/kernel/testing';
  let started = 0;
  process.on('worker', () => started++);
  const threads = prepareThreads(echoProgram, 2);
  await run(echoProgram, { ticking: 'x', tickNs: 2000, lastTick: 5 }, { shards: 2, threads });
  await threads.destroy();
  await new Promise((resolve) => setTimeout(resolve, 300));
  console.log(started);
`;

describe('a pool of threads', () => {
  it('starts no more threads when it is ended twice', () => {
    const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', endTwice], { cwd: root, encoding: 'utf8' });
    expect({ stdout, stderr }).toEqual({ stdout: '2\n', stderr: '' });
  });

  it('can be ended at any moment, also while its threads load', () => {
    const { status, signal, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', endEarly], {
      cwd: root,
      encoding: 'utf8',
    });
    expect({ status, signal, stderr }).toEqual({ status: 0, signal: null, stderr: '' });
  });

  it('rejects a task whose module cannot be loaded, whose function is missing, or whose signal ends it', async () => {
    const pool = new ThreadPool('file:///nowhere/to/be/found.js', 1);
    try {
      await expect(pool.run({})).rejects.toThrow("Cannot find module '/nowhere/to/be/found.js'");
      await expect(pool.run({}, { module: 'node:path', name: 'nothing' })).rejects.toThrow('not a function');
      expect(await pool.run('a/b', { module: 'node:path', name: 'dirname' })).toBe('a');
      const ended = pool.run(100_000, { module: 'node:timers/promises', name: 'setTimeout', signal: AbortSignal.timeout(50) });
      await expect(ended).rejects.toThrow('aborted');
    } finally {
      await pool.destroy();
    }
  });
});
