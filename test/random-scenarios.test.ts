import { runScenario, type ScenarioSummary } from '@braess/lab';
import { openRunDatabase } from '@braess/telemetry';
import { describe, expect, it } from 'vitest';
import { randomScenario } from './random-scenario.js';
import { createProject } from './small-cluster.js';

const project = createProject();
/**
 * A stretch with all happenings below, two in which requests are called off while their KV moves, two that once evicted blocks at other times pass by
 * pass, and one in which prompts once stood still that are computed by themselves and found blocks in a tier. Any other seed must do as well.
 */
const seeds = [...Array.from({ length: 18 }, (_, index) => 236 + index), 2, 10, 84, 191, 2117];
const run = (seed: number, name: string, more: Partial<Parameters<typeof runScenario>[0]>): Promise<ScenarioSummary> =>
  runScenario({ file: project.path(`${seed}.yaml`), out: project.path(`runs/${seed}-${name}`), transport: 'memory', ...more });

/** Sums of the parts of TTFT and E2E that miss the whole by most, and the least part, ms, of the requests that completed. */
const parts = `select count(*) as n, max(abs(queue_ms + tier_fetch_ms + prefill_ms + handover_ms + first_decode_ms - ttft_ms)) as ttft_off,
  max(abs(ttft_ms + (last_token_ns - first_token_ns) / 1e6 - e2e_ms)) as e2e_off,
  min(least(queue_ms, tier_fetch_ms, prefill_ms, handover_ms, first_decode_ms, e2e_ms - ttft_ms, (end_ns - last_token_ns) / 1e6)) as least_part,
  max(cached_tokens - input_tokens) as cached_beyond, count(distinct tier_fetch_bytes / (cached_tokens - cached_tokens_g1))
  filter (cached_tokens > cached_tokens_g1) as tier_sizes, max(tier_fetch_bytes / (cached_tokens - cached_tokens_g1))
  filter (cached_tokens > cached_tokens_g1) as tier_token_bytes, count(*) filter ((cached_tokens > cached_tokens_g1) and tier_fetch_ns = 0) as unwaited,
  count(*) filter (max_itl_ms < tpot_ms - 1e-6) as gaps_below_mean from requests where outcome = 'completed'`;

/** What the scenarios together came to: features that nothing comes of would test nothing. */
const happenings = `select count(*) filter (outcome = 'completed') as completed, count(*) filter (outcome = 'rejected') as rejected,
  count(*) filter (outcome = 'failed') as failed, count(*) filter (reason = 'timeout') as timeouts, count(*) filter (attempts > 1) as retried,
  count(*) filter (preemptions > 0) as preempted, count(*) filter (transfer_bytes > 0) as moved, count(*) filter (cached_tokens_g1 > 0) as cached,
  count(*) filter (cached_tokens > cached_tokens_g1) as from_tiers,
  count(*) filter (tier_fetch_ns > 0) as waited_for_tiers from requests`;

async function numbersOf(folder: string, ...queries: readonly string[]): Promise<Record<string, number>[]> {
  const database = await openRunDatabase(folder);
  try {
    const answers: Record<string, number>[] = [];
    for (const query of queries) {
      const { columns, rows } = await database.query(query);
      answers.push(Object.fromEntries(columns.map((name, column) => [name, Number(rows[0]?.[column] ?? 0)])));
    }
    return answers;
  } finally {
    database.close();
  }
}

const total: Record<string, number> = {};

describe.sequential('small scenarios with features mixed at random', () => {
  it.each(seeds)('seed %i: requests, blocks and parts add up, on one shard and two, pass by pass as well', async (seed) => {
    const scenario = randomScenario(seed);
    project.write(`${seed}.yaml`, JSON.stringify(scenario));
    const one = await run(seed, 'one', {});
    // Conservation, and nothing left with engines, tiers and fabric.
    expect(one.faults).toEqual([]);
    expect(one.inFlight).toBe(0);
    expect(one.submitted).toBe(one.completed + one.rejected + one.failed);

    const two = await run(seed, 'two', { shards: 2, strict: true });
    expect(two.shards).toBe(2);
    expect([two.fingerprint, two.recordFingerprint]).toEqual([one.fingerprint, one.recordFingerprint]);

    const settings = (scenario.serving as unknown[]).map((_, group) => `serving[${group}].passes=stepwise`);
    const stepwise = await run(seed, 'stepwise', { settings });
    expect(stepwise.recordFingerprint).toBe(one.recordFingerprint);

    const [found, happened] = (await numbersOf(one.folder, parts, happenings)) as [Record<string, number>, Record<string, number>];
    expect(found.n).toBe(one.completed);
    expect(found.ttft_off).toBeLessThan(1e-6);
    expect(found.e2e_off).toBeLessThan(1e-6);
    expect(found.least_part).toBeGreaterThan(-1e-9);
    expect(found.cached_beyond).toBeLessThan(one.completed === 0 ? 1 : 0);
    // Keys and values of the layers that keep every token; what came from a tier was waited for.
    const { name, kvPrecision } = scenario.model as { name: string; kvPrecision: string };
    const numbers: Record<string, number> = {
      'Llama-3.1-8B': 32 * 8 * 128,
      'Qwen3-30B-A3B': 48 * 4 * 128,
      'gpt-oss-20b': 12 * 8 * 64,
      'Qwen3-Next-80B-A3B': 12 * 2 * 256,
    };
    const tokenBytes = 2 * (numbers[name] as number) * (kvPrecision === 'fp8' ? 1 : 2);
    expect([0, tokenBytes]).toContain(found.tier_token_bytes);
    expect([found.tier_sizes, found.unwaited]).toEqual([found.tier_token_bytes === 0 ? 0 : 1, 0]);
    // The longest gap is no shorter than their mean, which with `prefill` holds what came between the engines, too.
    if ((scenario.telemetry as { firstTokenAt: string }).firstTokenAt === 'decode') expect(found.gaps_below_mean).toBe(0);
    for (const [name, value] of Object.entries(happened)) total[name] = (total[name] ?? 0) + value;
  });

  it('do all that they were meant to mix', () => {
    for (const [what, requests] of Object.entries(total)) expect(requests, what).toBeGreaterThan(3);
  });
});
