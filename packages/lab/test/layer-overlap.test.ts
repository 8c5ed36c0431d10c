import { clusterProgram, loadWorkload, parseScenario, planCluster } from '@braess/cluster';
import type { FrontendState } from '@braess/control';
import { modelOf, Simulation } from '@braess/kernel';
import { queryRun } from '@braess/telemetry';
import { describe, expect, it } from 'vitest';
import { essence, runText } from './small-runs.js';

/** One prefill and one decode engine on two servers, one request, times that can be worked out on paper. */
const alone = `
name: alone
cluster: { racksPerPod: 2, gpusPerServer: 1, fabric: { noticeUs: 1 } }
serving:
  - { count: 1, role: prefill, timing: { kind: linear, prefillMs: 20, prefillMsPerToken: 0.05, decodeMs: 10, decodeMsPerSequence: 0.1 } }
  - { count: 1, role: decode, timing: { kind: linear, prefillMs: 20, prefillMsPerToken: 0.05, decodeMs: 10, decodeMsPerSequence: 0.1 } }
workload:
  requests: 1
  source:
    kind: independent
    arrivals: { kind: constant, ratePerSecond: 1 }
    inputTokens: { kind: constant, tokens: 2000 }
    outputTokens: { kind: constant, tokens: 3 }
`;
/** Llama-3.1-8B: 32 layers, 8 KV heads of 128, keys and values, 2 bytes. */
const layers = 32;
const kvBytes = 2000 * layers * 8 * 128 * 2 * 2;
const prefillNs = (20 + 0.05 * 2000) * 1e6;

interface Times {
  readonly prefillEnd: number;
  readonly start: number;
  readonly end: number;
  readonly firstToken: number;
  readonly bytes: number;
}

async function timesOf(settings: readonly string[]): Promise<Times> {
  const run = await runText(alone, settings);
  const sql = 'select prefill_end_ns, transfer_start_ns, transfer_end_ns, first_token_ns, transfer_bytes from requests';
  const [row] = (await queryRun(run.folder, sql)).rows as number[][];
  const [prefillEnd, start, end, firstToken, bytes] = row!.map(Number) as [number, number, number, number, number];
  return { prefillEnd, start, end, firstToken, bytes };
}

describe('cluster.fabric.overlap: layers', () => {
  // Each NIC so fast that the KV takes from a hundredth to ten times the prefill.
  for (const share of [0.01, 0.3, 0.99, 1.02, 2, 10]) {
    for (const shards of [1, 2]) {
      it(`one request, transfer ${share} times the prefill, ${shards} GPUs: the flow shop of ${layers} layers to the microsecond`, async () => {
        const moveNs = share * prefillNs;
        const settings = [
          `cluster.topology.bytesPerSecond={nic: ${(kvBytes / shards / moveNs) * 1e9}, leafUplink: 1.0e+15, pcie: 1.0e+15, nvlink: 1.0e+15}`,
          ...(shards === 1
            ? []
            : ['cluster.gpusPerServer=2', 'cluster.fabric.shards=per-gpu', 'serving[0].tensorParallel=2', 'serving[1].tensorParallel=2']),
        ];
        const whole = await timesOf(settings);
        const layerwise = await timesOf([...settings, 'cluster.fabric.overlap=layers']);
        expect([whole.bytes, layerwise.bytes]).toEqual([kvBytes, kvBytes]);
        expect(layerwise.prefillEnd).toBe(whole.prefillEnd);
        // Two machines, one after the other, each with equal times a layer: the second ends p + x / L, or p / L + x, after the first began. Messages take as long as
        // without overlap, so what is saved is the difference to p + x.
        const savedNs = prefillNs + moveNs - Math.max(prefillNs + moveNs / layers, prefillNs / layers + moveNs);
        expect(Math.abs(whole.end - layerwise.end - savedNs)).toBeLessThan(1000);
        expect(whole.firstToken - layerwise.firstToken).toBe(whole.end - layerwise.end);
        // From the moment at which the first layer is there, the frontend has chosen and the decode engine has asked.
        expect(
          Math.abs(layerwise.start - (layerwise.prefillEnd - prefillNs * (1 - 1 / layers)) - (whole.start - whole.prefillEnd)),
        ).toBeLessThan(10);
        expect(layerwise.end).toBeGreaterThanOrEqual(layerwise.prefillEnd + moveNs / layers);
      });
    }
  }

  it('a prompt whose prefix comes from a tier is announced when its first layer is computed, not while it waits for its blocks', async () => {
    const run = await runText(alone, [
      'cluster.fabric.overlap=layers',
      'kvTiers.g2={gigabytes: 100}',
      'serving[0].kvBlocks=260',
      'workload.requests=24',
      'workload.source.prefix={groups: 6, popularity: {kind: uniform}, prefixTokens: {kind: constant, tokens: 1600}}',
    ]);
    expect(run.completed).toBe(24);
    const computedNs = '(20 + 0.05 * (input_tokens - cached_tokens_g1 - cached_tokens_g2)) * 1e6';
    const sql = `select count(*), count(*) filter (where cached_tokens_g2 > 0), max(abs(transfer_start_ns - (prefill_end_ns - ${computedNs} * (1 - 1.0 / ${layers})))) from requests`;
    const [row] = (await queryRun(run.folder, sql)).rows as number[][];
    const [requests, fetched, apartNs] = row!.map(Number) as [number, number, number];
    expect(requests).toBe(24);
    expect(fetched).toBeGreaterThan(5);
    // What is between: the frontend chooses, the decode engine asks.
    expect(apartNs).toBeLessThan(3e6);
  });

  it('prompts of several chunks and independent prompts are announced with their first layer, too', async () => {
    for (const setting of ['serving[0].maxBatchedTokens=500', 'serving[0].prompts=independent']) {
      const whole = await timesOf([setting]);
      const layerwise = await timesOf([setting, 'cluster.fabric.overlap=layers']);
      expect(layerwise.prefillEnd).toBe(whole.prefillEnd);
      expect(layerwise.start).toBeLessThan(layerwise.prefillEnd);
      expect(layerwise.end).toBeLessThan(whole.end);
      expect(layerwise.end).toBeGreaterThan(layerwise.prefillEnd);
    }
  });

  /** More than the decode engines can take at once, so that early choices find no room, are refused, and are given up. */
  const busy = [
    'workload.requests=150',
    'workload.source.arrivals={kind: poisson, ratePerSecond: 40}',
    'workload.source.outputTokens={kind: constant, tokens: 30}',
    'serving[0].count=2',
    'serving[1].count=2',
    'cluster.gpusPerServer=2',
    'serving[1].maxWaiting=2',
    'serving[1].kvBlocks=400',
    'cluster.topology.bytesPerSecond={nic: 2.0e+9}',
  ];
  const trouble = [
    'workload.source.arrivals={kind: poisson, ratePerSecond: 7}',
    'workload.retry={timeoutMs: 1200, attempts: 2, backoffMs: 5}',
    'faults=[{kind: gpu-speed, atSeconds: 2, gpu: pod0/rack0/node0/gpu0, factor: 0}, {kind: gpu-speed, atSeconds: 3, gpu: pod0/rack1/node0/gpu1, factor: 0}, ' +
      '{kind: link-share, atSeconds: 2.5, from: pod0/rack0/node0/nic1, to: pod0/rack0/leaf0, share: 0}, {kind: link-share, atSeconds: 2.9, from: pod0/rack0/node0/nic1, to: pod0/rack0/leaf0, share: 1}]',
    'cluster.fabric.unreachableAfterSeconds=0.1',
  ];

  it.each([
    ['no faults', []],
    ['faults', trouble],
  ])('the books balance under load, with %s, and no engine or frontend keeps anything', async (_name, faults) => {
    const settings = [...busy, ...faults, 'cluster.fabric.overlap=layers'];
    const run = await runText(alone, settings);
    expect(run.faults).toEqual([]);
    expect(run.completed).toBeGreaterThan(20);
    const read = parseScenario(alone, 'alone.yaml', settings);
    const { table } = await loadWorkload(read);
    const simulation = new Simulation(modelOf(clusterProgram, { plan: planCluster(read), table, seriesNs: 0 }), { seed: '1' });
    let early = 0;
    for (let atNs = 0; atNs < 8e9; atNs += 50e6) {
      simulation.runUntil(atNs);
      const { slots } = simulation.stateOf('control/frontend0') as FrontendState;
      for (let slot = 0; slot < slots.used; slot++) if (slots.stage[slot] !== 0) early += slots.early[slot]!;
    }
    simulation.runUntil();
    expect(early).toBeGreaterThan(10);
    const { engines, slotOf } = simulation.stateOf('control/frontend0') as FrontendState;
    expect(slotOf.size).toBe(0);
    expect([...engines.activeRequests, ...engines.activeBlocks]).toEqual(new Array(8).fill(0));
    // Blocks at rest: all that are not cached are free again.
    for (const [rack, engine] of [
      [0, 0],
      [0, 1],
      [1, 0],
      [1, 1],
    ] as const) {
      const state = simulation.stateOf(`pod0/rack${rack}/node0/engine${engine}`) as {
        slots: Map<number, number>;
        engine: { pool: { pool: { privateBlocks: number; activeSequences: number } } };
      };
      expect([state.slots.size, state.engine.pool.pool.privateBlocks, state.engine.pool.pool.activeSequences]).toEqual([0, 0, 0]);
    }
  });

  it('is the same on two shards', async () => {
    const settings = [...busy, ...trouble, 'cluster.fabric.overlap=layers'];
    const one = await runText(alone, settings);
    const two = await runText(alone, settings, { shards: 2, transport: 'threads' });
    expect(essence(two)).toEqual(essence(one));
  }, 30_000);
});
