import { outcome, REASON } from '@braess/protocol';
import { describe, expect, it } from 'vitest';
import { engineLog, frontendOf, imbalance, refusal, rows, settledOf, simulate } from './fakes.js';

const server = { role: 0, prefillNs: 10_000, tokenNs: 100 };
const request = { atNs: 0, inputTokens: 16, outputTokens: 2 };

describe('waiting when all engines are busy', () => {
  const order = (queue: object, requests: readonly { atNs: number; inputTokens: number; priority?: number }[]): number[] => {
    const simulation = simulate({
      engines: [{ role: 0, prefillNs: 50_000 }],
      requests,
      options: { queue: { maxEngineRequests: 1, ...queue } },
    });
    simulation.runUntil();
    expect(imbalance(simulation)).toBe(0);
    return engineLog(simulation, 0).prefills.map((entry) => entry.request);
  };
  const sizes = [500, 300, 100, 200, 100].map((inputTokens, index) => ({ atNs: index, inputTokens, priority: index === 1 ? 5 : 0 }));

  it('goes in order of arrival by default', () => expect(order({}, sizes)).toEqual([0, 1, 2, 3, 4]));

  it('goes by weight over work under wspt: 300 / 6, 100, 100, 200', () => expect(order({ order: 'wspt' }, sizes)).toEqual([0, 1, 2, 4, 3]));

  it('rejects what finds the queue full', () => {
    const requests = Array.from({ length: 5 }, (_, index) => ({ ...request, atNs: index }));
    const simulation = simulate({ engines: [server], requests, options: { queue: { maxEngineRequests: 1, limit: 2 } } });
    simulation.runUntil();
    expect(rows(simulation).map((row) => row.reason)).toEqual([0, 0, 0, REASON.queueFull, REASON.queueFull]);
    expect(frontendOf(simulation).counters).toMatchObject({ completed: 3, rejected: 2, mostWaiting: 2 });
  });

  it('holds back prompts while an engine has as many tokens to compute as it may', () => {
    const requests = [0, 1, 2].map((atNs) => ({ ...request, atNs, inputTokens: 60 }));
    const simulation = simulate({ engines: [server], requests, options: { queue: { maxEnginePrefillTokens: 100 } } });
    simulation.runUntil();
    // Two fit (60 < 100, then 120 are there); the third goes when the first token of the first is reported at 11,500 + 500.
    expect(engineLog(simulation, 0).prefills.map((entry) => entry.atNs)).toEqual([1500, 1501, 12_500]);
  });

  it('keeps a prefilled request waiting for a decode engine', () => {
    const engines = [
      { role: 1, prefillNs: 1000 },
      { role: 2, transferNs: 0, tokenNs: 10_000 },
    ];
    const requests = [0, 1].map((atNs) => ({ ...request, atNs, outputTokens: 3 }));
    const simulation = simulate({ engines, requests, options: { queue: { maxEngineRequests: 1 } } });
    simulation.runUntil();
    // The first decodes from 3,500 to 23,500 and is reported at 24,000.
    expect(engineLog(simulation, 1).decodes.map((entry) => entry.atNs)).toEqual([3500, 24_500]);
  });
});

describe('refusals', () => {
  it('are taken to another engine', () => {
    const requests = Array.from({ length: 6 }, (_, index) => ({ ...request, atNs: 50_000 * index }));
    const simulation = simulate({ engines: [{ ...server, refuseAt: 0 }, server], requests, router: 'round-robin' });
    simulation.runUntil();
    expect(engineLog(simulation, 1).prefills.length).toBe(6);
    // Every other one asked the refusing engine first. After a refusal round-robin stands at engine 1, so engine 0 is next.
    expect(rows(simulation).map((row) => row.attempts)).toEqual([2, 2, 2, 2, 2, 2]);
  });

  it('end in a rejection when every engine refuses, or one for good', () => {
    const engines = [
      { ...server, refuseAt: 0 },
      { ...server, refuseAt: 0 },
      { ...server, refuseAt: 0 },
    ];
    const refused = simulate({ engines, requests: [request], options: { maxAttempts: 3 } });
    refused.runUntil();
    expect(rows(refused)[0]).toMatchObject({ reason: REASON.queueFull, attempts: 3 });
    const tooLong = simulate({
      engines: [{ ...server, refuseAt: 0, reason: refusal.forGood }, server],
      requests: [request],
      router: 'round-robin',
    });
    tooLong.runUntil();
    expect(rows(tooLong)[0]).toMatchObject({ reason: REASON.tooLong, attempts: 1 });
    expect(settledOf(tooLong)[0]?.outcome).toBe(outcome.rejected);
  });

  it('by the last decode engine let go of the KV that the prefill engine holds', () => {
    const engines = [
      { role: 1, prefillNs: 1000 },
      { role: 2, refuseAt: 0 },
    ];
    const simulation = simulate({ engines, requests: [request] });
    simulation.runUntil();
    expect(engineLog(simulation, 0).cancels).toEqual([{ request: 0, atNs: 1000 + 500 + 1000 + 500 + 500 + 500 + 500 }]);
    expect(rows(simulation)[0]?.reason).toBe(REASON.queueFull);
  });
});

describe('an engine that dies', () => {
  const dying = [{ ...server, dieAtNs: 5000 }, server];

  it('loses its requests to the others', () => {
    const simulation = simulate({ engines: dying, requests: [request], router: 'round-robin' });
    simulation.runUntil();
    // Known at 5,500; at the other engine at 6,000; done at 16,000.
    expect(rows(simulation)[0]).toMatchObject({ reason: 0, attempts: 2, queuedNs: 6000, firstTokenNs: 16_000 });
  });

  it('fails them when the cluster does not retry', () => {
    const simulation = simulate({ engines: dying, requests: [request], router: 'round-robin', options: { onEngineDeath: 'fail' } });
    simulation.runUntil();
    expect(settledOf(simulation)[0]).toMatchObject({ outcome: outcome.failed, atNs: 6500 });
    expect(rows(simulation)[0]?.reason).toBe(REASON.workerLost);
  });

  it('rejects what nobody is left to serve, now and later, instead of holding it for ever', () => {
    const simulation = simulate({ engines: [{ ...server, dieAtNs: 5000 }], requests: [request, { ...request, atNs: 50_000 }] });
    simulation.runUntil();
    expect(rows(simulation).map((row) => row.reason)).toEqual([REASON.noWorker, REASON.noWorker]);
  });

  it('takes waiting requests along when it was the last', () => {
    const requests = [0, 1, 2].map((atNs) => ({ ...request, atNs }));
    const simulation = simulate({ engines: [{ ...server, dieAtNs: 5000 }], requests, options: { queue: { maxEngineRequests: 1 } } });
    simulation.runUntil();
    expect(imbalance(simulation)).toBe(0);
    expect(frontendOf(simulation).counters).toMatchObject({ rejected: 3 });
  });

  it('in the middle of a decode sends the request back to prefill and frees the KV held for it', () => {
    const engines = [
      { role: 1, prefillNs: 1000 },
      { role: 2, transferNs: 8000, tokenNs: 10, dieAtNs: 5000 },
      { role: 2, transferNs: 8000, tokenNs: 10 },
    ];
    const simulation = simulate({ engines, requests: [request], router: 'round-robin' });
    simulation.runUntil();
    expect(engineLog(simulation, 0).cancels).toEqual([{ request: 0, atNs: 6000 }]);
    expect(engineLog(simulation, 0).prefills.map((entry) => entry.atNs)).toEqual([1500, 6000]);
    // Prefilled again at 7,000, reported at 7,500, decode from 8,000, transfer 8,000.
    expect(rows(simulation)[0]).toMatchObject({ attempts: 2, firstTokenNs: 16_000, reason: 0 });
  });
});

describe('engines that come and go', () => {
  it('get nothing new while they drain, and those who wait when they are back', () => {
    const engines = [
      {
        ...server,
        states: [
          [0, 0, 1],
          [40_000, 0, 0],
        ] as const,
      },
    ];
    const simulation = simulate({ engines, requests: [request] });
    simulation.runUntil();
    expect(engineLog(simulation, 0).prefills).toEqual([{ request: 0, atNs: 41_000 }]);
  });

  it('serve the stage of their new role', () => {
    const engines = [
      { role: 1, prefillNs: 1000 },
      {
        role: 1,
        prefillNs: 1000,
        transferNs: 100,
        states: [
          [10_000, 2, 2],
          [20_000, 2, 0],
        ] as const,
      },
    ];
    const simulation = simulate({ engines, requests: [request] });
    simulation.runUntil();
    // Prefilled long before, it waits for the decode engine that is switching: none was there, but one drains, switches or is on its way.
    expect(rows(simulation)[0]).toMatchObject({ reason: REASON.noWorker });
    const patient = simulate({ engines, requests: [{ ...request, atNs: 12_000 }] });
    patient.runUntil();
    expect(engineLog(patient, 1).decodes).toMatchObject([{ request: 0, atNs: 21_000 }]);
  });
});

describe('clients that give up', () => {
  it.each([
    ['while it waits', 2, 'waiting', []],
    ['in prefill', 0, 'prefill', [0]],
  ] as const)('%s: the engine is told if it has the request', (_name, index, _stage, cancelled) => {
    const requests = [0, 1, 2].map((atNs) => ({ ...request, atNs, ...(atNs === index ? { cancelAtNs: 4000 } : {}) }));
    const simulation = simulate({ engines: [server], requests, options: { queue: { maxEngineRequests: 1 } } });
    simulation.runUntil();
    expect(engineLog(simulation, 0).cancels.map((entry) => entry.request)).toEqual(cancelled);
    expect(rows(simulation)[index]?.reason).toBe(REASON.cancelled);
    expect(settledOf(simulation).filter((entry) => entry.outcome === outcome.completed).length).toBe(2);
    expect(imbalance(simulation)).toBe(0);
  });

  it('in decode: both engines are told, for the request may come to the first one again before word of the second gets there', () => {
    const engines = [
      { role: 1, prefillNs: 1000 },
      { role: 2, transferNs: 8000 },
    ];
    const simulation = simulate({ engines, requests: [{ ...request, cancelAtNs: 4000 }] });
    simulation.runUntil();
    expect(engineLog(simulation, 1).cancels).toEqual([{ request: 0, atNs: 5500 }]);
    expect(engineLog(simulation, 0).cancels).toEqual([{ request: 0, atNs: 5500 }]);
  });

  it('after the end: nothing happens', () => {
    const simulation = simulate({ engines: [server], requests: [{ ...request, cancelAtNs: 90_000 }] });
    simulation.runUntil();
    expect(frontendOf(simulation).counters).toMatchObject({ completed: 1, cancelled: 0, strayReports: 1 });
  });

  it('by a deadline: the request times out at that very time', () => {
    const requests = [
      { ...request, deadlineNs: 7000 },
      { ...request, atNs: 60_000, deadlineNs: 80_000 },
    ];
    const simulation = simulate({ engines: [server], requests });
    simulation.runUntil();
    expect(rows(simulation).map((row) => [row.reason, row.endNs])).toEqual([
      [REASON.timeout, 7000],
      [REASON.none, 72_100],
    ]);
  });
});
