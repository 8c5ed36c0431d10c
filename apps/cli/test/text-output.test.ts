import { figuresOf, kneeOf, type ScenarioSummary, type SweepRun } from '@braess/lab';
import { expect, it } from 'vitest';
import { sweepText } from '../src/sweep-text.js';
import { textTable } from '../src/text-output.js';

it('a table wraps long texts inside their column, and never cuts a word', () => {
  const note = 'one two three four five six seven eight nine ten eleven twelve thirteen fourteen';
  const path = `/${'a'.repeat(90)}`;
  const wrapped = textTable(['row', 'note'], [['x', note]], ['left', 'left']).split('\n');
  expect(wrapped.map(({ length }) => length)).toEqual(wrapped.map(() => 3 + 5 + 66));
  expect(wrapped.join('').match(/[a-z]+/g)).toEqual(['row', 'note', 'x', ...note.split(' ')]);
  expect(textTable(['row', 'note'], [['x', `kept in ${path}`]], ['left', 'left'])).toContain(path);
});

it('a knee is unknown where runs failed that could have missed the SLO', () => {
  const run = (sloAttainment: number | null): SweepRun => ({
    summary: sloAttainment === null ? null : ({ sloAttainment, goodput: 1, requestsPerSecond: 1, hitRates: {} } as ScenarioSummary),
    error: sloAttainment === null ? 'no room' : null,
  });
  const knee = (...shares: (number | null)[][]): string | undefined => {
    const points = shares.map((runs, value) => ({
      value: String(value),
      figures: figuresOf(runs.flatMap((share) => run(share).summary ?? [])),
      runs: runs.map(run),
    }));
    const rest = { path: 'x', held: [], seeds: 2, isScale: true, knee: kneeOf(points), sloShare: 0.9, interrupted: false };
    return sweepText([{ ...rest, points }])
      .split('\n')
      .at(-1);
  };
  expect(knee([1, 0.9], [0.9, 0.8])).toMatch(/^knee: x = 0 is the last point that keeps .* in the mean of its runs$/);
  expect(knee([0.8, 0.9], [1, 1])).toMatch(/^not even the first point keeps/);
  expect(knee([1, null], [0.9, 0.8])).toBe('knee unknown: x = 0 has runs that failed');
  expect(knee([1, 1], [0.9, null])).toMatch(/^knee unknown: x = 1 has runs that failed; up to 0 each point keeps the SLO/);
});
