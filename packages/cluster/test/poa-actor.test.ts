import { type PoaActorOptions, poaActorKind } from '@braess/cluster';
import { affineLatency, PUBLISHED_POA_OPTIONS } from '@braess/games';
import { actorKind, defineProgram, message, modelOf, Simulation } from '@braess/kernel';
import { assignments, clientOutcomes, engineRole, engineState, engineStatus, untilMomentNs } from '@braess/protocol';
import { describe, expect, it } from 'vitest';

const s = 1e9;
const moment = 381_966_000;
const step = message('step', ['index']);

interface Step {
  readonly atS: number;
  /** Requests that join worker 0 and worker 1; they leave where the first is negative. */
  readonly joins?: readonly [number, number];
  readonly inFlight?: number;
  /** What an engine tells: worker, role, status. */
  readonly told?: readonly [number, number, number];
  /** Came, ended, TTFT, all in seconds. */
  readonly ended?: readonly (readonly [number, number, number])[];
}

/** The actor between two workers that only have names, fed by a script. */
function run(script: readonly Step[], options: Partial<PoaActorOptions> = {}) {
  const workerKind = actorKind({ name: 'worker', messages: { step }, state: () => ({}), on: { step() {} } });
  const poa = poaActorKind({
    periodNs: s,
    delayNs: 1000,
    windowNs: 2 * s,
    latency: affineLatency(0.5, 0),
    poa: PUBLISHED_POA_OPTIONS,
    alarmFactor: 1.25,
    alarmSamples: 2,
    ...options,
  });
  const program = defineProgram(undefined, 'poa-test', (world) => {
    const workers = [0, 1].map((index) => world.actor(`worker${index}`, workerKind, undefined));
    const actor = world.actor('poa', poa, { engines: workers.map((worker) => ({ actor: worker, role: engineRole.decode })) });
    const feeder = actorKind({
      name: 'feeder',
      messages: { step },
      state: () => ({}),
      start(_state, context) {
        for (const [index, { atS }] of script.entries()) context.timer(step, Math.round(atS * s), index);
      },
      on: {
        step(_state, { index }, context) {
          const { joins, inFlight, told, ended = [] } = script[index]!;
          if (told !== undefined) context.send(actor.id, engineState, 1000, workers[told[0]]!.id, told[1], told[2]);
          if (joins !== undefined) {
            const worker = joins.flatMap((count, at) => new Array<number>(Math.abs(count)).fill(workers[at]!.id));
            const columns = {
              request: new Float64Array(worker.length),
              worker: Int32Array.from(worker),
              change: new Int8Array(worker.length).fill(joins[0] < 0 ? -1 : 1),
            };
            context.sendBody(actor.id, assignments, 1000, columns, worker.length);
          }
          if (inFlight === undefined) return;
          const columns = {
            cameNs: Float64Array.from(ended, ([came]) => came * s),
            endNs: Float64Array.from(ended, ([, end]) => end * s),
            ttftNs: Float64Array.from(ended, ([, , ttft]) => ttft * s),
            itlNs: new Float64Array(ended.length).fill(20e6),
          };
          context.sendBody(actor.id, clientOutcomes, 1000, columns, inFlight);
        },
      },
    });
    world.actor('feeder', feeder, undefined);
    world.lookahead('default', 'default', 1000);
  });
  const simulation = new Simulation(modelOf(program, undefined), { keepRecords: true });
  simulation.runUntil();
  return simulation.takeRecords().map(({ type, fields }) => ({ type, fields: Array.from(fields) }));
}

describe('the price-of-anarchy actor', () => {
  it('sets the latencies that all in flight turned out to have over the best pair a worker, once the last has ended', () => {
    const six = [1.1, 1.5, 1.7, 1.9, 2.1, 2.3].map((end) => [0.1, end, 0.05] as const);
    const records = run([
      { atS: 0.2, joins: [3, 2], inFlight: 6 },
      { atS: 1.2, inFlight: 5, ended: six.slice(0, 1) },
      { atS: 2.35, inFlight: 0, ended: six.slice(1) },
    ]);
    const snapshots = records.filter(({ type }) => type === 'poaSnapshot');
    // Six rows of 1.0, 1.4, 1.6 ... 2.2 s, 10 s in all; one slot a worker: 0.5 x 3 + 0.5 x 2. At the second moment five are left: 9 s.
    expect(snapshots[0]!.fields.map((value) => Number(value.toFixed(9)))).toEqual([moment, 4, 10, 2.5, 6, 5]);
    expect(snapshots[1]!.fields.map((value) => Number(value.toFixed(9)))).toEqual([s + moment, 3.6, 9, 2.5, 5, 5]);
    const live = records.filter(({ type }) => type === 'poaLive').map(({ fields }) => fields);
    expect(live[0]![1]).toBeNaN(); // Nothing had ended yet.
    expect(live[1]![1]).toBeCloseTo((5 * 1.0) / 2.5, 9);
  });

  it('is undefined under five in flight', () => {
    const records = run([
      { atS: 0.2, joins: [2, 2], inFlight: 4 },
      { atS: 1.2, inFlight: 0, ended: [1, 2, 3, 4].map(() => [0.1, 1.1, 0.05] as const) },
    ]);
    expect(records.find(({ type }) => type === 'poaSnapshot')!.fields[1]).toBeNaN();
  });

  it('counts as workers the engines that take requests to decode, and those that still decode some', () => {
    const { active, draining } = engineStatus;
    const records = run(
      [
        { atS: 0.1, joins: [3, 0], inFlight: 10, told: [1, engineRole.prefill, active] },
        { atS: 1.5, told: [1, engineRole.decode, active] },
        { atS: 2.5, told: [0, engineRole.decode, draining] },
        { atS: 3.5, joins: [-3, 0] },
        { atS: 4.5, told: [1, engineRole.decode, draining] },
        { atS: 5.8, inFlight: 0, ended: new Array(10).fill([0.1, 5.8, 0.05] as const) },
      ],
      { latency: affineLatency(0.5, 0.25) },
    );
    const denominators = records.filter(({ type }) => type === 'poaSnapshot').map(({ fields }) => Number(fields[3]!.toFixed(9)));
    // One slot a worker, 0.5 s a request of load and 0.25 s: three on worker 0, twice; an empty worker 1 beside it; worker 0 drains, then is empty; none is left.
    expect(denominators).toEqual([1.75, 1.75, 2, 2, 0.25, Number.NaN]);
  });

  it('measures how long before the objective broke it rose', () => {
    const wave = (from: number, latency: number, ttft: number) => new Array(10).fill([from, from + latency, ttft] as const);
    const records = run(
      [
        { atS: 0.2, joins: [5, 5], inFlight: 10 },
        ...[1.2, 2.2, 3.2].map((atS) => ({ atS, inFlight: 10, ended: wave(atS - 0.6, 0.5, 0.1) })),
        // Latency doubles; the TTFT follows two moments later.
        ...[4.2, 5.2, 6.2].map((atS) => ({ atS, inFlight: 10, ended: wave(atS - 1.1, 1, 0.1) })),
        { atS: 7.2, inFlight: 0, ended: wave(6, 1, 0.9) },
      ],
      { windowNs: 1 * s, ttftSloMs: 500 },
    );
    const lead = records.find(({ type }) => type === 'poaLead');
    // 10 x 0.5 / 5 = 1 while calm, then 2: the second such moment raises the alarm.
    expect(lead).toBeUndefined(); // In the last moment nothing is in flight any more, so no snapshot is taken.
    const longer = run(
      [
        { atS: 0.2, joins: [5, 5], inFlight: 10 },
        ...[1.2, 2.2, 3.2].map((atS) => ({ atS, inFlight: 10, ended: wave(atS - 0.6, 0.5, 0.1) })),
        ...[4.2, 5.2, 6.2].map((atS) => ({ atS, inFlight: 10, ended: wave(atS - 1.1, 1, 0.1) })),
        { atS: 7.2, inFlight: 10, ended: wave(6, 1, 0.9) },
        { atS: 8.2, inFlight: 0, ended: wave(7, 1, 0.9) },
      ],
      { windowNs: 1 * s, ttftSloMs: 500 },
    ).find(({ type }) => type === 'poaLead')!;
    expect(longer.fields).toEqual([5 * s + moment, 7 * s + moment, 1]);
  });

  it('its moments lie off the whole seconds', () => {
    expect(untilMomentNs(0, s)).toBe(moment);
    expect(untilMomentNs(moment, s)).toBe(s);
    expect(untilMomentNs(3 * s, s)).toBe(moment);
  });
});
