import { deviationOf, type ReproductionSuite, reproduce, rowOf, runScenario, type ScenarioCase } from '@braess/lab';
import { describe, expect, it } from 'vitest';
import { aggregated, disaggregated, newFolder, testFile } from './small-runs.js';

describe('rows', () => {
  it('deviations are relative, or points where both are percentages', () => {
    expect(deviationOf(rowOf('a', 200, [210, 230], 'ms'))).toEqual({ value: 10, unit: '%' });
    expect(deviationOf(rowOf('a', 20, [21, 23], 'percent'))).toEqual({ value: 2, unit: 'points' });
    expect(deviationOf(rowOf('a', null, [1], 'ms'))).toBeNull();
    expect(deviationOf(rowOf('a', 1, [], 'ms'))).toBeNull();
  });
});

describe('reproduce', () => {
  const small: ScenarioCase = { file: testFile('small.yaml', disaggregated), settings: [] };
  const other: ScenarioCase = { file: testFile('other.yaml', aggregated), settings: ['workload.requests=30'], cost: 2 };
  const suite: ReproductionSuite = {
    name: 'made-up',
    title: 'Made up',
    source: 'nobody',
    tables: [1, 2],
    figures: [1],
    seeds: () => [3, 'four'],
    parts: ({ tables }) =>
      [1, 2]
        .filter((number) => tables?.includes(number) !== false)
        .map((number) => ({
          id: `table${number}`,
          title: `Table ${number}`,
          cases: number === 1 ? [small, other] : [small],
          evaluate: (runsOf) => ({
            rows: [
              rowOf(
                `table${number}.ttft`,
                1,
                runsOf(small).map(({ summary }) => summary.ttftMs?.mean ?? Number.NaN),
                'ms',
              ),
            ],
          }),
        })),
  };

  it('runs each case once a seed, with the numbers of an ordinary run', async () => {
    const told: number[] = [];
    const { rows, runs, seeds, parts } = await reproduce(suite, {
      quick: false,
      parallel: 2,
      onProgress: ({ runsDone }) => told.push(runsDone),
    });
    expect({ runs, seeds, parts: parts.map(({ id }) => id) }).toEqual({ runs: 4, seeds: 2, parts: ['table1', 'table2'] });
    expect(told).toEqual([0, 1, 2, 3, 4]);
    const ordinary = await Promise.all(
      ['3', '"four"'].map((seed) => runScenario({ file: small.file, settings: [`seed=${seed}`], transport: 'memory', out: newFolder() })),
    );
    const mean = ordinary.reduce((sum, { ttftMs }) => sum + (ttftMs?.mean ?? 0), 0) / 2;
    expect(rows).toHaveLength(2);
    expect(rows[0]?.emulated).toBeCloseTo(mean, 9);
    expect(rows[1]?.emulated).toBeCloseTo(mean, 9);
  });

  it('runs what is selected, and refuses what there is not', async () => {
    const { rows } = await reproduce(suite, { quick: true, parallel: 1, tables: [2] });
    expect(rows.map(({ id }) => id)).toEqual(['table2.ttft']);
    await expect(reproduce(suite, { quick: true, tables: [3] })).rejects.toThrow('made-up has no table 3; it has tables 1, 2');
  });

  it('ends with what it has', async () => {
    const stopping = new AbortController();
    stopping.abort();
    const { interrupted, rows } = await reproduce(suite, { quick: true, parallel: 1, signal: stopping.signal });
    expect({ interrupted, rows }).toEqual({ interrupted: true, rows: [] });
  });
});
