import { bindPolicy, builtInPolicy, builtInPolicyNames, type NetworkSite, networkTiers, type OraclePolicy } from '@braess/control';
import { describe, expect, it } from 'vitest';
import { engineLog, type FakeEngine, type FakeRequest, imbalance, router, simulate } from './fakes.js';

/** All engines in one rack. */
const site = {
  tiersFrom: () => new Int8Array(12).fill(1),
  tierBetween: () => 1,
  tierBytesPerSecond: Float64Array.of(450e9, 50e9, 25e9, 12e9, 1e9),
  tierLatencyNs: new Float64Array(networkTiers).fill(1000),
} as unknown as NetworkSite;

describe.each(builtInPolicyNames('router'))('decode stage, router %s', (name) => {
  it('uses equal engines at equal distances alike', () => {
    const prefill: FakeEngine = { role: 1, prefillNs: 1000 };
    const decode: FakeEngine = { role: 2, transferNs: 500, tokenNs: 4750 };
    // Each decodes for 10 us: 8 engines at one request every 2 us, 62 % of one request each.
    const requests: FakeRequest[] = Array.from({ length: 4000 }, (_, index) => ({ atNs: 2000 * index, inputTokens: 32, outputTokens: 3 }));
    const decodeRouter = router(name, name === 'netkv-joint' ? { windowMs: 0.01 } : {});
    const simulation = simulate(
      {
        engines: [prefill, prefill, prefill, prefill, ...Array.from({ length: 8 }, () => decode)],
        requests,
        options: { decodeRouter, site, oracle: bindPolicy(builtInPolicy('oracle', 'static-tier') as OraclePolicy), kvBytesPerToken: 1 },
      },
      { strict: false },
    );
    simulation.runUntil();
    const counts = Array.from({ length: 8 }, (_, index) => engineLog(simulation, 4 + index).decodes.length);
    expect(counts.reduce((a, b) => a + b)).toBe(4000);
    // As for prefill: chi-square with 7 degrees of freedom is below 24.3 in 99.9 % of independent draws, and nothing should be less even.
    const chiSquare = counts.reduce((sum, count) => sum + (count - 500) ** 2 / 500, 0);
    expect(chiSquare).toBeLessThan(24.3);
    expect(imbalance(simulation)).toBe(0);
  });
});
