import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import {
  type AccuracyRow,
  accuracyRows,
  calibrateSweep,
  loadCatalogue,
  profileNamed,
  promptsWereCached,
  readMeasured,
  servingObjective,
  sweepFits,
  sweepObjective,
} from '@braess/serving';
import { describe, expect, it } from 'vitest';

const folder = fileURLToPath(new URL('../../../../shared/measured', import.meta.url));
const present = existsSync(folder);
const note = present ? '' : ' (NOT RUN: no measured data beside the repository)';

function errorsOf(rows: AccuracyRow[], part: string): number[] {
  return rows.filter((row) => row.id.includes(part)).map((row) => Math.abs(row.errorPercent));
}

function mean(values: number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

describe(`accuracy against measured engines${note}`, () => {
  if (!present) {
    it.skip('measured data is absent', () => {});
    return;
  }
  const catalogue = loadCatalogue();
  const measured = readMeasured(folder);
  const rows = accuracyRows(folder, catalogue);

  it('predicts every row that was not fitted: prefill within 6 %, decode within 10 % on average, none over 30 %', () => {
    const predicted = rows.filter((row) => row.basis === 'prediction' && !row.id.startsWith('b200'));
    // TP2 of the 70B: 9 prefill and 39 decode rows; odd-indexed 8B rows: 8 and 19.
    expect(errorsOf(predicted, '/prefill/')).toHaveLength(17);
    expect(errorsOf(predicted, '/decode/')).toHaveLength(58);
    expect(mean(errorsOf(predicted, '/prefill/'))).toBeLessThan(6);
    expect(mean(errorsOf(predicted, '/decode/'))).toBeLessThan(10);
    for (const name of ['h100-llama-3.1-70b-tp2', 'h200-llama-3.1-8b']) {
      const part = predicted.filter((row) => row.id.startsWith(name));
      expect(mean(errorsOf(part, '/prefill/')), name).toBeLessThan(6);
      expect(mean(errorsOf(part, '/decode/')), name).toBeLessThan(10);
    }
    for (const row of rows) expect(Math.abs(row.errorPercent), row.id).toBeLessThan(30);
  });

  it('B200: from the 16-client run, predicts 32 and 64 clients: TPOT within 10 %, TTFT within 25 %', () => {
    const predicted = rows.filter((row) => row.basis === 'prediction' && row.id.startsWith('b200'));
    expect(predicted).toHaveLength(4);
    expect(Math.max(...errorsOf(predicted, 'tpot-median'))).toBeLessThan(10);
    expect(Math.max(...errorsOf(predicted, 'ttft-median'))).toBeLessThan(25);
  });

  it('the constants of the catalogue are those of the fit', () => {
    // A fit from the catalogue's constants on finds nothing better: they are a minimum over the fit rows, and were not moved by hand.
    for (const [index, { profile, constants }] of sweepFits.entries()) {
      const sweep = measured.sweeps[index === 0 ? 0 : 2]!;
      const start = profileNamed(catalogue, profile);
      const before = sweepObjective(catalogue, sweep, start);
      const after = calibrateSweep(catalogue, sweep, start, constants, 30).objective;
      expect(before - after, profile).toBeLessThan(0.02 * before);
      for (const key of constants) expect(start.bases[Object.keys(start.bases).find((path) => path.endsWith(`.${key}`))!]).toBe('fit');
    }
    expect(servingObjective(catalogue, measured, profileNamed(catalogue, 'vllm-b200-llama-70b'))).toBeLessThan(0.1);
  });

  it('reads from the throughput whether prompts were cached', () => {
    expect(measured.sweeps.map(promptsWereCached)).toEqual([false, false, true]);
  });
});
