import { type ActorReference, actorKind, type Context, defineProgram, message, modelOf, Simulation } from '@braess/kernel';
import { oneFingerprint } from '@braess/kernel/testing';
import fc from 'fast-check';
import seedrandom from 'seedrandom';
import { describe, expect, it } from 'vitest';
import { RandomStreams } from '../src/random-streams.js';
import { WindowBounds } from '../src/window-bounds.js';

const infinity = Number.POSITIVE_INFINITY;

describe('window bounds', () => {
  /** The second implementation: relaxes earliest event and arrival times until nothing changes. */
  function bruteForce(count: number, direct: Float64Array, first: Float64Array, silent: Float64Array): number[] {
    const earliest = [...first];
    const arrivals = new Array<number>(count).fill(infinity);
    for (let changed = true; changed; ) {
      changed = false;
      for (let from = 0; from < count; from++) {
        for (let to = 0; to < count; to++) {
          if (from === to) continue;
          const at = from * count + to;
          const left = earliest[from] as number;
          if (left === infinity) continue;
          const arrival = Math.max(left + (direct[at] as number), silent[at] as number);
          if (arrival < (arrivals[to] as number)) {
            arrivals[to] = arrival;
            changed = true;
          }
          if (arrival < (earliest[to] as number)) {
            earliest[to] = arrival;
            changed = true;
          }
        }
      }
    }
    return arrivals;
  }

  it('equal the earliest arrival over all chains, the way back to oneself included', () => {
    const scene = fc.integer({ min: 1, max: 5 }).chain((count) =>
      fc.record({
        count: fc.constant(count),
        direct: fc.array(fc.oneof(fc.integer({ min: 1, max: 20 }), fc.constant(infinity)), {
          minLength: count ** 2,
          maxLength: count ** 2,
        }),
        first: fc.array(fc.oneof(fc.nat(50), fc.constant(infinity)), { minLength: count, maxLength: count }),
        silent: fc.array(fc.oneof(fc.constant(0), fc.nat(100)), { minLength: count ** 2, maxLength: count ** 2 }),
      }),
    );
    fc.assert(
      fc.property(scene, ({ count, direct, first, silent }) => {
        const bounds = new WindowBounds(count, Float64Array.from(direct));
        for (let round = 0; round < 2; round++) {
          bounds.compute(Float64Array.from(first), Float64Array.from(silent));
          expect([...bounds.boundNs]).toEqual(
            bruteForce(count, Float64Array.from(direct), Float64Array.from(first), Float64Array.from(silent)),
          );
        }
      }),
      { seed: 3, numRuns: 2000 },
    );
  });

  it('hold a busy shard back from what an idle shard may echo', () => {
    const bounds = new WindowBounds(2, Float64Array.of(infinity, 10, 10, infinity));
    bounds.compute(Float64Array.of(100, infinity), new Float64Array(4));
    expect([...bounds.boundNs]).toEqual([120, 110]);
  });

  it('let an idle shard echo into a busy one: the echo is not overtaken', async () => {
    const ping = message('ping', ['hops']);
    const tick = message('tick', ['count']);
    let echoId: () => number = () => 0;
    const busy = actorKind({
      name: 'busy',
      messages: { ping, tick },
      state: () => ({ log: [] as number[] }),
      start(_state, context) {
        context.send(context.self, tick, 0, 0);
      },
      on: {
        // Events every nanosecond: without the way back, this shard would run on past the echo.
        tick(state, { count }, context) {
          state.log.push(-context.now);
          if (count < 200) context.send(context.self, tick, 1, count + 1);
          if (count % 20 === 0) context.send(echoId() as typeof context.self, ping, 10, 1);
        },
        ping(state, _message, context) {
          state.log.push(context.now);
        },
      },
    });
    const echo = actorKind({
      name: 'echo',
      messages: { ping },
      state: () => ({}),
      on: {
        ping(_state, { sender }, context) {
          context.send(sender, ping, 10, 0);
        },
      },
    });
    const program = defineProgram(undefined, 'echo', (world) => {
      world.actor('a', busy, undefined);
      const reference = world.actor('z', echo, undefined);
      echoId = () => reference.id;
      world.lookahead('default', 'default', 10);
    });
    await oneFingerprint(program, undefined, { matrix: 'memory' });
    const simulation = new Simulation(modelOf(program, undefined), { shards: 2 });
    simulation.runUntil();
    const { log } = simulation.stateOf('a') as { log: number[] };
    const times = log.map(Math.abs);
    expect(times).toEqual([...times].sort((a, b) => a - b));
    expect(log.filter((time) => time > 0 || Object.is(time, 0))).toEqual([20, 40, 60, 80, 100, 120, 140, 160, 180, 200, 220]);
  });
});

describe('promises of silence', () => {
  const tick = message('tick');
  const word = message('word');

  /** Two talkers that speak every 1000 ns over a lookahead of 10 ns, ticking to themselves every 7 ns; each may promise what it knows. */
  function talkers(promising: boolean, broken = false) {
    const ids: (() => number)[] = [];
    const talker = actorKind({
      name: 'talker',
      messages: { tick, word },
      sendsTo: ['default'],
      state: (index: number) => ({ index, heard: 0, nextNs: 1000 }),
      start(state, context) {
        promise(state, context);
        context.send(context.self, tick, 7);
      },
      on: {
        tick(state, _message, context) {
          if (context.now + 10 >= state.nextNs) {
            context.send((ids[1 - state.index] as () => number)() as typeof context.self, word, 10);
            state.nextNs += 1000;
            promise(state, context);
          }
          if (broken && context.now > 500) context.send((ids[1 - state.index] as () => number)() as typeof context.self, word, 10);
          if (context.now < 20_000) context.send(context.self, tick, 7);
        },
        word(state) {
          state.heard++;
        },
      },
    });
    function promise(state: { index: number; nextNs: number }, context: Context): void {
      if (promising) context.promiseSilence((ids[1 - state.index] as () => number)() as typeof context.self, state.nextNs);
    }
    return defineProgram(undefined, 'talkers', (world) => {
      for (const index of [0, 1]) {
        const reference = world.actor(`talker${index}`, talker, index);
        ids[index] = () => reference.id;
      }
      world.lookahead('default', 'default', 10);
    });
  }

  it('change no result and need far fewer rounds', async () => {
    const fingerprint = await oneFingerprint(talkers(true), undefined, { matrix: 'memory' });
    expect(fingerprint).toBe(await oneFingerprint(talkers(false), undefined, { matrix: 'memory' }));
    const roundsOf = (promising: boolean): number => {
      const simulation = new Simulation(modelOf(talkers(promising), undefined), { shards: 2 });
      simulation.runUntil();
      expect(simulation.fingerprint).toBe(fingerprint);
      return simulation.rounds;
    };
    // 20,000 ns in windows of about 10 to 20 ns without promises, of about 1000 ns with them.
    expect(roundsOf(false)).toBeGreaterThan(20_000 / 20 - 50);
    expect(roundsOf(true)).toBeLessThan(4 * 21);
  });

  it.each([1, 2])('are errors when broken, on %i shards', (shards) => {
    const simulation = new Simulation(modelOf(talkers(true, true), undefined), { shards });
    expect(() => simulation.runUntil()).toThrow(
      /'talker0' sends 'word' to 'talker1' for 514 ns, but promised cell 'talker1' silence until 1000 ns/,
    );
  });

  it.each([1, 2, 3])('are not needed towards a class that a kind does not list, so it must not send there: %i shards', (shards) => {
    // Before it was refused, 'late' heard 'word' at 110 ns behind its tick at 1000 ns: its window was as long as the promise to its shard.
    const stray = actorKind({
      name: 'stray',
      messages: { tick, word },
      sendsTo: ['promised'],
      state: (to: { early: ActorReference; late: ActorReference }) => ({ early: to.early.id, late: to.late.id }),
      start(state, context) {
        context.promiseSilence(state.early as typeof context.self, 1_000_000);
        context.timer(tick, 100);
      },
      on: { tick: (state, _message, context) => context.send(state.late as typeof context.self, word, 10), word: () => undefined },
    });
    const listener = actorKind({
      name: 'listener',
      messages: { tick, word },
      state: () => ({}),
      start: (_state, context) => void context.timer(tick, 1000),
      on: { tick: () => undefined, word: () => undefined },
    });
    const program = defineProgram(undefined, 'stray', (world) => {
      const early = world.actor('early', listener, undefined, { class: 'promised' });
      const late = world.actor('late', listener, undefined, { class: 'other' });
      world.actor('stray', stray, { early, late }, { class: 'stray' });
      for (const to of ['promised', 'other']) {
        world.lookahead('stray', to, 10);
        world.lookahead(to, 'stray', 10);
      }
    });
    expect(() => new Simulation(modelOf(program, undefined), { shards }).runUntil()).toThrow(
      /'stray' sends 'word' to 'late' in a cell of class 'other', but kind 'stray' declares that it sends to \[promised\]: add 'other' to its sendsTo/,
    );
  });

  it('are kept by a checkpoint', () => {
    const model = modelOf(talkers(true, true), undefined);
    const simulation = new Simulation(model, { shards: 2 });
    simulation.runUntil(400);
    const restored = new Simulation(model, { from: simulation.checkpoint() });
    expect(() => restored.runUntil()).toThrow(/promised cell 'talker1' silence until 1000 ns/);
  });
});

describe('random streams', () => {
  it('are bit-equal to alea, also when drawn from in turn, saved and restored', () => {
    const names = ['1/gpu0/arrivals', '1/gpu0/service', '', 'κ', '42/pod3/rack1/node2/gpu5/draws'];
    const streams = new RandomStreams(names.length, (stream) => names[stream] as string);
    const oracles = names.map((name) => seedrandom.alea(name));
    for (let draw = 0; draw < 3000; draw++) for (const [stream, oracle] of oracles.entries()) expect(streams.draw(stream)).toBe(oracle());
    const saved = new Float64Array(8);
    streams.save(4, saved, 4);
    const restored = new RandomStreams(names.length, () => 'unused');
    restored.restore(2, saved, 4);
    for (let draw = 0; draw < 100; draw++) expect(restored.draw(2)).toBe((oracles[4] as () => number)());
  });

  it('are named seed/actor/stream in a run', () => {
    const tick = message('tick');
    const drawing = actorKind({
      name: 'drawing',
      messages: { tick },
      streams: ['first', 'second'],
      state: () => ({ drawn: [] as number[] }),
      start(state, context) {
        for (const stream of ['second', 'first', 'second'] as const) state.drawn.push(context.random(stream));
      },
      on: { tick() {} },
    });
    const program = defineProgram(undefined, 'drawing', (world) => {
      for (const name of ['b', 'a']) world.cell(name).actor('x', drawing, undefined);
    });
    const simulation = new Simulation(modelOf(program, undefined), { seed: 's' });
    simulation.runUntil();
    for (const name of ['a/x', 'b/x']) {
      const [first, second] = [seedrandom.alea(`s/${name}/first`), seedrandom.alea(`s/${name}/second`)];
      expect((simulation.stateOf(name) as { drawn: number[] }).drawn).toEqual([second(), first(), second()]);
    }
  });
});
