import { leastTimePlan } from '@braess/serving';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

const prefillNs = (perTokenNs: number) => (start: number, end: number) => (end - start) * perTokenNs;

describe('how much of a hit is brought up', () => {
  it('nothing when computing is quicker, all when bringing is', () => {
    const choice = { fromBlock: 0, held: [3], estimateNs: [3500], promptTokens: 70, blockTokens: 16 };
    // 3 blocks in 3,500 ns against 48 tokens.
    expect(leastTimePlan(choice, prefillNs(100))).toBe(3);
    expect(leastTimePlan(choice, prefillNs(60))).toBe(0);
  });

  it('the best cut at the end of a tier, by exhaustive search', () => {
    fc.assert(
      fc.property(
        fc.array(fc.record({ held: fc.nat(30), estimateNs: fc.nat(60_000) }), { minLength: 1, maxLength: 3 }),
        fc.nat(10),
        fc.integer({ min: 1, max: 200 }),
        (tiers, fromBlock, perTokenNs) => {
          const held = tiers.map((tier) => tier.held);
          const estimateNs = tiers.map((tier) => tier.estimateNs);
          const blocks = held.reduce((sum, count) => sum + count, fromBlock);
          const choice = { fromBlock, held, estimateNs, promptTokens: blocks * 16 + 5, blockTokens: 16 };
          const timeOf = (take: number): number => {
            let before = 0;
            let transferNs = 0;
            for (const [tier, count] of held.entries()) {
              if (count > 0 && before < take) transferNs = Math.max(transferNs, estimateNs[tier]!);
              before += count;
            }
            return transferNs + prefillNs(perTokenNs)((fromBlock + take) * 16, choice.promptTokens);
          };
          const cuts = held.map((_count, tier) => held.slice(0, tier + 1).reduce((sum, count) => sum + count, 0));
          const least = Math.min(timeOf(0), ...cuts.map(timeOf));
          const take = leastTimePlan(choice, prefillNs(perTokenNs));
          expect([0, ...cuts]).toContain(take);
          expect(timeOf(take)).toBe(least);
        },
      ),
      { numRuns: 300, seed: 5 },
    );
  });
});
