import {
  bindPolicy,
  builtInPolicy,
  decisionColumns,
  defineAdmissionPolicy,
  defineOraclePolicy,
  defineRouterPolicy,
  type OverlapIndex,
  type RouterPolicy,
  requestEnded,
  requestRowOf,
} from '@braess/control';
import { REASON } from '@braess/protocol';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { engineLog, frontendOf, router, simulate } from './fakes.js';

const server = { role: 0, prefillNs: 10_000, tokenNs: 100 };
const request = { atNs: 0, inputTokens: 64, outputTokens: 2 };
const none = z.strictObject({});

/** A prefix index as simple as can be: the blocks of each engine in a set. */
const setIndex: OverlapIndex<Set<number>[]> = {
  createState: (engines) => Array.from({ length: engines }, () => new Set<number>()),
  apply: (state, engine, { identities }) => {
    for (const identity of identities) state[engine]?.add(identity);
  },
  remove: (state, engine, identity) => state[engine]?.delete(identity),
  overlap: (state, chain, counts) => {
    for (const [engine, held] of state.entries()) {
      let blocks = 0;
      while (blocks < chain.length && held.has(chain[blocks] as number)) blocks++;
      counts[engine] = blocks;
    }
  },
  clear: (state, engine) => state[engine]?.clear(),
};

describe('KV events', () => {
  const chain = [11, 12, 13, 14];
  const engines = [
    server,
    {
      ...server,
      stored: [
        [5000, 0, [11, 12, 13]],
        [6000, 2, [14]],
      ] as const,
    },
    server,
  ];
  const options = { overlap: setIndex as OverlapIndex };

  it('draw a prompt to the engine that holds its prefix, once they have arrived', () => {
    const requests = Array.from({ length: 8 }, (_, index) => ({ ...request, atNs: 50_000 * index, chain }));
    const simulation = simulate({ engines, requests, router: 'kv', options: { ...options, decisions: { every: 1 } } });
    simulation.runUntil();
    expect(
      engineLog(simulation, 1)
        .prefills.map((entry) => entry.request)
        .filter((number) => number > 0),
    ).toEqual([1, 2, 3, 4, 5, 6, 7]);
    expect(frontendOf(simulation).counters.kvEventGaps).toBe(1);
  });

  it('of a few removed blocks make it forget those, in one sequence with the others', () => {
    const stored = [[5000, 0, [11, 12, 13, 14, 15, 16, 17]]] as const;
    const removed = [
      [6000, 1, [12]],
      [7000, 2, [17, 11, 15, 14]],
      [8000, 4, [13]],
    ] as const;
    const simulation = simulate({ engines: [server, { ...server, stored, removed }], requests: [], router: 'kv', options });
    const held = (): number[] => [...(frontendOf(simulation).overlap as Set<number>[])[1]!];
    simulation.runUntil(7501);
    expect(held()).toEqual([13, 16]);
    expect(frontendOf(simulation).counters.kvEventGaps).toBe(0);
    simulation.runUntil();
    expect(held()).toEqual([16]);
    expect(frontendOf(simulation).counters.kvEventGaps).toBe(1);
  });

  it('are ignored, and prefixes not looked up, when the policy does not read overlap', () => {
    const failing = { ...options.overlap, apply: () => expect.fail('applied'), overlap: () => expect.fail('looked up') };
    const simulation = simulate({ engines, requests: [{ ...request, chain }], options: { overlap: failing } });
    simulation.runUntil();
    expect(frontendOf(simulation).counters.completed).toBe(1);
  });

  it('lower the prefill load that the frontend expects', () => {
    const simulation = simulate({ engines: engines.slice(1, 2), requests: [{ ...request, atNs: 20_000, chain }], router: 'kv', options });
    simulation.runUntil(21_100);
    expect(frontendOf(simulation).engines.activePrefillTokens[0]).toBe(0);
    const cold = simulate({ engines: engines.slice(0, 1), requests: [{ ...request, atNs: 20_000, chain }], router: 'kv', options });
    cold.runUntil(21_100);
    expect(frontendOf(cold).engines.activePrefillTokens[0]).toBe(64);
  });
});

describe('load reports', () => {
  it('are seen late, with the time they arrived', () => {
    const engines = [{ ...server, reports: [[3000, 7, 2, 1, 30, 100]] as const }, server];
    const simulation = simulate({ engines, requests: [] });
    simulation.runUntil(3500);
    expect(frontendOf(simulation).engines.reportedAtNs[0]).toBe(-1);
    simulation.runUntil();
    const { reportedAtNs, queuedTokens, runningSequences, waitingSequences, usedBlocks, totalBlocks } = frontendOf(simulation).engines;
    expect([reportedAtNs[0], queuedTokens[0], runningSequences[0], waitingSequences[0], usedBlocks[0], totalBlocks[0]]).toEqual([
      3500, 7, 2, 1, 30, 100,
    ]);
    expect(reportedAtNs[1]).toBe(-1);
  });
});

describe('several frontends', () => {
  const requests = Array.from({ length: 40 }, (_, index) => ({ atNs: 5000 * index, inputTokens: 16, outputTokens: 500, frontend: 0 }));
  const engines = [server, server, server, server].map((engine) => ({ ...engine, tokenNs: 1000 }));
  const late = { atNs: 190_000, inputTokens: 16, outputTokens: 1, frontend: 1 };

  it('know only their own requests', () => {
    const simulation = simulate({ engines, requests: [...requests, late], frontends: 2 });
    simulation.runUntil(195_000);
    expect([...frontendOf(simulation, 1).engines.activeRequests].sort()).toEqual([0, 0, 0, 1]);
  });

  it('learn of the others’ when they sync, and forget them again', () => {
    const simulation = simulate({
      engines,
      requests: [...requests, late],
      frontends: 2,
      options: { replicaSync: { frontends: [], periodNs: 2000, delayNs: 500 } },
    });
    simulation.runUntil(189_000);
    const own = [...frontendOf(simulation, 0).engines.activeRequests];
    // The last arrival was at 186,000, the sync at most 2,500 later.
    expect([...frontendOf(simulation, 1).engines.activeRequests]).toEqual(own);
    expect(own.reduce((a, b) => a + b)).toBe(38);
    simulation.runUntil();
    for (const index of [0, 1]) expect([...frontendOf(simulation, index).engines.activeRequests]).toEqual([0, 0, 0, 0]);
  });
});

describe('an oracle', () => {
  const oracle = bindPolicy(
    defineOraclePolicy({
      name: 'static-tiers',
      description: 'Transfer time by distance in engine numbers.',
      parameters: z.strictObject({ nsPerByte: z.number() }),
      answer(question, answer, { nsPerByte }) {
        for (let place = 0; place < question.count; place++) {
          const engine = question.candidates[place] as number;
          answer.tier[engine] = engine - question.prefillEngine;
          answer.transferNs[engine] = nsPerByte * question.transferBytes * (answer.tier[engine] as number);
        }
      },
    }),
    { nsPerByte: 2 },
  );
  const nearest = bindPolicy(
    defineRouterPolicy({
      name: 'nearest',
      description: 'The decode engine with the fastest transfer.',
      parameters: none,
      reads: { network: true },
      cost: (view, engine) => view.network?.transferNs[engine] ?? Number.NaN,
    }),
  );
  const engines = [
    { role: 1, prefillNs: 1000 },
    { role: 2, transferNs: 10 },
    { role: 2, transferNs: 10 },
  ];
  const options = { decodeRouter: nearest, oracle, kvBytesPerToken: 10, decisions: { every: 2 } };

  it('tells the decode router what each transfer would cost, and the decision is recorded', () => {
    const requests = [request, { ...request, atNs: 20_000 }, { ...request, atNs: 40_000 }];
    const simulation = simulate({ engines, requests, options });
    simulation.runUntil();
    expect(engineLog(simulation, 1).decodes.length).toBe(3);
    const decisions = simulation.takeRecords().filter((run) => run.type === 'routingDecision');
    // Requests 0 and 2, two stages each: request, stage, candidates.
    expect(decisions.map((run) => run.fields)).toEqual([
      [0, 0, 1],
      [0, 1, 2],
      [2, 0, 1],
      [2, 1, 2],
    ]);
    const { policy, rows: cells } = decisions[1]!.body as { policy: string; rows: Float64Array };
    const width = decisionColumns.length;
    const cell = (row: number, column: (typeof decisionColumns)[number]): number =>
      cells[row * width + decisionColumns.indexOf(column)] as number;
    const { actors } = frontendOf(simulation).engines;
    expect(policy).toBe('nearest');
    // 64 tokens x 10 bytes x 2 ns: 1,280 ns at distance 1.
    expect([cell(0, 'candidateId'), cell(0, 'chosen'), cell(0, 'score'), cell(0, 'transferMs'), cell(0, 'networkTier')]).toEqual([
      actors[1],
      1,
      1280,
      0.001_28,
      1,
    ]);
    expect([cell(1, 'candidateId'), cell(1, 'chosen'), cell(1, 'score'), cell(1, 'transferMs'), cell(1, 'networkTier')]).toEqual([
      actors[2],
      0,
      2560,
      0.002_56,
      2,
    ]);
  });
});

describe('a policy that misbehaves stops the run', () => {
  const bind = (functions: Pick<RouterPolicy, 'choose'> | Pick<RouterPolicy, 'cost'>) =>
    bindPolicy(
      defineRouterPolicy({ name: 'bad', description: 'Bad.', parameters: none, ...functions }) as RouterPolicy,
      {},
      '/somewhere/bad.ts',
    );
  const run = (options: object) => () => simulate({ engines: [server, server], requests: [request], options }).runUntil();

  it.each([
    ['names no candidate', bind({ choose: () => 7 }), 'returned 7, which is no candidate; return one of view.candidates (0, 1)'],
    ['returns NaN', bind({ choose: () => Number.NaN }), 'returned NaN, which is no candidate'],
    ['returns nothing', bind({ choose: () => undefined as never }), 'returned undefined, which is no candidate'],
    ['has a cost of NaN', bind({ cost: () => Number.NaN }), 'cost of engine 0 (engine0) is NaN'],
    [
      'throws',
      bind({
        choose: () => {
          throw new TypeError('no idea');
        },
      }),
      'threw TypeError: no idea',
    ],
  ])('when it %s, with its file and the request', (_name, prefillRouter, fault) => {
    expect(run({ prefillRouter })).toThrow(fault);
    expect(run({ prefillRouter })).toThrow(
      "router policy 'bad' (/somewhere/bad.ts), asked for the aggregated engine of request 0 (64 input tokens, 2 candidates)",
    );
    expect(run({ prefillRouter })).toThrow("actor control/frontend0, message 'submit', simulated time 1000 ns");
  });

  it('before it begins, when a policy cannot create its state', () => {
    const createState = () => {
      throw new Error('no room');
    };
    const bad = defineRouterPolicy({ name: 'bad', description: 'Bad.', parameters: none, createState, choose: () => 0 });
    expect(run({ prefillRouter: bindPolicy(bad, {}, '/somewhere/bad.ts') })).toThrow(
      "router policy 'bad' (/somewhere/bad.ts): createState threw Error: no room",
    );
  });

  it('before it begins, when the state of a policy is no plain data', () => {
    const shared = [1];
    const states = { closure: { f: () => 1 }, instance: { at: new URL('http://a') }, own: { a: shared, b: [...shared] } };
    const stateful = (state: unknown) => {
      const policy = { name: 'bad', description: 'Bad.', parameters: none, createState: () => state, choose: () => 0 };
      return run({ prefillRouter: bindPolicy(defineRouterPolicy(policy), {}, '/somewhere/bad.ts') });
    };
    const kept = "router policy 'bad' (/somewhere/bad.ts): createState returned what cannot be kept: the state";
    expect(stateful(states.closure)).toThrow(`${kept}.f holds a function`);
    expect(stateful(states.instance)).toThrow(`${kept}.at holds`);
    expect(stateful(states.own)).not.toThrow();
  });

  it('when an admission policy answers neither yes nor no', () => {
    const admission = bindPolicy(defineAdmissionPolicy({ name: 'odd', description: 'Odd.', parameters: none, admit: () => 1 as never }));
    expect(run({ admission })).toThrow(
      "admission policy 'odd' (built-in), asked whether to admit request 0, returned 1; return true or false",
    );
  });
});

describe('admission', () => {
  it('rejects above its limit, and what it saw is recorded', () => {
    const policy = defineAdmissionPolicy({
      name: 'two',
      description: 'At most two.',
      parameters: none,
      createState: (): { seen: number[][] } => ({ seen: [] }),
      admit({ inFlight, waiting, engines }, { request }, _parameters, { seen }) {
        const admitted = inFlight < 2;
        const tokens = Array.from({ length: engines.count }, (_, engine) => engines.activePrefillTokens[engine]!);
        seen.push([request, admitted ? 1 : 0, inFlight, waiting, tokens.reduce((sum, value) => sum + value)]);
        return admitted;
      },
    });
    const requests = [0, 1, 2, 40_000].map((atNs) => ({ ...request, atNs }));
    const simulation = simulate({ engines: [server], requests, options: { admission: bindPolicy(policy), decisions: { every: 2 } } });
    simulation.runUntil();
    const records = simulation.takeRecords();
    const ended = records.filter(({ type }) => type === requestEnded.name).map(requestRowOf);
    expect(ended.filter(({ reason }) => reason !== 0)).toMatchObject([{ requestId: 2, reason: REASON.admission }]);
    expect(ended).toHaveLength(4);
    const { seen } = frontendOf(simulation).admission as { seen: number[][] };
    expect(seen.map(([, ...told]) => told)).toEqual([
      [1, 0, 0, 0],
      [1, 1, 0, request.inputTokens],
      [0, 2, 0, 2 * request.inputTokens],
      [1, 0, 0, 0],
    ]);
    const recorded = records.filter(({ type }) => type === 'admissionDecision');
    expect(recorded.map(({ fields }) => fields)).toEqual([seen[0], seen[2]]);
    expect(recorded.map(({ body }) => body)).toEqual([{ policy: 'two' }, { policy: 'two' }]);
  });
});

describe('options', () => {
  it.each([
    [{ blockTokens: 0 }, 'frontend option blockTokens is 0; it must be a whole number from 1'],
    [{ maxAttempts: 2.5 }, 'frontend option maxAttempts is 2.5'],
    [{ queue: { maxEngineRequests: 0 } }, 'frontend option queue.maxEngineRequests is 0'],
    [{ decisions: { every: -1 } }, 'frontend option decisions.every is -1'],
  ])('are checked: %j', (options, fault) => {
    expect(() => simulate({ engines: [server], requests: [], options })).toThrow(fault);
  });

  it('router parameters are checked, also for keys that nobody knows', () => {
    expect(() => router('kv', { omega: -1 })).toThrow('router policy \'kv\' (built-in): parameters {"omega":-1}: omega: ');
    expect(() => router('kv', { omgea: 1 })).toThrow('it takes omega, tau');
    const changes = [{ atMs: 1, engine: 'a', action: 'stop' }];
    expect(() => bindPolicy(builtInPolicy('planner', 'schedule')!, { changes })).toThrow(
      'changes.0: Unrecognized key: "action" (changes.0 takes atMs, engine, role, start); it takes changes',
    );
  });
});
