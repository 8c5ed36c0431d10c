import { Script } from 'node:vm';
import { type RunnerTestCase, TestRunner } from 'vitest';

/** Where the script finds the test that it is to run: it takes no arguments. */
const place = Symbol.for('braess test');
const script = new Script("globalThis[Symbol.for('braess test')]()");

/**
 * Ends tests that do not come back. Engines and simulations are synchronous: one that goes on for ever keeps Vitest from its own time limit, too, so that it
 * never says which. A script's limit holds in whatever loop it is. The rest of the file is left out: what is broken would most likely take as long in each.
 */
export default class SyncLimits extends TestRunner {
  #hung: RunnerTestCase | undefined;

  async runTask(test: RunnerTestCase): Promise<void> {
    if (this.#hung?.file === test.file) test.context.skip(`'${this.#hung.name}' in this file did not end`);
    const work = TestRunner.getTestFn(test);
    // What is left of an asynchronous test is in the hands of Vitest.
    await (Number.isSafeInteger(test.timeout) && test.timeout > 0 ? this.#limited(test, work) : work());
  }

  #limited(test: RunnerTestCase, work: () => unknown): unknown {
    // Ahead of Vitest's own limit, whose error then finds nobody: the file is over by that time.
    const limitMs = Math.max(test.timeout / 2, test.timeout - 2000);
    const holder = globalThis as { [place]?: () => unknown };
    holder[place] = work;
    const before = process.cpuUsage();
    try {
      return script.runInThisContext({ timeout: Math.ceil(limitMs) });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw error;
      const { user, system } = process.cpuUsage(before);
      const atWorkMs = Math.round((user + system) / 1000);
      const late = `'${test.name}' did not come back within ${limitMs} ms (${atWorkMs} ms of the processor)`;
      if (atWorkMs < limitMs / 4) throw new Error(`${late}: the machine was busy with others`);
      this.#hung = test;
      throw new Error(`${late}: a loop in it, or in what it tests, goes on for ever`);
    }
  }
}
