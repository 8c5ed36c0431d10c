import { measureScenario } from '@braess/lab';
import { beforeAll, describe, expect, it } from 'vitest';
import { madeUp, type Run, runOfStudy, type Task } from './made-up-runs.js';

/** Cells of a column, by its name in the head. */
function column(result: Awaited<ReturnType<typeof runOfStudy>>, id: string, name: string): unknown[] {
  const { head, rows } = result.tables.find((each) => each.id === id)!;
  expect(head).toContain(name);
  return rows.map((row) => row[head.indexOf(name)]);
}

describe('study oracle, over made-up runs', () => {
  /** Lies cost `lie` times the TTFT, on every seed a little more. */
  const world =
    (lie: number) =>
    (task: Task): Run => {
      const seed = Number(task.settings.find((setting) => setting.startsWith('seed='))!.slice(5));
      const lying = task.settings.some((setting) => setting.includes('mode: lying'));
      return madeUp(1000 * (lying ? lie + seed / 100 : 1), 400);
    };

  it('costs are those of the runs against the exact oracle, and the finding follows them', async () => {
    const dear = await runOfStudy('oracle', world(1.5));
    const names = column(dear, 'kinds', 'oracle');
    const costs = column(dear, 'kinds', 'cost (%)') as number[];
    for (const [row, name] of names.entries()) expect(costs[row]).toBeCloseTo(String(name).startsWith('lying') ? 52 : 0, 9);
    expect(dear.finding).toContain('lies +52.0 %');
    expect(dear.finding).toContain('leaves out 0: "lying" +52.0 %');
    const cheap = await runOfStudy('oracle', world(0.5));
    expect(cheap.finding).toContain('lies -48.0 %');
    expect(cheap.finding).not.toBe(dear.finding);
  });

  it('runs equal tasks once', async () => {
    const { tasks } = await runOfStudy('oracle', world(1));
    expect(new Set(tasks.map((task) => JSON.stringify(task))).size).toBe(tasks.length);
  });

  it('expects as many swaps as the areas of uniform errors say', async () => {
    const result = await runOfStudy('oracle', world(1));
    const factors = column(result, 'bound', 'error / bound') as number[];
    const expected = column(result, 'bound', 'expected swaps (%)') as number[];
    // Far is half as fast as near and all are loaded alike, so they swap where 2 a - b > 3 bound: a corner of the square of side 2 error, cut
    // off by legs of 1.5 and 3 times what the error exceeds the bound by; as long as no congestion falls below 0.
    for (const [row, factor] of factors.entries()) {
      if (factor > 1.25) continue;
      const beyond = Math.max(0, factor - 1);
      expect(expected[row]).toBeCloseTo(factor === 0 ? 0 : (100 * 0.5 * (1.5 * beyond) * (3 * beyond)) / (2 * factor) ** 2, 1);
    }
    expect(factors.some((factor) => factor > 1 && factor < 1.25)).toBe(true);
  });
});

describe('study oracle, over real runs', () => {
  let result: Awaited<ReturnType<typeof runOfStudy>>;
  const around = (task: Task): boolean => task.settings.some((setting) => setting.includes('gamma: 1')) && task.settings.includes('seed=1');
  const isIncast = (task: Task): boolean => task.file.endsWith('incast.yaml');

  beforeAll(async () => {
    const real = new Map<Task, Run>();
    const { tasks } = await runOfStudy('oracle', () => madeUp(1, 1));
    for (const task of tasks) if (around(task) || isIncast(task)) real.set(task, await measureScenario(task));
    const byKey = new Map([...real].map(([task, run]) => [JSON.stringify(task), run]));
    result = await runOfStudy('oracle', (task) => {
      const anySeed = around({ ...task, settings: [...task.settings.slice(0, -1), 'seed=1'] })
        ? { ...task, settings: [...task.settings.slice(0, -1), 'seed=1'] }
        : task;
      return byKey.get(JSON.stringify(anySeed)) ?? madeUp(1, 1);
    });
  }, 60_000);

  it('the order of tiers holds below the bound and breaks just above it', () => {
    const factors = column(result, 'bound', 'error / bound') as number[];
    const far = column(result, 'bound', 'far, worst (%)') as number[];
    const uniform = column(result, 'bound', 'far, uniform (%)') as number[];
    for (const [row, factor] of factors.entries()) {
      expect(far[row]).toBe(factor < 1 ? 0 : 100);
      if (factor < 1) expect(uniform[row]).toBe(0);
    }
    // Requests come at any time of the second for which an error holds, so shares are those of seconds: binomial, within three standard deviations.
    const last = factors.length - 1;
    const expected = (column(result, 'bound', 'expected swaps (%)') as number[])[last]! / 100;
    expect(Math.abs(uniform[last]! / 100 - expected)).toBeLessThan(3 * Math.sqrt((expected * (1 - expected)) / 90));
    expect(result.finding).toContain('below it no request went to the far tier');
  });

  it('KV that meets at a NIC shares it: as long as all of it takes through the NIC, and later in chunks', () => {
    const senders = column(result, 'incast', 'senders') as number[];
    const flow = column(result, 'incast', 'flow, last (ms)') as number[];
    const chunk = column(result, 'incast', 'chunk, last (ms)') as number[];
    const marks = column(result, 'incast', 'ECN marks') as number[];
    for (const [row, count] of senders.entries()) {
      // Llama-3.1-8B: 32 layers, 8 KV heads of 128, keys and values, 2 bytes; the NIC moves 12.5 GB/s.
      const allMs = (1e3 * count * 1000 * 32 * 8 * 128 * 2 * 2) / 12.5e9;
      expect(flow[row]! / allMs).toBeGreaterThan(0.99);
      expect(flow[row]! / allMs).toBeLessThan(1.01);
      expect(chunk[row]!).toBeGreaterThan(flow[row]! * 0.999);
      if (count > 1) expect(marks[row]).toBeGreaterThan(0);
    }
    expect(marks[0]).toBe(0);
  });
});
