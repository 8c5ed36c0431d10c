import { engineRole, engineStatus } from '@braess/protocol';
import { describe, expect, it } from 'vitest';
import { clientDelayNs, engineDelayNs, engineLog, type FakeRequest, frontendOf, imbalance, simulate } from './fakes.js';
import { randomStream } from './random-stream.js';

const serviceNs = 10_001;

/** One server that takes one request at a time, by hand: the order of service, and who found the queue full. */
function model(
  requests: readonly FakeRequest[],
  key: (request: FakeRequest) => number,
  limit: number,
): { order: number[]; rejected: number[] } {
  const events = requests.flatMap((request, number) => [
    { atNs: request.atNs + clientDelayNs, number, arrives: true },
    ...(request.cancelAtNs === undefined ? [] : [{ atNs: request.cancelAtNs + clientDelayNs, number, arrives: false }]),
  ]);
  events.sort((a, b) => a.atNs - b.atNs);
  const waiting: number[] = [];
  const order: number[] = [];
  const rejected: number[] = [];
  let serving = -1;
  let freeNs = 0;
  let serverNs = 0;
  const begin = (number: number, atNs: number): void => {
    order.push(number);
    serving = number;
    // A cancelled request leaves its place at once, but the fake server computes it to the end.
    serverNs = Math.max(serverNs, atNs + engineDelayNs) + serviceNs;
    freeNs = serverNs + engineDelayNs;
  };
  const next = (atNs: number): void => {
    serving = -1;
    if (waiting.length === 0) return;
    const least = waiting.reduce((a, b) => (key(requests[b]!) < key(requests[a]!) ? b : a));
    waiting.splice(waiting.indexOf(least), 1);
    begin(least, atNs);
  };
  for (const event of [...events, { atNs: Number.MAX_SAFE_INTEGER, number: -1, arrives: false }]) {
    while (serving >= 0 && freeNs <= event.atNs) next(freeNs);
    if (event.arrives && serving < 0) begin(event.number, event.atNs);
    else if (event.arrives && waiting.length >= limit) rejected.push(event.number);
    else if (event.arrives) waiting.push(event.number);
    else if (waiting.includes(event.number)) waiting.splice(waiting.indexOf(event.number), 1);
    else if (event.number === serving && event.number >= 0) next(event.atNs);
  }
  return { order, rejected };
}

describe('the waiting queue', () => {
  it.each([1, 2, 3, 4, 5, 6])('serves in the order of an independent model, with cancels and a limit (seed %i)', (seed) => {
    const random = randomStream(seed);
    const requests = Array.from({ length: 300 }, (_, index) => {
      // Arrivals at 0 and cancels at 500 modulo 1,000, ends of service 1 later each time: nothing coincides.
      const atNs = 1000 * Math.floor(index * 6 + random() * 5.5);
      const cancelled = random() < 0.25 ? { cancelAtNs: atNs + 500 + 1000 * Math.floor(random() * 60) } : {};
      return { atNs, inputTokens: 1 + Math.floor(random() * 50), priority: Math.floor(random() * 3), outputTokens: 1, ...cancelled };
    });
    const wspt = seed % 2 === 0;
    const queue = { order: wspt ? ('wspt' as const) : ('fcfs' as const), maxEngineRequests: 1, limit: 15 };
    const simulation = simulate({ engines: [{ role: 0, prefillNs: serviceNs }], requests, options: { queue } }, { strict: false });
    simulation.runUntil();
    const expected = model(requests, wspt ? (request) => request.inputTokens / (1 + (request.priority ?? 0)) : () => 0, 15);
    expect(engineLog(simulation, 0).prefills.map((entry) => entry.request)).toEqual(expected.order);
    expect(frontendOf(simulation).counters.rejected).toBe(expected.rejected.length);
    expect(expected.rejected.length).toBeGreaterThan(0);
    expect(imbalance(simulation)).toBe(0);
  });
});

describe('a request that waits for another engine than the one that refused it', () => {
  it('lets those go first whose KV keeps that other engine from coming', () => {
    const us = 1000;
    // In turn, requests 0 and 2 are prefilled by engine 0, until 30 and 60 us, and 1 by engine 1 until 40. Engine 2 decodes 0 when 1 comes, refuses it, and is
    // done with 0 at about 55 us. From 5 us on engine 0 drains to decode, too, which it will when 2 is fetched.
    const simulation = simulate({
      engines: [
        {
          role: engineRole.prefill,
          prefillNs: 30 * us,
          states: [
            [5 * us, engineRole.prefill, engineStatus.drainingHeld],
            [200 * us, engineRole.decode, engineStatus.active],
          ],
        },
        { role: engineRole.prefill, prefillNs: 40 * us },
        { role: engineRole.decode, transferNs: 20 * us, refuseAt: 1 },
      ],
      requests: [0, 1, 2].map((number) => ({ atNs: number * us, inputTokens: 16 })),
      router: 'round-robin',
    });
    simulation.runUntil(1e9);
    const decodes = [0, 2].map((engine) => engineLog(simulation, engine).decodes);
    expect(decodes.map((each) => each.map(({ request }) => request))).toEqual([[1], [0, 2]]);
    expect(decodes[1]![1]!.atNs).toBeLessThan(100 * us);
    expect(frontendOf(simulation).counters).toMatchObject({ completed: 3, rejected: 0 });
  });
});
