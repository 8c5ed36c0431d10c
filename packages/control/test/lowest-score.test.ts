import { createRouterView, lowestScore, routerStage } from '@braess/control';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

describe('the lowest score', () => {
  it('is found as by sorting, ties decided by one draw, and stands with all others in the view', () => {
    const scores = fc.array(fc.constantFrom(-1, 0, 0.5, 3, Number.POSITIVE_INFINITY), { minLength: 1, maxLength: 600 });
    fc.assert(
      fc.property(scores, fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), fc.nat(), (given, drawn, first) => {
        const candidates = [...given.keys()].slice(first % given.length);
        const view = createRouterView({ stage: routerStage.decode, blockTokens: 16, engines: given.map(() => ({})), candidates });
        let draws = 0;
        const random = (): number => {
          draws++;
          return drawn;
        };
        const column = Float64Array.from(given);
        const ordered = [...candidates].sort((a, b) => (given[a] === given[b] ? a - b : given[a]! - given[b]!));
        const ties = ordered.filter((engine) => given[engine] === given[ordered[0]!]);
        expect(lowestScore(view, random, column)).toBe(ties[ties.length === 1 ? 0 : Math.floor(drawn * ties.length)]);
        expect(draws).toBe(ties.length === 1 ? 0 : 1);
        for (const engine of candidates) expect(view.scores[engine]).toBe(given[engine]);
      }),
    );
  });

  it('refuses a score that is none, naming its engine', () => {
    const view = createRouterView({ stage: routerStage.decode, blockTokens: 16, engines: [{}, { name: 'pod0/engine1' }] });
    expect(() => lowestScore(view, Math.random, Float64Array.of(0, Number.NaN))).toThrow(/score of engine 1 \(pod0\/engine1\) is NaN/);
  });
});
