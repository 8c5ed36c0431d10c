import { type AdmissionPolicy, bindPolicy, builtInPolicy, type ClientPolicy, createEngineView, type FrontendState } from '@braess/control';
import { describe, expect, it } from 'vitest';
import { settledOf, simulate } from './fakes.js';

describe('fair queueing by tokens', () => {
  // One engine, one prompt at a time, 1 us a token.
  const engine = { role: 0, prefillTokenNs: 1000, tokenNs: 1 } as const;
  const request = (tenant: number, inputTokens: number, atNs = 0) => ({ atNs, inputTokens, tenant });

  it('gives equal tokens to tenants that always wait, however many and however long their requests are', () => {
    const hog = Array.from({ length: 60 }, () => request(0, 100));
    const long = Array.from({ length: 10 }, () => request(1, 400));
    const queue = (order: 'fcfs' | 'fair') => ({ order, maxEngineRequests: 1 });
    const tokensBefore = (order: 'fcfs' | 'fair', untilNs: number) => {
      const requests = [...hog, ...long];
      const simulation = simulate({ engines: [engine], requests, options: { queue: queue(order) } });
      simulation.runUntil();
      const served = [0, 0];
      for (const { request: row, firstTokenNs } of settledOf(simulation))
        if (firstTokenNs <= untilNs) served[requests[row]!.tenant]! += requests[row]!.inputTokens;
      return served;
    };
    // 4,000 of 10,000 tokens: one by one the hog's 60 come first.
    expect(tokensBefore('fcfs', 5_000_000)[1]).toBe(0);
    const [own, other] = tokensBefore('fair', 5_000_000) as [number, number];
    expect(own).toBeGreaterThan(0);
    // Golestani: two tenants that wait all the time differ by at most one longest request each.
    expect(Math.abs(own - other)).toBeLessThanOrEqual(400 + 100);
  });

  it('lets a tenant that comes late begin with those in service, without credit for the time before', () => {
    const requests = [...Array.from({ length: 40 }, () => request(0, 100)), ...Array.from({ length: 5 }, () => request(1, 100, 2_000_000))];
    const simulation = simulate({ engines: [engine], requests, options: { queue: { order: 'fair', maxEngineRequests: 1 } } });
    simulation.runUntil();
    const order = settledOf(simulation)
      .toSorted((a, b) => a.firstTokenNs - b.firstTokenNs)
      .map(({ request: row }) => requests[row]!.tenant);
    const first = order.indexOf(1);
    // From then on in turn: 1 0 1 0 ...
    expect(order.slice(first, first + 8).filter((tenant) => tenant === 1)).toHaveLength(4);
    expect((simulation.stateOf('control/frontend0') as FrontendState).fairOrder.finish.size).toBe(2);
  });
});

describe('priced admission', () => {
  const { policy, parameters } = bindPolicy(builtInPolicy('admission', 'priced') as AdmissionPolicy, {
    tokensPerSecond: 1000,
    burstSeconds: 2,
    freeTokens: 500,
  });
  const ask = (state: unknown, load: number, tenant: number, inputTokens: number, nowNs: number) =>
    policy.admit(
      { nowNs, inFlight: 0, waiting: 0, engines: createEngineView([{ role: 1, activePrefillTokens: load }, { role: 2 }]) },
      { request: 0, inputTokens, outputTokens: 1, tenant, priority: 0, attempt: 1, ageNs: 0 },
      parameters,
      state,
      () => 0,
    );

  it('is free below the free load, and sells at the price of the load to who can pay', () => {
    const state = policy.createState?.(parameters, 2);
    for (let request = 0; request < 20; request++) expect(ask(state, 500, 0, 5000, 0)).toBe(true);
    // Load 1,500: price 2. Savings begin at 2 s of income: 2,000 tokens pay for 1,000.
    expect(ask(state, 1500, 0, 600, 0)).toBe(true);
    expect(ask(state, 1500, 0, 600, 0)).toBe(false);
    expect(ask(state, 1500, 0, 400, 0)).toBe(true);
    // The other tenant has its own purse; half a second earns 500 tokens, which pay for 250.
    expect(ask(state, 1500, 1, 1000, 0)).toBe(true);
    expect(ask(state, 1500, 0, 251, 500_000_000)).toBe(false);
    expect(ask(state, 1500, 0, 250, 500_000_000)).toBe(true);
  });
});

describe('tenant loops', () => {
  it('keeps each tenant at its own number in flight, over its own requests, and backs off after a failure', () => {
    const { policy, parameters } = bindPolicy(builtInPolicy('client', 'tenant-loops') as ClientPolicy, {
      loops: [
        { inFlight: 2, pauseMs: 5, timing: 'fixed' },
        { inFlight: 1, backoffMs: 30 },
      ],
    });
    const tenant = [0, 1, 0, 1, 0, 1, 0];
    const view = { nowNs: 0, requests: tenant.length, arrivalNs: tenant, inputTokens: tenant, tenant };
    const sent: (readonly [number, number])[] = [];
    const actions = { submit: (row: number, delayNs: number) => void sent.push([row, delayNs]), wake: () => undefined };
    const state = policy.createState?.(parameters, tenant.length);
    policy.start(view, actions, parameters, state, () => 0.5);
    expect(sent).toEqual([
      [0, 5e6],
      [2, 5e6],
      [1, 0],
    ]);
    sent.length = 0;
    policy.settled?.(view, 0, 0, actions, parameters, state, () => 0.5);
    policy.settled?.(view, 1, 1, actions, parameters, state, () => 0.5);
    policy.settled?.(view, 2, 0, actions, parameters, state, () => 0.5);
    policy.settled?.(view, 4, 0, actions, parameters, state, () => 0.5);
    expect(sent).toEqual([
      [4, 5e6],
      [3, 30e6],
      [6, 5e6],
    ]);
  });
});
