import { clusterProgram, loadWorkload, planCluster, readScenario } from '@braess/cluster';
import { modelOf, Simulation } from '@braess/kernel';
import { type EngineActorState, slotState } from '@braess/serving';
import { describe, expect, it } from 'vitest';
import { createProject } from './small-cluster.js';

/** One request, one prefill and one decode engine; passes of a length that is easy to add up. */
const single = `
name: single
cluster: { serversPerRack: 2, gpusPerServer: 1 }
serving:
  - { count: 1, role: prefill, timing: { kind: linear, prefillMs: 20, prefillMsPerToken: 0, decodeMs: 10, decodeMsPerSequence: 0 } }
  - { count: 1, role: decode, timing: { kind: linear, prefillMs: 20, prefillMsPerToken: 0, decodeMs: 10, decodeMsPerSequence: 0 } }
workload:
  requests: 1
  source:
    kind: independent
    arrivals: { kind: constant, ratePerSecond: 1000 }
    inputTokens: { kind: constant, tokens: 2000 }
    outputTokens: { kind: constant, tokens: 50 }
`;

const project = createProject();
project.write('single.yaml', single);
project.write(
  'first.ts',
  `import { defineRouterPolicy } from '@braess/control';
import { z } from 'zod';
export default defineRouterPolicy({
  name: 'first',
  description: 'The first that is there.',
  parameters: z.strictObject({}),
  choose: (view) => view.candidates[0],
});
`,
);

describe('a request whose engine dies', () => {
  it('loses one attempt, not a second one to the dead engine that nobody was told of', async () => {
    const settings = [
      'faults=[{kind: gpu-speed, atSeconds: 0.05, gpu: pod0/rack0/node0/gpu0, factor: 0}]',
      'cluster={serversPerRack: 4}',
      'serving[0].count=2',
      'serving[1].count=2',
      'workload.requests=40',
      'router={policy: least-loaded, maxAttempts: 2}',
    ];
    const run = await project.run('single.yaml', settings);
    expect(run.summary).toMatchObject({ submitted: 40, completed: 40, faults: [] });
    expect(await run.query('select max(attempts) as most, count(*) filter (where attempts = 2) > 0 as some from requests')).toEqual([
      { most: 2, some: true },
    ]);
  });

  // It comes at 1 ms and is prefilled from 1.6 to 21.6; its KV moves from 22.605 to 25.3. Word of a death takes 0.5 ms to the frontend, as much to the decode
  // engine and back, and the request as much to the other engine.
  it.each<[string, number, number, number, string[]]>([
    ['as its KV is asked for', 21.65, 2, 23.65, []],
    ['in transfer', 24, 2, 26, []],
    ['in transfer, at chunk fidelity', 24, 2, 26, ['cluster.fabric.fidelity=chunk']],
    ['in transfer, each GPU its part', 24, 2, 26, ['cluster.fabric.shards=per-gpu']],
    ['when its KV has arrived', 28, 1, 1.6, []],
  ])('starts over where the prefill engine dies %s', async (_name, deathMs, attempts, startMs, settings) => {
    const run = await (settings.length > 0 ? project.run : project.runOnShards)('single.yaml', [
      `faults=[{kind: gpu-speed, atSeconds: ${deathMs / 1000}, gpu: pod0/rack0/node0/gpu0, factor: 0}]`,
      'cluster={serversPerRack: 2, gpusPerServer: 4}',
      ...[0, 1].map((group) => `serving[${group}].count=2`),
      ...[0, 1].map((group) => `serving[${group}].tensorParallel=2`),
      `router={policy: ${project.path('first.ts')}}`,
      ...settings,
    ]);
    expect(run.summary).toMatchObject({ submitted: 1, completed: 1, faults: [] });
    expect(await run.query('select attempts, prefill_start_ns / 1e6 as start from requests')).toEqual([{ attempts, start: startMs }]);
  });
});

describe('a client that tries again at once', () => {
  // There at 0.6 ms, prefilled at 20.6; asked of the decode engine at 21.6; its KV comes from there to 26.9 ms; the first token at 36.9.
  it.each([
    ['in prefill', 10],
    ['on the way to the decode engine', 21.4],
    ['in transfer', 24],
    ['as the transfer ends', 27.2],
    ['in decode', 60],
  ])('%s: its first attempt is gone from both engines before the second comes', async (_name, timeoutMs) => {
    const settings = [`workload.retry={timeoutMs: ${timeoutMs}, attempts: 2}`];
    const run = await (timeoutMs === 24 ? project.runOnShards('single.yaml', settings) : project.run('single.yaml', settings));
    expect(run.summary).toMatchObject({ submitted: 1, failed: 1, inFlight: 0, faults: [] });
    expect(await run.query('select outcome, reason, attempts from requests')).toEqual([
      { outcome: 'failed', reason: 'timeout', attempts: 2 },
    ]);
  });

  it('word of the first that it is prefilled, which crosses its cancel, does not stand for the second', async () => {
    // Prefilled at 20.6 ms, and word of it at the frontend at 21.1: the second attempt is there from 20.8 on. The second is prefilled at 41.3 ms, given up at 41.2.
    const settings = ['workload.source.outputTokens.tokens=1', 'workload.retry={timeoutMs: 20.5, attempts: 2}'];
    const run = await project.runOnShards('single.yaml', settings);
    expect(run.summary).toMatchObject({ submitted: 1, failed: 1, faults: [] });
    expect(await run.query('select reason, attempts, prefill_end_ns from requests')).toEqual([
      { reason: 'timeout', attempts: 2, prefill_end_ns: null },
    ]);
  });

  it('late word that the KV of the first has arrived does not let go of that of the second', async () => {
    // The first is given up while it decodes, at 40 ms; its engine's word, sent at 26.9, comes at 68.9 ms. The second was at the prefill engine
    // from 40.8 ms (answer to the client, back, to the engine) and is held there from 60.8 ms until its transfer ends at 67.1 and word of it comes.
    const settings = ['delays.releaseUs=42000', 'workload.retry={timeoutMs: 40, attempts: 2}'];
    const read = readScenario(project.path('single.yaml'), settings);
    const { table } = await loadWorkload(read);
    const run = new Simulation(modelOf(clusterProgram, { plan: planCluster(read), table, seriesNs: 0, alone: true }), { seed: '1' });
    const held = (): number => {
      const { engine } = run.stateOf('pod0/rack0/node0/engine0') as EngineActorState<never>;
      return engine.requests.state.filter((state) => state === slotState.held).length;
    };
    const arrivalNs = table.arrivalNs[0]!;
    const heldAt = [30, 45, 63, 75].map((ms) => {
      run.runUntil(arrivalNs + ms * 1e6);
      return held();
    });
    expect(heldAt).toEqual([1, 0, 1, 1]);
  });
});

describe('a request that is with its client', () => {
  it('waiting for a connection where the run is cut, is in flight since it came', async () => {
    // One a millisecond from 1 ms on, until 30.5 ms; the first is at the engine until its first token at 20.6 ms, and decodes after that.
    const settings = ['workload.requests=100', 'workload.connections={connections: 1}', 'untilSeconds=0.0305'];
    const run = await project.runOnShards('single.yaml', settings);
    expect(run.summary).toMatchObject({ submitted: 30, inFlight: 30, faults: [] });
    const rows = await run.query(
      'select count(*) as all, count(queued_ns) as sent, count(*) filter (where arrival_ns = (request_id + 1) * 1000000) as on_time, avg(input_tokens) as tokens from requests',
    );
    expect(rows).toEqual([{ all: 30, sent: 1, on_time: 30, tokens: 2000 }]);
  });

  it('between or in its attempts where the run is cut, has as many as it began', async () => {
    // Tried at 1, 26 and 51 ms; each fails after 15 ms.
    for (const [untilMs, attempts] of [
      [10, 1],
      [20, 2],
      [30, 2],
      [60, 3],
    ] as const) {
      const settings = ['workload.retry={timeoutMs: 15, attempts: 3, backoffMs: 10}', `untilSeconds=${untilMs / 1e3}`];
      const run = await project.run('single.yaml', settings);
      expect(run.summary).toMatchObject({ submitted: 1, inFlight: 1, faults: [] });
      expect(await run.query('select outcome, reason, attempts, arrival_ns, end_ns from requests')).toEqual([
        { outcome: 'in_flight', reason: 'none', attempts, arrival_ns: 1_000_000, end_ns: null },
      ]);
    }
  });

  it('and refused there in its last attempt, says so, whatever the one before came to', async () => {
    // The first gives its connection back at 2.95 ms and wants it again at 3.05, when the third has it; the second never has one.
    const settings = [
      'workload.requests=3',
      'workload.connections={connections: 1, queueLimit: 0}',
      'workload.retry={timeoutMs: 1.95, attempts: 2}',
    ];
    const run = await project.run('single.yaml', settings);
    expect(run.summary).toMatchObject({
      submitted: 3,
      rejected: 2,
      failed: 1,
      lostReasons: { client_queue_full: 2, timeout: 1 },
      faults: [],
    });
    expect(await run.query('select outcome, reason, attempts, input_tokens, queued_ns from requests order by request_id')).toEqual([
      { outcome: 'rejected', reason: 'client_queue_full', attempts: 2, input_tokens: 2000, queued_ns: 1_600_000 },
      { outcome: 'rejected', reason: 'client_queue_full', attempts: 2, input_tokens: 2000, queued_ns: null },
      { outcome: 'failed', reason: 'timeout', attempts: 2, input_tokens: 2000, queued_ns: 5_650_000 },
    ]);
  });
});
