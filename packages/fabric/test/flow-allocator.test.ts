import { addFlow, advance, createFlowAllocator, flowRate, maxMinRates, removeFlow, setLinkCapacity } from '@braess/fabric';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { drain, stepCounter } from './drain.js';
import { distinctBelow, seededUniform } from './random.js';

interface Living {
  id: number;
  path: number[];
  weight: number;
  cap: number;
}

function expectReferenceRates(allocator: ReturnType<typeof createFlowAllocator>, living: Living[]): void {
  const links = Array.from(allocator.linkBytesPerSecond, (bytesPerSecond, link) => ({
    bytesPerSecond,
    backgroundShare: allocator.backgroundShare[link]!,
  }));
  const flows = living.map((flow) => ({ path: flow.path, weight: flow.weight, capBytesPerSecond: flow.cap }));
  const expected = maxMinRates(links, flows);
  living.forEach((flow, index) => {
    const rate = flowRate(allocator, flow.id);
    const due = expected[index]!;
    if (Math.abs(rate - due) > due * 1e-6) throw new Error(`flow ${flow.id}: ${rate} against ${due}`);
  });
}

describe('progressive filling', { timeout: 15_000 }, () => {
  it('solves the textbook line network: one long flow, one short flow per link', () => {
    // Links of 10 and 4; long flow on both, shorts on one each: link 1 gives 2 and 2, link 0 gives the short 8.
    const rates = maxMinRates([{ bytesPerSecond: 10 }, { bytesPerSecond: 4 }], [{ path: [0, 1] }, { path: [0] }, { path: [1] }]);
    expect(Array.from(rates)).toEqual([2, 8, 2]);
  });

  it('honours weights, caps and background', () => {
    const links = [{ bytesPerSecond: 100, backgroundShare: 0.2 }];
    const rates = maxMinRates(links, [{ path: [0], weight: 3 }, { path: [0] }, { path: [0], capBytesPerSecond: 10 }]);
    // 80 left, 10 to the capped one, the other 70 by 3:1.
    expect(rates[0]).toBeCloseTo(52.5, 9);
    expect(rates[1]).toBeCloseTo(17.5, 9);
    expect(rates[2]).toBe(10);
  });
});

describe('incremental allocator', { timeout: 15_000 }, () => {
  it('equals the reference after every step of random histories', () => {
    fc.assert(
      fc.property(fc.integer(), fc.integer({ min: 1, max: 14 }), fc.boolean(), (seed, linkCount, plain) => {
        const uniform = seededUniform(seed);
        const pick = (limit: number): number => Math.floor(uniform() * limit);
        const allocator = createFlowAllocator(Array.from({ length: linkCount }, () => (1 + pick(9)) * 1e9));
        const living: Living[] = [];
        for (let step = 0; step < 80; step++) {
          const action = pick(10);
          if (action < 6 || living.length === 0) {
            const path = distinctBelow(uniform, linkCount, 1 + pick(Math.min(5, linkCount)));
            const weight = plain ? 1 : 0.25 + pick(8) / 3;
            const cap = plain || pick(3) > 0 ? Number.POSITIVE_INFINITY : (1 + pick(20)) * 1e8;
            addFlow(allocator, step, step, Int32Array.from(path), path.length, Number.POSITIVE_INFINITY, weight, cap);
            living.push({ id: step, path, weight, cap });
          } else if (action < 9) {
            removeFlow(allocator, step, living.splice(pick(living.length), 1)[0]!.id);
          } else {
            setLinkCapacity(allocator, step, pick(linkCount), pick(8) * 1e9, pick(4) / 5);
          }
          if (pick(3) > 0) expectReferenceRates(allocator, living);
        }
        expectReferenceRates(allocator, living);
      }),
      { numRuns: 300, endOnFailure: true },
    );
  });

  it('completes random traces at the times of an event-by-event simulation', () => {
    fc.assert(
      fc.property(fc.integer(), (seed) => {
        const trace = randomTrace(seed);
        const expected = simulateTrace(trace);
        const allocator = createFlowAllocator(trace.capacities);
        const ended = new Map<number, number>();
        const collect = (): void => {
          allocator.completedFlowIds.forEach((id, index) => {
            ended.set(id, allocator.completedAtNs[index]!);
          });
        };
        trace.flows.forEach((flow, id) => {
          advance(allocator, flow.startNs);
          collect();
          addFlow(allocator, flow.startNs, id, Int32Array.from(flow.path), flow.path.length, flow.sizeBytes);
        });
        drain(allocator, (nowNs) => {
          advance(allocator, nowNs);
          collect();
        });
        expect(ended.size).toBe(trace.flows.length);
        trace.flows.forEach((flow, id) => {
          const took = ended.get(id)! - flow.startNs;
          const due = expected[id]! - flow.startNs;
          expect(Number.isInteger(took)).toBe(true);
          // Far inside the 1 % asked for: only rounding up to whole ns separates the two.
          expect(Math.abs(took - due)).toBeLessThanOrEqual(1e-6 * due + 50);
        });
        const moved = trace.flows.reduce((sum, flow) => sum + flow.sizeBytes, 0);
        expect([allocator.admittedBytes, allocator.deliveredBytes, allocator.abandonedBytes]).toEqual([moved, moved, 0]);
        allocator.linkMovedBytes.forEach((bytes, link) => {
          expect(bytes).toBe(trace.flows.reduce((sum, flow) => sum + (flow.path.includes(link) ? flow.sizeBytes : 0), 0));
        });
      }),
      { numRuns: 60, endOnFailure: true },
    );
  });
});

interface Trace {
  capacities: number[];
  flows: { startNs: number; path: number[]; sizeBytes: number }[];
}

function randomTrace(seed: number): Trace {
  const uniform = seededUniform(seed);
  const capacities = Array.from({ length: 10 }, () => (1 + Math.floor(uniform() * 9)) * 1e9);
  let startNs = 0;
  const flows = Array.from({ length: 60 }, () => {
    startNs += Math.floor(uniform() * 400_000);
    const path = distinctBelow(uniform, 10, 1 + Math.floor(uniform() * 4));
    return { startNs, path, sizeBytes: 1 + Math.floor(uniform() * 4e6) };
  });
  return { capacities, flows };
}

/** Independent: real-valued time, the reference solver from scratch at every start and end. */
function simulateTrace(trace: Trace): number[] {
  const links = trace.capacities.map((bytesPerSecond) => ({ bytesPerSecond }));
  const left = trace.flows.map((flow) => flow.sizeBytes);
  const ends = trace.flows.map(() => Number.NaN);
  const active: number[] = [];
  let now = 0;
  let next = 0;
  const countStep = stepCounter(trace.flows.length);
  while (next < trace.flows.length || active.length > 0) {
    countStep();
    const rates = maxMinRates(
      links,
      active.map((flow) => ({ path: trace.flows[flow]!.path })),
    );
    let until = next < trace.flows.length ? trace.flows[next]!.startNs : Number.POSITIVE_INFINITY;
    active.forEach((flow, index) => {
      until = Math.min(until, now + (left[flow]! * 1e9) / rates[index]!);
    });
    active.forEach((flow, index) => {
      left[flow]! -= (rates[index]! * (until - now)) / 1e9;
    });
    now = until;
    for (const flow of active.slice()) {
      if (left[flow]! > 1e-3) continue;
      ends[flow] = now;
      active.splice(active.indexOf(flow), 1);
    }
    if (next < trace.flows.length && trace.flows[next]!.startNs <= now) active.push(next++);
  }
  return ends;
}
