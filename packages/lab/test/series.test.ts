import { queryRun } from '@braess/telemetry';
import { describe, expect, it } from 'vitest';
import { aggregated, disaggregated, runText } from './small-runs.js';

/** Long answers: they go on over several periods. */
const long = 'workload.source.outputTokens={kind: lognormal, meanTokens: 300, sigma: 0.5}';

describe('the series of output tokens', () => {
  it.each([
    ['disaggregated', disaggregated, [long]],
    ['aggregated', aggregated, [long]],
    ['pass by pass', aggregated, [long, 'serving[0].passes=stepwise']],
    ['preempted', aggregated, [long, 'workload.rateFactor=4', 'serving[0].kvBlocks=260']],
    ['streamed', disaggregated, [long, 'telemetry.streamTokens=true']],
  ])('%s: sums up to the tokens of the answers, each where it was put out', async (name, text, settings) => {
    const { folder, faults } = await runText(text, settings);
    expect(faults).toEqual([]);
    const samples = (await queryRun(folder, "select time_s, value from series where metric = 'output_tokens_per_second' order by time_s"))
      .rows;
    const answers = (await queryRun(folder, 'select first_token_ns / 1e9, last_token_ns / 1e9, output_tokens, preemptions from requests'))
      .rows as [number, number, number, number][];
    expect(answers.some(([, , , preemptions]) => preemptions > 0)).toBe(name === 'preempted');
    /** By even steps from the first token to the last; a pass with others' prompts, or a preemption, makes them uneven. */
    const putOutBy = (seconds: number): number =>
      answers.reduce((sum, [first, last, tokens]) => {
        if (seconds < first) return sum;
        return sum + (seconds >= last ? tokens : 1 + ((tokens - 1) * (seconds - first)) / (last - first));
      }, 0);
    const total = putOutBy(Number.POSITIVE_INFINITY);
    let soFar = 0;
    for (const [seconds, perSecond] of samples as [number, number][]) {
      soFar += perSecond;
      expect(Math.abs(soFar - putOutBy(seconds)) / total, `by ${seconds} s`).toBeLessThan(0.05);
    }
    expect(soFar).toBeCloseTo(total, 6);
  });
});

describe('the series of use', () => {
  const prompts = `name: prompts
cluster: { gpusPerServer: 2 }
serving:
  - { count: 1, role: prefill, maxSequences: 1, timing: { kind: linear, prefillMs: 1300, prefillMsPerToken: 0, decodeMs: 7, decodeMsPerSequence: 0 } }
  - { count: 1, role: decode, timing: { kind: linear, prefillMs: 1300, prefillMsPerToken: 0, decodeMs: 7, decodeMsPerSequence: 0 } }
workload:
  requests: 5
  source:
    kind: independent
    arrivals: { kind: constant, ratePerSecond: 1000 }
    inputTokens: { kind: constant, tokens: 100 }
    outputTokens: { kind: constant, tokens: 30 }
`;
  const useOf = async (settings: readonly string[], gpus = '%'): Promise<[number, number][]> => {
    const { folder } = await runText(prompts, settings);
    const { rows } = await queryRun(
      folder,
      `select value, time_s - lag(time_s, 1, 0) over (partition by entity order by time_s)
       from series where metric = 'gpu_use' and entity like '${gpus}' order by entity, time_s`,
    );
    return rows as [number, number][];
  };

  it.each([0.1, 0.5, 1, 5])('sums up to the time of the passes, however long they are beside its period (%d s)', async (seconds) => {
    const use = await useOf([`telemetry.seriesSeconds=${seconds}`]);
    // Five prompts of 1.3 s, one after the other, and 30 tokens of 7 ms each for each of them.
    expect(use.reduce((sum, [value, span]) => sum + value * span, 0)).toBeCloseTo(5 * 1.3 + 5 * 30 * 0.007, 6);
  });

  it.each([0.1, 1])('counts the time of prompts that are computed side by side once (%d s)', async (seconds) => {
    const use = await useOf(
      [`telemetry.seriesSeconds=${seconds}`, 'serving[0].prompts=independent', 'serving[0].maxSequences=8'],
      '%/gpu0',
    );
    // They come a millisecond apart.
    expect(use.reduce((sum, [value, span]) => sum + value * span, 0)).toBeCloseTo(1.3 + 4 * 0.001, 6);
  });

  it('counts the weights of experts as often as a pass reads them: once, or for each half of an overlapped one', async () => {
    const readS = async (twoBatchOverlap: boolean): Promise<number> => {
      const { folder } = await runText(
        `name: experts
cluster: { racksPerPod: 1, serversPerRack: 2, gpusPerServer: 2 }
model: { name: Qwen3-30B-A3B, weightPrecision: fp8 }
serving:
  - { count: 1, tensorParallel: 4, attention: data-parallel, twoBatchOverlap: ${twoBatchOverlap} }
telemetry: { seriesSeconds: 0.5 }
workload:
  requests: 32
  source:
    kind: independent
    arrivals: { kind: constant, ratePerSecond: 1.0e+6 }
    inputTokens: { kind: constant, tokens: 4 }
    outputTokens: { kind: constant, tokens: 400 }
`,
      );
      const { rows } = await queryRun(
        folder,
        `select sum(value * span) from (select value, time_s - lag(time_s, 1, 0) over (partition by entity order by time_s) as span
         from series where metric = 'hbm_bandwidth_use' and entity = 'pod0/rack0/node1/gpu1')`,
      );
      return rows[0]![0] as number;
    };
    // 48 layers: attention of 32 heads and 4 KV heads of 128, the gate; three matrices of 2,048 x 768 an expert, 32 of 128 a GPU; a quarter of the output head.
    const whole = 48 * (2048 * 128 * (32 + 4 + 4 + 32) + 2048 * 128);
    const headBytes = (2 * 151_936 * 2048) / 4;
    const passBytes = (halves: number): number => {
      const hit = 32 * (1 - (1 - 8 / 128) ** (32 / halves));
      return halves * (whole + headBytes + hit * 48 * 3 * 2048 * 768);
    };
    // The KV of 32 short contexts is some per cent of it, and is read once.
    expect((await readS(true)) / (await readS(false)) / (passBytes(2) / passBytes(1))).toBeCloseTo(1, 1);
    expect(passBytes(2) / passBytes(1)).toBeGreaterThan(1.5);
  });

  it('ends with a death in the middle of a pass', async () => {
    const use = await useOf([
      'telemetry.seriesSeconds=1',
      'faults=[{ kind: gpu-speed, atSeconds: 2.1, gpu: pod0/rack0/node0/gpu0, factor: 0 }]',
      'router.onEngineDeath=fail',
    ]);
    // The first request comes after 1 ms, is at its engine 0.6 ms later, and is answered; the second prompt is cut.
    expect(use.reduce((sum, [value, span]) => sum + value * span, 0)).toBeCloseTo(2.1 - 0.0016 + 30 * 0.007, 6);
    expect(Math.min(...use.map(([value]) => value))).toBeGreaterThanOrEqual(0);
  });
});
