import {
  bindPolicy,
  builtInPolicy,
  type ControllerPolicy,
  type ControllerState,
  createControllerKind,
  defineControllerPolicy,
  type FrontendState,
  placementPoa,
} from '@braess/control';
import { type ActorId, type ActorReference, actorKind, defineProgram, modelOf, Simulation } from '@braess/kernel';
import {
  bucketQuantileNs,
  latencyBucket,
  latencyBucketStartNs,
  latencyBuckets,
  moveClient,
  scrape,
  scraped,
  trafficStarted,
} from '@braess/protocol';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { type FrontendContext, ownParameters } from '../src/frontend/state.js';
import { answerScrape } from '../src/frontend/watch.js';
import { clientDelayNs, engineDelayNs, type FakeEngine, router, simulate } from './fakes.js';

const secondNs = 1e9;
const policyOf = (name: string, parameters: unknown = {}) => bindPolicy(builtInPolicy('controller', name) as ControllerPolicy, parameters);

/** What a policy answers to samples that come every 5 s. */
function drive(name: string, parameters: unknown, samples: readonly Readonly<Record<string, number>>[]) {
  const { policy, parameters: bound } = policyOf(name, parameters);
  const state = policy.createState?.(bound);
  return samples.map((values, index) =>
    policy.decide({ nowNs: (index + 1) * 5 * secondNs, metrics: new Map(Object.entries(values)) }, bound, state, () => 0),
  );
}
const ttft = (...values: readonly number[]) => values.map((value) => ({ ttft_p99_ms: value }));
const changes = (answers: readonly unknown[]) => answers.flatMap((answer, index) => (answer === null ? [] : [[index, answer]]));

describe('adaptive', () => {
  const calm = { tau: 0, omega: 1 };
  const warm = { tau: 0.7, omega: 1 };
  const hot = { tau: 0.8, omega: 0.1 };

  it('passes through the three published regimes with the delay of hand computation', () => {
    // From 500 ms to 20 s: s_k = 20,000 - 19,500 x 0.7^k: 6,350, 10,445, 13,312, ...: sample 1 is in regime 1, samples 2, 3, 4 in regime 2.
    const up = drive('adaptive', {}, ttft(500, 500, ...Array.from({ length: 6 }, () => 20_000)));
    expect(changes(up)).toEqual([[5, hot]]);
    // To 5 s: s_1 = 1,850, s_2 = 2,795, s_3 = 3,456 pass 1 s three times in a row and never reach 10 s.
    const middle = drive(
      'adaptive',
      {},
      ttft(500, 500, ...Array.from({ length: 20 }, () => 5000), ...Array.from({ length: 20 }, () => 100)),
    );
    // Down: 100 + 4,900 x 0.7^k < 1,000 first at k = 5 (824); the change comes with k = 7. (The rise left s at 5,000 - 4,500 x 0.7^20 = 4,996.)
    expect(changes(middle)).toEqual([
      [4, warm],
      [2 + 20 + 6, calm],
    ]);
  });

  it('does not flap about a threshold, ignores a short spike and missing samples', () => {
    const flat = Array.from({ length: 400 }, (_, index) => (index % 2 === 0 ? 990 : 1010));
    expect(changes(drive('adaptive', { weight: 1 }, ttft(...flat)))).toEqual([]);
    expect(changes(drive('adaptive', { weight: 1 }, ttft(100, 5000, 5000, 100, 5000, 5000, 100)))).toEqual([]);
    expect(changes(drive('adaptive', { weight: 1 }, [...ttft(5000, 5000), {}, {}, ...ttft(5000)]))).toEqual([[4, warm]]);
  });

  it('takes the thresholds of the smaller model, and refuses ones that do not fit', () => {
    expect(changes(drive('adaptive', { thresholds: [300, 2000] }, ttft(400, 400, 400, 400)))).toEqual([[2, warm]]);
    expect(() => policyOf('adaptive', { thresholds: [300, 200] })).toThrow('thresholds must rise');
    expect(() => policyOf('adaptive', { thresholds: [300] })).toThrow('regimes must be one more than thresholds');
  });
});

describe('better controllers', () => {
  it('hysteresis: holds a regime for its least time and above its release level', () => {
    const wave = [...Array.from({ length: 3 }, () => 1500), ...Array.from({ length: 30 }, () => 700)];
    const options = { weight: 1, leastSeconds: 60 };
    // 700 ms is above half of 1,000: it stays. Below, it leaves at once when its 60 s (12 samples from sample 2) are over.
    expect(changes(drive('hysteresis', options, ttft(...wave))).map(([at]) => at)).toEqual([2]);
    const fall = [...Array.from({ length: 3 }, () => 1500), ...Array.from({ length: 30 }, () => 100)];
    expect(changes(drive('hysteresis', options, ttft(...fall))).map(([at]) => at)).toEqual([2, 14]);
    expect(changes(drive('adaptive', { weight: 1 }, ttft(...fall))).map(([at]) => at)).toEqual([2, 5]);
  });

  it('poa-driven: a queue before the routers is no reason to act, a bad placement is', () => {
    const queue = Array.from({ length: 10 }, () => ({ ttft_p99_ms: 30_000, placement_poa: 1 }));
    expect(changes(drive('poa-driven', {}, queue))).toEqual([]);
    const bad = Array.from({ length: 10 }, () => ({ ttft_p99_ms: 300, placement_poa: 1.2 }));
    expect(changes(drive('poa-driven', {}, bad))).toEqual([[2, { tau: 0.7, omega: 1 }]]);
  });

  it('gradient: learns the knee at the first step, and then acts on the load alone', () => {
    const at = (load: number, value: number) => ({ inflight_requests: load, ttft_p99_ms: value });
    const rise = [at(32, 200), at(64, 380), at(96, 544), at(128, 16_200), at(128, 16_200), at(128, 16_200)];
    // 5.6 and 5.1 ms a request up to 96, then 489: the knee is at 96.
    const fall = [at(96, 9000), at(90, 9000), at(90, 8000)];
    const again = [at(128, 500), at(128, 500)];
    expect(changes(drive('gradient', {}, [...rise, ...fall, ...again]))).toEqual([
      [4, { tau: 0.7, omega: 1 }],
      [7, { tau: 0, omega: 1 }],
      [10, { tau: 0.7, omega: 1 }],
    ]);
  });
});

describe('placement price of anarchy', () => {
  it('is the ratio of sums of squares, with whole requests in the optimum', () => {
    expect(placementPoa(Float64Array.of(4, 4, Number.NaN))).toBe(1);
    // 7 and 2: 53; best 5 and 4: 41.
    expect(placementPoa(Float64Array.of(7, 2))).toBeCloseTo(53 / 41, 12);
    // All on one of k engines: k, when k divides.
    expect(placementPoa(Float64Array.of(6, 0, 0))).toBe(3);
    expect(placementPoa(new Float64Array(3))).toBeNaN();
  });
});

describe('latency buckets', () => {
  it('hold each value, are at most a 32nd of it wide, and give quantiles as exact sorting does within that', () => {
    for (const us of [0, 1, 63, 64, 65, 127, 128, 1000, 999_999, 16_200_000, 2 ** 31 - 1]) {
      const bucket = latencyBucket(us * 1000);
      const [start, end] = [latencyBucketStartNs(bucket), latencyBucketStartNs(bucket + 1)];
      expect(start).toBeLessThanOrEqual(us * 1000);
      expect(end).toBeGreaterThan(us * 1000);
      expect(end - start).toBeLessThanOrEqual(Math.max(1000, start / 32));
    }
    expect(latencyBucket(1e15)).toBe(latencyBuckets - 1);
    const counts = new Float64Array(latencyBuckets);
    const values = Array.from({ length: 1000 }, (_, index) => 1e6 * (index + 1));
    for (const value of values) counts[latencyBucket(value)]!++;
    expect(Math.abs(bucketQuantileNs(counts, 0.99) / 990e6 - 1)).toBeLessThan(1 / 32);
    expect(bucketQuantileNs(new Float64Array(latencyBuckets), 0.5)).toBeNaN();
  });
});

const scripted = defineControllerPolicy({
  name: 'scripted',
  description: 'Notes what it sees and answers by script.',
  parameters: z.strictObject({ answers: z.array(z.record(z.string(), z.json()).nullable()) }),
  createState: () => ({ seen: [] as [number, number | undefined, number | undefined][] }),
  decide({ nowNs, metrics }, { answers }, state) {
    state.seen.push([nowNs, metrics.get('ttft_count'), metrics.get('inflight_requests')]);
    return answers[state.seen.length - 1] ?? null;
  },
});

/** Fake frontends that answer each scrape with what is in flight, and a client that notes where it is moved. */
function controlled(options: { apply: 'set' | 'move'; answers: unknown[]; inFlight: readonly number[]; lost?: number }) {
  const program = defineProgram(undefined, 'controlled', (world) => {
    const controllers: ActorReference[] = [];
    const frontend = actorKind({
      name: 'frontend',
      messages: { scrape },
      state: () => ({ rounds: [] as number[] }),
      start: (_state, context) => context.send(controllers[0]!.id as ActorId, trafficStarted, engineDelayNs),
      on: {
        scrape(state, view, context) {
          state.rounds.push(context.now);
          const ttftCounts = new Float64Array(latencyBuckets);
          ttftCounts[40] = state.rounds.length * 10;
          const body = { ttftCounts, ttftSumNs: 0, decodeRequests: null, values: new Map<string, number>() };
          const lost = options.lost === state.rounds.length ? 1 : 0;
          context.sendBody(
            view.sender as never,
            scraped,
            engineDelayNs,
            body,
            view.round,
            options.inFlight[state.rounds.length - 1] ?? 0,
            0,
            lost,
          );
        },
      },
    });
    const client = actorKind({
      name: 'client',
      messages: { moveClient },
      state: () => ({ moves: [] as number[] }),
      on: { moveClient: (state, view, context) => void state.moves.push(context.now, view.frontend) },
    });
    const clients = [world.cell('clients', { class: 'client' }).actor('client', client, undefined)];
    const frontends = [0, 1].map((index) => world.actor(`frontend${index}`, frontend, undefined, { class: 'control' }));
    const kind = createControllerKind({
      policy: bindPolicy(scripted, { answers: options.answers }),
      periodNs: 5 * secondNs,
      windowNs: 5 * secondNs,
      signal: 'server',
      apply: options.apply,
      frontends: frontends as never,
      frontendParameters: [
        { tau: 0, omega: 1 },
        { tau: 0.7, omega: 1 },
      ],
      clients: clients as never,
      controlDelayNs: engineDelayNs,
      clientDelayNs,
    });
    controllers.push(world.actor('controller', kind, undefined, { class: 'control' }) as never);
    world.lookahead('control', 'control', engineDelayNs);
    world.lookahead('control', 'client', clientDelayNs);
  });
  return new Simulation(modelOf(program, undefined), { strict: true, keepRecords: true });
}

describe('the controller actor', () => {
  const periodNs = 5 * secondNs;
  const decidedNs = (round: number) => round * periodNs + 2 * engineDelayNs;

  it('scrapes at multiples of the period while requests are in flight, and moves clients to the frontend that has the parameters', () => {
    const simulation = controlled({ apply: 'move', answers: [null, { tau: 0.7 }, null, { tau: 0, omega: 1 }], inFlight: [3, 3, 3, 3, 0] });
    simulation.runUntil();
    const seen = (simulation.stateOf('controller') as ControllerState).policy as { seen: unknown[] };
    // Two frontends, each with 10 more TTFTs a round: 20 within each window; 3 requests in flight at each.
    expect(seen.seen).toEqual([1, 2, 3, 4, 5].map((round) => [decidedNs(round), 20, round === 5 ? 0 : 6]));
    const moves = [
      decidedNs(2) + clientDelayNs,
      simulation.actorId('frontend1'),
      decidedNs(4) + clientDelayNs,
      simulation.actorId('frontend0'),
    ];
    expect(simulation.stateOf('clients/client')).toEqual({ moves });
    expect(simulation.takeRecords().filter(({ type }) => type === 'controllerChange')).toMatchObject([
      { timeNs: decidedNs(2), fields: [simulation.actorId('frontend1')], body: { policy: 'scripted', parameters: { tau: 0.7 } } },
      { timeNs: decidedNs(4), body: { parameters: { tau: 0, omega: 1 } } },
    ]);
    expect(simulation.processedNs).toBe(decidedNs(5));
  });

  it('keeps past rounds apart from the one under way: state is a tree', () => {
    const simulation = controlled({ apply: 'move', answers: [], inFlight: [1, 1, 0] });
    simulation.runUntil();
    const { history, gathered } = simulation.stateOf('controller') as ControllerState;
    expect(history.length).toBeGreaterThan(0);
    for (const past of history) expect([past === gathered, past.ttftCounts === gathered.ttftCounts]).toEqual([false, false]);
    expect(history.at(-1)).toEqual(gathered);
  });

  it('decides nothing in a round in which a target cannot be scraped, and goes on', () => {
    const simulation = controlled({ apply: 'move', answers: [], inFlight: [1, 1, 0], lost: 2 });
    simulation.runUntil();
    const { seen } = (simulation.stateOf('controller') as ControllerState).policy as { seen: number[][] };
    expect(seen.map(([atNs]) => atNs)).toEqual([decidedNs(1), decidedNs(3)]);
  });

  it('stops the run when no frontend has the parameters', () => {
    const simulation = controlled({ apply: 'move', answers: [{ tau: 0.3 }], inFlight: [1] });
    expect(() => simulation.runUntil()).toThrow(/scripted.*returned \{ tau: 0.3 \}, but no frontend has these parameters; add them/);
  });
});

describe('frontends under a controller', () => {
  it('have parameters of their own, take new ones while they run, and refuse wrong ones', () => {
    const prefill: FakeEngine = { role: 0, prefillNs: 1000, tokenNs: 10 };
    const simulation = simulate({ engines: [prefill], requests: [{ atNs: 0, inputTokens: 16 }], router: 'kv', frontends: 2 });
    simulation.runUntil();
    const state = simulation.stateOf('control/frontend0') as FrontendState;
    expect([state.prefillParameters, state.watch]).toEqual([null, null]);
    const settings = { prefillRouter: router('kv', { tau: 0.2 }), decodeRouter: router('kv', { tau: 0.2 }) };
    expect(ownParameters(settings, { omega: 0.5 })).toEqual({
      prefillParameters: { tau: 0.2, omega: 0.5 },
      decodeParameters: { tau: 0.2, omega: 0.5 },
    });
    expect(ownParameters({ ...settings, decodeRouter: router('least-loaded') }, { omega: 0.5 }).decodeParameters).toBeNull();
    expect(() => ownParameters(settings, { gamma: 1 })).toThrow(/kv.*gamma/);
  });

  it('tell of the requests in all three queues as waiting, those with long prompts, too', () => {
    const simulation = simulate({ engines: [{ role: 0, prefillNs: 1000, tokenNs: 10 }], requests: [] });
    const state = simulation.stateOf('control/frontend0') as FrontendState;
    state.watch = { controller: 0, told: true, ttftCounts: new Float64Array(0), ttftSumNs: 0, still: { steps: 0, sinceNs: 0 } };
    state.firstQueue.count = 1;
    state.decodeQueue.count = 2;
    state.longQueue.count = 4;
    const answered: unknown[][] = [];
    const context = { now: 0, sendBody: (...values: unknown[]) => void answered.push(values) } as unknown as FrontendContext;
    const controller = { actors: [{ id: 0 }], delayNs: engineDelayNs, signal: 'server' as const };
    answerScrape({ controller } as unknown as Parameters<typeof answerScrape>[0], state, context, 3);
    expect(answered.map(([, , , , round, inFlight, waiting]) => [round, inFlight, waiting])).toEqual([[3, 0, 1 + 2 + 4]]);
  });
});
