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
