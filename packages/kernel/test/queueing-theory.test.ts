import {
  type ActorId,
  actorKind,
  type Context,
  defineProgram,
  exponential,
  message,
  modelOf,
  type Program,
  Simulation,
} from '@braess/kernel';
import { describe, expect, it } from 'vitest';

/**
 * Queues built of actors, against theory. Each measure is averaged over independent replications (seeds), and the theoretical value must lie
 * within the confidence interval of Student's t at 1 - 5e-6, plus the resolution of rounding to 1 ns. The seeds are fixed, so a pass is final; over the 15
 * intervals here a false failure with fresh seeds has probability below 1e-4.
 */
const replications = 25;
/** Student's t with 24 degrees of freedom: P(|t| > 5.9) = 4.4e-6. */
const studentT = 5.9;

const serviceNs = 100_000;

interface Tally {
  waits: number[];
}

const customer = message('customer', ['arrivedNs']);
const next = message('next');
const done = message('done');
const request = message('request', ['machine']);

/** Poisson source that sends customers to `to`. */
const source = actorKind({
  name: 'source',
  messages: { next },
  streams: ['arrivals'],
  state: ({ to, meanNs }: { to: { readonly id: ActorId<'customer'> }; meanNs: number }) => ({ to: to.id as number, meanNs }),
  start(state, context) {
    context.timer(next, Math.round(exponential(context.random('arrivals'), state.meanNs)));
  },
  on: {
    next(state, _message, context) {
      context.send(state.to as ActorId<'customer'>, customer, 0, context.now);
      context.timer(next, Math.round(exponential(context.random('arrivals'), state.meanNs)));
    },
  },
});

interface StationSetup {
  readonly servers: number;
  readonly exponentialService: boolean;
  readonly to?: { readonly id: ActorId<'customer'> };
}

/** A first-come first-served station with identical servers; notes every waiting time. */
const station = actorKind({
  name: 'station',
  messages: { customer, done },
  streams: ['service'],
  state: ({ servers, exponentialService, to }: StationSetup): Tally & StationState => ({
    free: servers,
    exponentialService,
    to: to?.id ?? -1,
    queue: [],
    head: 0,
    waits: [],
  }),
  on: {
    customer(state, _message, context) {
      state.queue.push(context.now);
      begin(state, context);
    },
    done(state, _message, context) {
      state.free++;
      if (state.to >= 0) context.send(state.to as ActorId<'customer'>, customer, 0, context.now);
      begin(state, context);
    },
  },
});

interface StationState {
  free: number;
  readonly exponentialService: boolean;
  readonly to: number;
  readonly queue: number[];
  head: number;
}

function begin(state: Tally & StationState, context: Context<'service'>): void {
  if (state.free === 0 || state.head === state.queue.length) return;
  state.free--;
  state.waits.push(context.now - (state.queue[state.head++] as number));
  const lengthNs = state.exponentialService ? Math.round(exponential(context.random('service'), serviceNs)) : serviceNs;
  context.timer(done, lengthNs);
}

function queueProgram(load: number, servers: number, exponentialService: boolean, tandem = false): Program<void> {
  return defineProgram(undefined, 'queue', (world) => {
    const cell = world.cell('shop');
    const second = tandem ? cell.actor('second', station, { servers: 1, exponentialService: true }) : undefined;
    const first = cell.actor('first', station, { servers, exponentialService, ...(second && { to: second }) });
    cell.actor('source', source, { to: first, meanNs: serviceNs / (load * servers) });
  });
}

interface Estimate {
  readonly mean: number;
  readonly halfWidth: number;
}

/** Mean over replications and the half width of its confidence interval. */
function estimate(values: readonly number[]): Estimate {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (values.length - 1);
  return { mean, halfWidth: studentT * Math.sqrt(variance / values.length) };
}

function expectWithin(what: string, values: readonly number[], theory: number, resolution: number): void {
  const { mean, halfWidth } = estimate(values);
  // A test that accepts anything shows nothing: the interval must be narrow.
  expect(halfWidth, `${what}: half width of the interval around ${mean}`).toBeLessThan(0.12 * theory);
  expect(Math.abs(mean - theory), `${what}: ${mean} against ${theory}, interval +- ${halfWidth} (seeds 1..${replications})`).toBeLessThan(
    halfWidth + resolution,
  );
}

/** Waiting times at a station, by replication, without the first tenth. */
function waitsOf(program: Program<void>, customers: number, actor: string, meanGapNs: number): number[][] {
  return Array.from({ length: replications }, (_, index) => {
    const simulation = new Simulation(modelOf(program, undefined), { seed: String(index + 1) });
    simulation.runUntil(Math.round(customers * meanGapNs));
    const { waits } = simulation.stateOf(actor) as Tally;
    return waits.slice(Math.floor(waits.length / 10));
  });
}

const meanOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
const shareAbove = (limit: number) => (values: readonly number[]) => values.filter((value) => value > limit).length / values.length;

describe('queues against theory', () => {
  it('M/M/1: mean wait rho / (mu - lambda), P(wait > t) = rho exp(-(mu - lambda) t)', () => {
    const load = 0.6;
    const waits = waitsOf(queueProgram(load, 1, true), 12_000, 'shop/first', serviceNs / load);
    expectWithin('mean wait', waits.map(meanOf), (load * serviceNs) / (1 - load), 1);
    for (const services of [1, 4]) {
      const limitNs = services * serviceNs;
      expectWithin(`P(wait > ${services})`, waits.map(shareAbove(limitNs)), load * Math.exp(-(1 - load) * services), 1e-5);
    }
    expectWithin('P(wait > 0)', waits.map(shareAbove(0)), load, 1e-4);
  });

  it('M/D/1: mean wait by Pollaczek and Khinchine, tail by Erlang', () => {
    const load = 0.6;
    const waits = waitsOf(queueProgram(load, 1, false), 12_000, 'shop/first', serviceNs / load);
    expectWithin('mean wait', waits.map(meanOf), (load * serviceNs) / (2 * (1 - load)), 1);
    for (const services of [0.5, 1.5]) {
      // A. K. Erlang 1909: P(W <= t) = (1 - rho) sum over k <= t / D of (rho (k - t/D))^k exp(-rho (k - t/D)) / k!.
      let within = 0;
      let factorial = 1;
      for (let k = 0; k <= Math.floor(services); k++) {
        if (k > 0) factorial *= k;
        const power = load * (k - services);
        let raised = 1;
        for (let i = 0; i < k; i++) raised *= power;
        within += (raised * Math.exp(-power)) / factorial;
      }
      expectWithin(`P(wait > ${services})`, waits.map(shareAbove(services * serviceNs)), 1 - (1 - load) * within, 1e-5);
    }
  });

  it('M/M/c: mean and tail of the wait by Erlang C', () => {
    const load = 0.75;
    const servers = 4;
    const offered = load * servers;
    let term = 1;
    let sum = 1;
    for (let k = 1; k < servers; k++) {
      term *= offered / k;
      sum += term;
    }
    const last = ((term * offered) / servers) * (1 / (1 - load));
    const erlangC = last / (sum + last);
    const waits = waitsOf(queueProgram(load, servers, true), 24_000, 'shop/first', serviceNs / offered);
    expectWithin('P(wait > 0)', waits.map(shareAbove(0)), erlangC, 1e-4);
    expectWithin('mean wait', waits.map(meanOf), (erlangC * serviceNs) / (servers * (1 - load)), 1);
    expectWithin('P(wait > 1)', waits.map(shareAbove(serviceNs)), erlangC * Math.exp(-servers * (1 - load)), 1e-5);
  });

  it('tandem: by Burke the second station is an M/M/1 of the same load', () => {
    const load = 0.6;
    const waits = waitsOf(queueProgram(load, 1, true, true), 12_000, 'shop/second', serviceNs / load);
    expectWithin('mean wait', waits.map(meanOf), (load * serviceNs) / (1 - load), 1);
    expectWithin('P(wait > 2)', waits.map(shareAbove(2 * serviceNs)), load * Math.exp(-(1 - load) * 2), 1e-5);
  });

  it('machine repair: broken machines and mean wait of the finite-source queue', () => {
    const machines = 6;
    const meanUpNs = 400_000;
    const repairman = actorKind({
      name: 'repairman',
      messages: { request, done },
      streams: ['repairs'],
      state: () => ({ queue: [] as { machine: number; sinceNs: number }[], current: -1, waits: [] as number[], busyNs: 0 }),
      on: {
        request(state, { machine }, context) {
          state.queue.push({ machine, sinceNs: context.now });
          if (state.current < 0) repair(state, context);
        },
        done(state, _message, context) {
          context.send(state.current as ActorId<'next'>, next, 0);
          state.current = -1;
          repair(state, context);
        },
      },
    });
    interface Repairs {
      readonly queue: { machine: number; sinceNs: number }[];
      current: number;
      readonly waits: number[];
      busyNs: number;
    }
    function repair(state: Repairs, context: Context<'repairs'>): void {
      const first = state.queue.shift();
      if (first === undefined) return;
      state.current = first.machine;
      state.waits.push(context.now - first.sinceNs);
      const lengthNs = Math.round(exponential(context.random('repairs'), serviceNs));
      state.busyNs += lengthNs;
      context.timer(done, lengthNs);
    }
    const machine = actorKind({
      name: 'machine',
      messages: { next, done },
      streams: ['failures'],
      state: (repairs: { readonly id: ActorId<'request' | 'done'> }) => ({ repairman: repairs.id as number }),
      start(_state, context) {
        context.timer(done, Math.round(exponential(context.random('failures'), meanUpNs)));
      },
      on: {
        next(_state, _message, context) {
          context.timer(done, Math.round(exponential(context.random('failures'), meanUpNs)));
        },
        done(state, _message, context) {
          context.send(state.repairman as ActorId<'request'>, request, 0, context.self);
        },
      },
    });
    const program = defineProgram(undefined, 'repair', (world) => {
      const cell = world.cell('shop');
      const reference = cell.actor('repairman', repairman, undefined);
      for (let index = 0; index < machines; index++) cell.actor(`machine${index}`, machine, reference);
    });
    // Birth and death: p_n ~ M! / (M - n)! (service / up)^n.
    const weights = [1];
    for (let n = 0; n < machines; n++) weights.push(((weights[n] as number) * (machines - n) * serviceNs) / meanUpNs);
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    const throughput = (1 - (weights[0] as number) / total) / serviceNs;
    const brokenMean = weights.reduce((sum, weight, n) => sum + (n * weight) / total, 0);
    const untilNs = 1_000_000_000;
    const runs = Array.from({ length: replications }, (_, index) => {
      const simulation = new Simulation(modelOf(program, undefined), { seed: String(index + 1) });
      simulation.runUntil(untilNs);
      return simulation.stateOf('shop/repairman') as Repairs;
    });
    expectWithin(
      'utilisation',
      runs.map(({ busyNs }) => busyNs / untilNs),
      throughput * serviceNs,
      1e-4,
    );
    expectWithin(
      'mean wait',
      runs.map(({ waits }) => meanOf(waits.slice(waits.length / 10))),
      brokenMean / throughput - serviceNs,
      1,
    );
    // An arriving failure sees the queue of M - 1 machines (arrival theorem): it waits when any of them is broken.
    const fewer = [1];
    for (let n = 0; n < machines - 1; n++) fewer.push(((fewer[n] as number) * (machines - 1 - n) * serviceNs) / meanUpNs);
    const idle = 1 / fewer.reduce((sum, weight) => sum + weight, 0);
    expectWithin(
      'P(wait > 0)',
      runs.map(({ waits }) => shareAbove(0)(waits)),
      1 - idle,
      1e-4,
    );
  });
});
