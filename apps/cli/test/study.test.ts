import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { braess } from './braess-process.js';
import { temporaryFolder } from './temporary-folder.js';

const folder = temporaryFolder();

interface Table {
  readonly id: string;
  readonly head: readonly string[];
  readonly rows: readonly (readonly (string | number | null)[])[];
}

it('braess study poa --quick --json prints the mechanisms, the controls and the claims, and writes them', {
  timeout: 180_000,
}, async () => {
  const out = folder.path('poa');
  const { code, out: text, err } = await braess(['study', 'poa', '--quick', '--json', '--out', out]);
  expect(code, err).toBe(0);
  const report = JSON.parse(text) as { name: string; quick: boolean; runs: number; finding: string; tables: Table[] };
  expect(report).toMatchObject({ name: 'poa', quick: true });
  expect(JSON.parse(readFileSync(join(out, 'study.json'), 'utf8'))).toEqual(report);
  expect(report.finding).not.toMatch(/undefined|NaN/);
  const table = (id: string): Table => report.tables.find((each) => each.id === id)!;
  for (const { head, rows } of report.tables) for (const row of rows) expect(row).toHaveLength(head.length);

  // 100 connections and 5.35 s of decode: at most 18.7 requests/s, whatever the queue; without a limit 128 / 5.5 s.
  const { head, rows } = table('mechanisms');
  const rps = (mechanism: string) => rows.find(([name]) => name === mechanism)![head.indexOf('rps')] as number;
  expect(rps('limit 100, fifo')).toBeLessThan(100 / (242 * 0.022));
  expect(rps('limit 100, fifo')).toBeGreaterThan(0.95 * (100 / (242 * 0.022)));
  expect(rps('no limit') / (128 / (242 * 0.022 + 0.127))).toBeGreaterThan(0.95);
  expect(rps('no limit') / (128 / (242 * 0.022 + 0.127))).toBeLessThan(1.05);
  // With one prefill engine omega has nothing to choose from.
  expect(
    new Set(
      table('omega')
        .rows.slice(0, 4)
        .map((row) => row.at(-1)),
    ).size,
  ).toBe(1);
  // An assignment in the units of the loads themselves is near the best one.
  const same = table('definitions').rows.find(([name]) => String(name).startsWith('same units'))!;
  for (const value of same.slice(1, -1)) expect(value).toBeGreaterThanOrEqual(1);
  expect(new Set(table('claims').rows.map(([, verdict]) => verdict))).toEqual(new Set(['survives', 'does not survive']));
});
