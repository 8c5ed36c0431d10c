import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseScenario, validateScenario } from '@braess/cluster';
import { queryRun } from '@braess/telemetry';
import { describe, expect, it } from 'vitest';
import { runText } from './small-runs.js';

/** One engine with the published polynomial, so that every time can be worked out on paper. */
const alone = `
name: alone
cluster: { gpusPerServer: 1, racksPerPod: 1, serversPerRack: 1 }
model: { name: Llama-3.1-8B }
serving: [{ count: 1, blockTokens: 16, kvBlocks: 1000, timing: { kind: polynomial } }]
delays: { clientUs: 20000, controlUs: 500 }
workload:
  requests: 3
  source:
    kind: independent
    arrivals: { kind: constant, ratePerSecond: 10 }
    inputTokens: { kind: constant, tokens: 1000 }
    outputTokens: { kind: constant, tokens: 1 }
`;

/** Dynamo's mocker: ms of a prefill of n tokens. */
const prefillMs = (tokens: number): number => 4.209989e-7 * tokens * tokens + 1.518344e-2 * tokens + 16.50142;

describe('times worked out by hand', () => {
  it('arrival is when the client sends: TTFT and E2E hold its way to the frontend', async () => {
    const run = await runText(alone);
    const { rows } = await queryRun(
      run.folder,
      'select arrival_ns, queued_ns, prefill_start_ns, first_token_ns, ttft_ms, e2e_ms, queue_ms from requests order by request_id',
    );
    // 20 ms to the frontend, 0.5 ms to the engine, which is idle, and one prefill of the prompt.
    const ttftMs = 20 + 0.5 + prefillMs(1000);
    for (const [index, row] of rows.entries()) {
      const sentNs = 100e6 * (index + 1);
      expect(row.slice(0, 3)).toEqual([sentNs, sentNs + 20.5e6, sentNs + 20.5e6]);
      expect(row[3]).toBe(Math.round(sentNs + ttftMs * 1e6));
      expect(row[4]).toBeCloseTo(ttftMs, 5);
      expect(row[5]).toBeCloseTo(ttftMs, 5);
      expect(row[6]).toBeCloseTo(20.5, 9);
    }
    expect(run.ttftMs?.mean).toBeCloseTo(ttftMs, 5);
  });

  it('a request still in flight, one that was rejected, and one whose client answers for it count from there, too', async () => {
    const arrivals = async (settings: string[]): Promise<unknown> =>
      (await queryRun((await runText(alone, settings)).folder, 'select outcome, arrival_ns from requests order by request_id')).rows;
    expect(await arrivals(['untilSeconds=0.16'])).toEqual([['completed', 100e6]]);
    expect(await arrivals(['untilSeconds=0.13'])).toEqual([['in_flight', 100e6]]);
    expect(await arrivals(['serving[0].maxModelTokens=500', 'workload.requests=1'])).toEqual([['rejected', 100e6]]);
    expect(await arrivals(['workload.retry={timeoutMs: 1000}', 'workload.requests=1'])).toEqual([['completed', 100e6]]);
  });
});

describe('one prefill at a time is the queue of the textbooks', () => {
  const serviceNs = Math.round(prefillMs(1000) * 1e6);
  /** When each request came to the engine and when its prefill began, in order of arrival, and its tenant. */
  const queueOf = async (load: number, settings: readonly string[] = []): Promise<[number, number, string][]> => {
    const { folder } = await runText(alone, [
      'workload.requests=15000',
      `workload.source.arrivals={kind: poisson, ratePerSecond: ${load / (serviceNs / 1e9)}}`,
      'serving[0].maxSequences=1',
      'serving[0].prefixCaching=false',
      'telemetry={seriesSeconds: 0, decisionsEvery: 0}',
      'seed=2',
      ...settings,
    ]);
    return (await queryRun(folder, 'select queued_ns, prefill_start_ns, tenant from requests order by request_id')).rows as never;
  };
  const meanWaitNs = (rows: readonly [number, number, string][]): number =>
    rows.reduce((sum, [queuedNs, startNs]) => sum + startNs - queuedNs, 0) / rows.length;

  // Some standard errors of 15,000 waits, which hang together the longer the busier the server is.
  for (const [load, tolerance] of [
    [0.3, 0.05],
    [0.6, 0.07],
    [0.8, 0.12],
    [0.9, 0.2],
    [0.95, 0.35],
  ] as const) {
    it(`first come first served at load ${load}: Lindley's recursion to the nanosecond, and the first two moments of M/D/1`, async () => {
      const rows = await queueOf(load);
      let freeNs = 0;
      const starts = rows.map(([queuedNs]) => {
        const startNs = Math.max(queuedNs, freeNs);
        freeNs = startNs + serviceNs;
        return startNs;
      });
      expect(rows.findIndex(([, startNs], index) => startNs !== starts[index])).toBe(-1);
      // Pollaczek and Khinchine.
      const expectedNs = (load * serviceNs) / (2 * (1 - load));
      expect(Math.abs(meanWaitNs(rows) / expectedNs - 1)).toBeLessThan(tolerance);
      // The mean is the same last come first served; the second moment is 1 / (1 - load) times as large then (Takacs).
      const squares = rows.reduce((sum, [queuedNs, startNs]) => sum + (startNs - queuedNs) ** 2, 0) / rows.length;
      const expectedSquare = 2 * expectedNs ** 2 + (load * serviceNs ** 2) / (3 * (1 - load));
      expect(Math.abs(squares / expectedSquare - 1)).toBeLessThan(3 * tolerance);
    });
  }

  it('by priority: the urgent tenant waits for the pass in progress and its own kind, the other for both', async () => {
    const load = 0.8;
    const rows = await queueOf(load, [
      'workload.tenants=[{name: urgent, share: 1, priority: 1}, {name: other, share: 3}]',
      'serving[0].schedulingPolicy=priority',
    ]);
    // Kleinrock II, 3.4, with the work found in service lambda S^2 / 2.
    const residualNs = (load * serviceNs) / 2;
    const waitNs = (name: string): number => meanWaitNs(rows.filter(([, , tenant]) => tenant === name));
    expect(Math.abs(waitNs('urgent') / (residualNs / (1 - load / 4)) - 1)).toBeLessThan(0.05);
    expect(Math.abs(waitNs('other') / (residualNs / ((1 - load / 4) * (1 - load))) - 1)).toBeLessThan(0.15);
  });
});

it('validate says when priorities of tenants change nothing', async () => {
  const warnings = async (...settings: string[]): Promise<string> =>
    (
      await validateScenario(parseScenario(alone, 'alone.yaml', ['workload.tenants=[{name: a, share: 1, priority: 1}]', ...settings]))
    ).warnings.join();
  expect(await warnings()).toContain('nothing goes by them');
  expect(await warnings('serving[0].schedulingPolicy=priority')).not.toContain('nothing goes by them');
  expect(await warnings('router.queue={order: wspt, maxEngineRequests: 1}')).not.toContain('nothing goes by them');
});

describe('what a run refuses, validate refuses, in the same words', () => {
  for (const [name, settings, message] of [
    [
      'workers that would have to wait for answers of sessions',
      ['workload.client={kind: closed-loop, inFlight: 4}', 'workload.sessions={}'],
      'workload.client cannot be used: client loop: workers take requests in order',
    ],
    ['a trace without requests', ['workload.requests=null', 'untilSeconds=0.01'], 'workload has no requests'],
    [
      'blocks that do not divide those of the prompts',
      [
        'serving[0].blockTokens=24',
        'workload.source.prefix={groups: 1, popularity: {kind: uniform}, prefixTokens: {kind: constant, tokens: 64}}',
        'workload.source.blockTokens=64',
      ],
      'serving[0].blockTokens cannot serve these requests: engine block size 24 does not fit',
    ],
  ] as const) {
    it(name, async () => {
      await expect(runText(alone, settings)).rejects.toThrow(message);
      await expect(validateScenario(parseScenario(alone, 'alone.yaml', settings))).rejects.toThrow(message);
    });
  }

  it('what only shows when the actors are built is found by building them', async () => {
    const settings = ['actors=[{policy: ./nobody.ts}]'];
    const { testFile } = await import('./small-runs.js');
    const file = testFile(
      'nobody.ts',
      `import { defineActorPolicy } from '@braess/control';
       import { z } from 'zod';
       export default defineActorPolicy({ name: 'nobody', description: 'Looks for nobody.', parameters: z.strictObject({}),
         build(_cell, _parameters, { actors }) { if (!actors.has('nobody')) throw new RangeError('nobody is not there'); } });`,
    );
    const named = settings.map((setting) => setting.replace('./nobody.ts', file));
    await expect(runText(alone, named)).rejects.toThrow('nobody is not there');
    await expect(validateScenario(parseScenario(alone, 'alone.yaml', named))).rejects.toThrow(/alone\.yaml.*nobody is not there/s);
  });
});

describe('what makes a result doubtful is said', () => {
  it('a warm-up that leaves nothing', async () => {
    expect((await runText(alone, ['warmupSeconds=10'])).warnings).toEqual([
      'no request that completed arrived after the warm-up of 10 s: there are no latencies, rates or hit rates',
    ]);
    expect((await runText(alone, ['warmupSeconds=0.15'])).warnings).toEqual([]);
  });

  it('a damaged table of a run folder', async () => {
    const { folder } = await runText(alone);
    writeFileSync(join(folder, 'requests.parquet'), 'PAR1');
    await expect(queryRun(folder, 'select 1')).rejects.toThrow(/requests\.parquet is damaged \(.*\); run it again$/);
  });
});
