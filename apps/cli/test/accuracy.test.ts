import { existsSync, mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { AccuracyRow } from '@braess/serving';
import { describe, expect, it } from 'vitest';
import { judgeAccuracy } from '../src/accuracy-targets.js';
import { braess } from './braess-process.js';
import { temporaryFolder } from './temporary-folder.js';

const folder = temporaryFolder();
const shared = fileURLToPath(new URL('../../../../shared/measured', import.meta.url));
const present = existsSync(shared);

/** Made-up measurements of a sweep that is only predicted (TP2 of the 70B) and of two runs of chat clients. */
function sweepOf(prefillMs: readonly [number, number], decodeMs: number): object[] {
  return [
    {
      gpu: 'h100_sxm',
      model: 'Llama-3.3-70B-Instruct-FP8',
      tp: 2,
      block_size: 128,
      max_kv_tokens: 224133,
      prefill: [
        { input_tokens: 1000, ttft_ms: prefillMs[0] },
        { input_tokens: 4000, ttft_ms: prefillMs[1] },
      ],
      decode: [{ kv_usage: 1000 / 224133, context_tokens: 1000, itl_ms: decodeMs, tokens_per_s_per_gpu: 980 / decodeMs }],
    },
  ];
}

function servingOf(ttftMs: readonly [number, number], tpotMs: readonly [number, number]): object {
  const lengths = { mean: 300, p50: 200 };
  const runs = [16, 32].map((clients, run) => ({
    clients,
    requests: 4 * clients,
    ttft_ms: { p50: ttftMs[run] },
    tpot_ms: { p50: tpotMs[run] },
    prefix_hit_percent: 50,
    input_tokens: { mean: 2000, p50: 1700 },
    output_tokens: lengths,
  }));
  return { gpu: 'b200', model: 'Llama-3.3-70B-Instruct-FP4', tp: 8, runs };
}

function measuredFolder(name: string, sweeps: unknown, serving: unknown): string {
  mkdirSync(folder.path(name));
  folder.file(`${name}/engine_latency.json`, JSON.stringify(sweeps));
  folder.file(`${name}/serving_b200_70b_fp4_tp8.json`, JSON.stringify(serving));
  return folder.path(name);
}

async function rowsOf(measured: string): Promise<{ code: number | null; err: string; rows: AccuracyRow[] }> {
  const { code, out, err } = await braess(['accuracy', '--measured', measured, '--json']);
  return { code, err, rows: JSON.parse(out) as AccuracyRow[] };
}

describe('braess accuracy', () => {
  it('compares with what was measured: exact where that is what we predict, missed where it is not', async () => {
    const { rows } = await rowsOf(measuredFolder('guess', sweepOf([100, 400], 20), servingOf([100, 100], [10, 10])));
    expect(rows.map(({ id, basis }) => [id, basis])).toEqual([
      ['h100-llama-3.1-70b-tp2/prefill/1000', 'prediction'],
      ['h100-llama-3.1-70b-tp2/prefill/4000', 'prediction'],
      ['h100-llama-3.1-70b-tp2/decode/1x1000', 'prediction'],
      ['b200-70b-tp8/16-clients/ttft-median', 'fit'],
      ['b200-70b-tp8/16-clients/tpot-median', 'fit'],
      ['b200-70b-tp8/32-clients/ttft-median', 'prediction'],
      ['b200-70b-tp8/32-clients/tpot-median', 'prediction'],
    ]);
    for (const { measured, predicted, errorPercent } of rows) expect(errorPercent).toBeCloseTo(100 * (predicted / measured - 1), 9);

    // Measurements equal to the predictions, then one group off by more than its target.
    const [short, long, decode, ttft16, tpot16, ttft32, tpot32] = rows.map(({ predicted }) => predicted) as [
      number,
      number,
      number,
      number,
      number,
      number,
      number,
    ];
    const serving = servingOf([ttft16, ttft32], [tpot16, tpot32]);
    const exact = await rowsOf(measuredFolder('exact', sweepOf([short, long], decode), serving));
    expect(exact).toMatchObject({ code: 0, err: '' });
    expect(exact.rows.map(({ errorPercent }) => errorPercent)).toEqual([0, 0, 0, 0, 0, 0, 0]);

    const off = measuredFolder('off', sweepOf([short / 1.07, long / 1.07], decode), servingOf([ttft16, ttft32], [tpot16, tpot32 / 1.11]));
    const missed = 'target missed: h100-llama-3.1-70b-tp2/prefill, prediction\ntarget missed: b200-70b-tp8/tpot-median, prediction\n';
    const { code, out, err } = await braess(['accuracy', '--measured', off]);
    expect({ code, err }).toEqual({ code: 1, err: missed });
    expect(out).toMatch(/│ h100-llama-3\.1-70b-tp2\/prefill │ prediction │ +2 │ +7\.00 │ +6 │ +7\.00 │ +30 │ no +│/);
    expect(out).toMatch(/│ h100-llama-3\.1-70b-tp2\/decode +│ prediction │ +1 │ +0\.00 │ +10 │ +0\.00 │ +30 │ yes +│/);
    expect(out).toMatch(/│ b200-70b-tp8\/tpot-median +│ prediction │ +1 │ +11\.00 │ +- │ +11\.00 │ +10 │ no +│/);
    expect(out).toMatch(/A target is missed\.\n$/);
    expect(await rowsOf(off)).toMatchObject({ code: 1, err: missed });
  });

  it.skipIf(!present)('reaches its targets on the measurements beside the checkout, without --measured', async () => {
    const { code, out, err } = await braess(['accuracy']);
    expect({ code, err }).toEqual({ code: 0, err: '' });
    expect(out).toMatch(/All targets are reached\.\n$/);
  });

  it('refuses a folder that lacks the files, and names option and format', async () => {
    const { code, out, err } = await braess(['accuracy', '--measured', folder.path('')]);
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toContain(`--measured: '${folder.path('')}' has no engine_latency.json. DIR holds two JSON files`);
  });

  it('does not call targets reached when nothing was measured', async () => {
    const { code, out, err } = await braess([
      'accuracy',
      '--measured',
      measuredFolder('nothing', [], { gpu: 'b200', model: 'Llama-3.3-70B-Instruct-FP4', tp: 8, runs: [] }),
    ]);
    expect({ code, out }).toEqual({ code: 1, out: '' });
    expect(err).toContain('holds no measured row');
  });

  it.each([
    ['text', 'hello', /engine_latency\.json: the whole is "hello", expected an array/],
    ['negative', sweepOf([-1, 2], 3), /engine_latency\.json: \[0\]\.prefill\[0\]\.ttft_ms is -1, expected a number above 0/],
    ['absent', [{ gpu: 'h100_sxm' }], /engine_latency\.json: \[0\]\.model is missing, expected a text/],
    [
      'unknown',
      sweepOf([1, 2], 3).map((sweep) => ({ ...sweep, gpu: 'abacus' })),
      /measured engine "abacus Llama-3\.3-70B-Instruct-FP8" is not known/,
    ],
  ])('says where the content is wrong: %s', async (name, sweeps, message) => {
    const { code, out, err } = await braess(['accuracy', '--measured', measuredFolder(name, sweeps, servingOf([1, 1], [1, 1]))]);
    expect({ code, out }).toEqual({ code: 1, out: '' });
    expect(err).toMatch(message);
  });
});

describe('the targets', () => {
  function reached(id: string, basis: AccuracyRow['basis'], ...errors: number[]): boolean {
    const rows = errors.map((errorPercent): AccuracyRow => ({ id, measured: 1, predicted: 1 + errorPercent / 100, errorPercent, basis }));
    const verdicts = judgeAccuracy(rows);
    expect(verdicts).toHaveLength(1);
    return verdicts[0]!.reached;
  }

  it.each([
    ['e/prefill/100', [6, -6], [7, -6]],
    ['e/decode/1x100', [10, -10], [11, -10]],
    ['e/prefill/100', [0, 0, 0, 0, 0, -30], [0, 0, 0, 0, 0, 0, -31]],
    ['e/decode/1x100', [0, 0, 30], [0, 0, 0, 31]],
    ['b/32-clients/ttft-median', [25, -25], [26]],
    ['b/32-clients/tpot-median', [10, -10], [-11]],
  ])('%s: errors of %j are within, of %j are not', (id, within, beyond) => {
    expect(reached(id, 'prediction', ...within)).toBe(true);
    expect(reached(id, 'prediction', ...beyond)).toBe(false);
  });

  it('judge fitted rows of sweeps by their largest error alone', () => {
    expect(reached('e/prefill/100', 'fit', 29, 29)).toBe(true);
    expect(reached('e/prefill/100', 'fit', 31)).toBe(false);
    expect(reached('b/16-clients/tpot-median', 'fit', 50)).toBe(true);
  });
});
