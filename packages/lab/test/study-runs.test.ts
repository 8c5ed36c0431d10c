import { studyNamed } from '@braess/lab';
import { describe, expect, it } from 'vitest';
import { measureScenario } from '../src/measure-scenario.js';
import type { Study, Task } from './made-up-runs.js';

/** A study over real runs of a few requests each: what it says means nothing, that it can say it is what is tested. */
async function inSmall(name: string, requests: number) {
  const tasks: Task[] = [];
  const result = await (studyNamed(name) as Study).run({
    quick: true,
    async measureAll(asked) {
      tasks.push(...asked);
      const runs = [];
      for (const task of asked) {
        const isLoop = task.settings.some((setting) => setting.startsWith('workload.client.phases='));
        const less = isLoop ? 'workload.client.phases=[{ seconds: 3, inFlight: 16 }]' : `workload.requests=${requests}`;
        runs.push(await measureScenario({ ...task, settings: [...task.settings, less] }));
      }
      return runs;
    },
  });
  return { ...result, tasks };
}

describe('studies over small real runs', () => {
  it.each([
    ['oscillation', 60, ['oscillation', 'transition']],
    ['caching', 40, []],
    ['cascade', 40, []],
    ['regimes', 30, []],
    ['controllers', 60, ['controllers']],
  ])('%s: fills its tables, and makes a finding from them', { timeout: 60_000 }, async (name, requests, ids) => {
    const { tables, finding } = await inSmall(name, requests);
    expect(tables.map(({ id }) => id)).toEqual(expect.arrayContaining([...ids]));
    for (const { id, head, rows } of tables) {
      expect(rows.length, id).toBeGreaterThan(0);
      for (const row of rows) expect(row, id).toHaveLength(head.length);
    }
    expect(finding).not.toMatch(/undefined|NaN/);
    expect(finding.length).toBeGreaterThan(100);
    expect(JSON.parse(JSON.stringify(tables))).toHaveLength(tables.length);
  });
});
