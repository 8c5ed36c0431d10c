import { type CareClientState, type ClientOptions, createConnectionPool, type PoolOrder } from '@braess/workload';
import { describe, expect, it } from 'vitest';
import { AT_ONCE, countsOf, MS, seenBy, simulate, tableOf } from './client-world.js';

const BASE: ClientOptions = { table: tableOf([]), blockTokens: 64, submitDelayNs: 1000 };
const WORKERS = { style: 'workers', inFlight: 4, meanThinkMs: 0, think: 'exponential', taskLimit: 0 } as const;

const rows = (count: number) => tableOf(Array.from({ length: count }, () => ({ arrivalNs: 0 })));
/** Requests in the order in which they are sent, all of the same length: what ends together began together. */
function sentBy(options: Partial<ClientOptions>, count: number): number[] {
  const simulation = simulate({ options: { ...BASE, table: rows(count), ...options }, frontend: AT_ONCE });
  simulation.runUntil();
  return seenBy(simulation).map(({ request }) => request);
}
const pool = (connections: number, order: PoolOrder, bargeShare = 0) => ({ connections, order, bargeShare, queueLimit: 99 });

describe('who gets a connection', () => {
  it('aiohttp, worker loops: of two freed in one tick, one goes to a finisher and one to a waiter', () => {
    // Tick 1: 0 and 1 end and wake 2 and 3. Ready: loop A, 2, loop B, 3. A sends 4, 2 is sent, B's 5 goes to the end, 3 back to the front. And so on.
    expect(sentBy({ loop: WORKERS, connections: pool(2, 'aiohttp') }, 12).slice(0, 10)).toEqual([0, 1, 4, 2, 6, 3, 8, 5, 10, 7]);
  });

  it('aiohttp, worker loops: a connection freed alone never reaches those who wait', () => {
    expect(sentBy({ loop: { ...WORKERS, inFlight: 2 }, connections: pool(1, 'aiohttp') }, 6)).toEqual([0, 2, 3, 4, 5, 1]);
  });

  it('aiohttp, a task a request: new tasks stand behind the woken waiters, so the queue is fair', () => {
    const loop = { ...WORKERS, style: 'semaphore', backlog: true } as const;
    expect(sentBy({ loop, connections: pool(2, 'aiohttp') }, 9)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8]);
  });

  it('aiohttp: two waiters that find nothing free go back one after the other, so the later one is first', () => {
    // Three freed at once among six loops: A 6, then 3, then B 7; waiters 4 and 5 find nothing.
    const sent = sentBy({ loop: { ...WORKERS, inFlight: 6 }, connections: pool(3, 'aiohttp') }, 20);
    expect(sent.slice(0, 6)).toEqual([0, 1, 2, 6, 3, 7]);
    // Queue: 5, 4, 8. Next tick: 9, 5, 10 are sent.
    expect(sent.slice(6, 9)).toEqual([9, 5, 10]);
  });

  it('barge: always or never', () => {
    const loop = { ...WORKERS, inFlight: 2 };
    expect(sentBy({ loop, connections: pool(1, 'barge', 1) }, 6)).toEqual([0, 2, 3, 4, 5, 1]);
    expect(sentBy({ loop, connections: pool(1, 'barge', 0) }, 6)).toEqual([0, 1, 2, 3, 4, 5]);
    expect(() => createConnectionPool(pool(1, 'barge', 2))).toThrow(/bargeShare is 2/);
  });

  it('a tick that lasts gathers what is freed within it', () => {
    // One of two service times, 1 us apart, in one tick of 10 us: as if freed at once.
    const connections = { ...pool(2, 'aiohttp'), tickUs: 10 };
    const sent = sentBy({ loop: WORKERS, connections }, 8);
    expect(sent.slice(0, 4)).toEqual([0, 1, 4, 2]);
  });
});

describe('phases and moves', () => {
  const phases = [
    { seconds: 0.01, inFlight: 2 },
    { seconds: 0.01, inFlight: 3 },
  ];

  it('a phase begins with a fresh burst; what came before runs out and gives nothing back', () => {
    const simulation = simulate({ options: { ...BASE, table: rows(100), loop: { ...WORKERS, phases } }, frontend: AT_ONCE });
    simulation.runUntil();
    // A cycle is 5.002 ms: 1 us there, 5 ms, 1 us back. Sent at 0 and 5.002; at 10 the burst of three, then 15.002; the end comes at 20.
    const came = seenBy(simulation).map(({ request, atNs }) => [request, (atNs - 1000) / MS]);
    expect(came).toEqual([
      [0, 0],
      [1, 0],
      [2, 5.002],
      [3, 5.002],
      [4, 10],
      [5, 10],
      [6, 10],
      [7, 15.002],
      [8, 15.002],
      [9, 15.002],
    ]);
    expect(countsOf(simulation)).toMatchObject({ submitted: 10, completed: 10 });
  });

  it('a move sends what is new to the other frontend and loses as many permits as told', () => {
    const options: ClientOptions = {
      ...BASE,
      table: rows(100),
      loop: { ...WORKERS, phases: [{ seconds: 0.022, inFlight: 3 }] },
      moves: [{ atSeconds: 0.007, frontend: 1 }],
      permitsLostByMove: 2,
    };
    const simulation = simulate({ options, frontend: AT_ONCE, frontends: 2 });
    simulation.runUntil();
    // Cycles begin at 0 and 5.002 with three; of those that end at 10.004 two give nothing back.
    expect(seenBy(simulation, 0).map(({ request }) => request)).toEqual([0, 1, 2, 3, 4, 5]);
    expect(seenBy(simulation, 1).map(({ request, atNs }) => [request, (atNs - 1000) / MS])).toEqual([
      [6, 10.004],
      [7, 15.006],
      [8, 20.008],
    ]);
    const { loop } = simulation.stateOf('clients/client0') as CareClientState;
    expect(loop).toMatchObject({ limit: 0, phase: 1, finished: 9 });
  });
});
