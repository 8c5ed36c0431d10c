import {
  type ActorId,
  actorKind,
  body,
  type Context,
  defineProgram,
  KernelError,
  type KernelErrorCode,
  maximumTimeNs,
  message,
  modelOf,
  Simulation,
} from '@braess/kernel';
import { describe, expect, it } from 'vitest';

const go = message('go', ['value']);
const note = message('note', ['value']);
const parcel = message('parcel', [], body<unknown>());

type Act = (context: Context, other: ActorId) => unknown;

/** Actor 'left/a' does `act` at 5 ns; 'left/b' shares its cell, 'right' has a lookahead of 10 ns from it, 'far' none. */
function acting(act: Act, to = 'right') {
  const ids = new Map<string, () => number>();
  const kind = actorKind({
    name: 'acting',
    messages: { go, parcel },
    state: (name: string) => ({ name }),
    start(state, context) {
      if (state.name === 'left/a') context.send(context.self, go, 5, 0);
    },
    on: {
      go(state, { value }, context): void {
        if (state.name === 'left/a' && value === 0) act(context as unknown as Context, (ids.get(to) as () => number)() as ActorId);
        else if (value > 0) context.send((ids.get('left/a') as () => number)() as ActorId<'go'>, go, 0, value);
      },
      parcel() {},
    },
  });
  return defineProgram(undefined, 'acting', (world) => {
    const left = world.cell('left', { class: 'near' });
    for (const name of ['a', 'b']) note1(left.actor(name, kind, `left/${name}`));
    note1(world.actor('right', kind, 'right', { class: 'near' }));
    note1(world.actor('far', kind, 'far', { class: 'far' }));
    world.lookahead('near', 'near', 10);
    function note1(reference: { readonly name: string; readonly id: number }): void {
      ids.set(reference.name, () => reference.id);
    }
  });
}

function errorOf(work: () => unknown): KernelError {
  try {
    work();
  } catch (error) {
    if (error instanceof KernelError) return error;
    throw error;
  }
  throw new Error('nothing was refused');
}

function errorOfAct(act: Act, to?: string, options: { shards?: number; strict?: boolean } = {}): KernelError {
  return errorOf(() => new Simulation(modelOf(acting(act, to), undefined), { seed: 'bad', ...options }).runUntil());
}

describe('bad sends', () => {
  const send =
    (delayNs: number, to?: ActorId): Act =>
    (context, other) =>
      context.send(to ?? other, go, delayNs, 1);

  it.each<[string, Act, string, KernelErrorCode, RegExp]>([
    ['a NaN delay', send(Number.NaN), 'left/b', 'bad-time', /'left\/a' sends 'go' with delay NaN: it must be a number/],
    ['a negative delay', send(-1), 'left/b', 'bad-time', /delay -1: it must not be negative/],
    ['a fractional delay', send(10.5), 'left/b', 'bad-time', /delay 10.5: it must be a whole number of nanoseconds: round it/],
    ['an infinite delay', send(Number.POSITIVE_INFINITY), 'left/b', 'bad-time', /past 2\^53 - 1 ns/],
    ['a time beyond 2^53 ns', send(maximumTimeNs - 4), 'left/b', 'bad-time', /past 2\^53 - 1 ns/],
    ['a delay that is no number', send('7' as never), 'left/b', 'bad-time', /it must be a number|whole number/],
    ['an unknown recipient', send(10, 99 as ActorId), 'right', 'unknown-actor', /'left\/a' addressed actor 99; ids run from 0 to 3/],
    ['a negative recipient', send(10, -1 as ActorId), 'right', 'unknown-actor', /addressed actor -1/],
    ['a recipient that is no number', send(10, Number.NaN as ActorId), 'right', 'unknown-actor', /addressed actor NaN/],
    [
      'an unknown message',
      (context, other) => context.send(other, note, 10, 1),
      'right',
      'unknown-message',
      /no actor of this program handles message 'note'/,
    ],
    [
      'an undeclared lookahead',
      send(1000),
      'far',
      'lookahead',
      /from 'left\/a' \(cell 'left'\) to 'far' \(cell 'far'\): no lookahead is declared from class 'near' to class 'far'/,
    ],
    [
      'a delay under the lookahead',
      send(9),
      'right',
      'lookahead',
      /from 'left\/a' \(cell 'left'\) to 'right' \(cell 'right'\) has a delay of 9 ns, under the declared lookahead of 10 ns/,
    ],
    [
      'a fractional promise',
      (context, other) => context.promiseSilence(other, 0.5),
      'right',
      'bad-time',
      /promiseSilence until 0.5: it must be a whole number/,
    ],
    [
      'a broken promise',
      (context, other) => {
        context.promiseSilence(other, 100);
        context.send(other, go, 94, 1);
      },
      'right',
      'promise-broken',
      /for 99 ns, but promised cell 'right' silence until 100 ns/,
    ],
    [
      'an undeclared random stream',
      (context) => context.random('dice' as never),
      'right',
      'bad-value',
      /kind 'acting' declares no random stream 'dice'/,
    ],
    ['a timer in the past', (context) => context.timer(go, -5, 1), 'right', 'bad-time', /delay -5: it must not be negative/],
  ])('refuses %s with actor, message, time and seed, on one shard and on two', (_what, act, to, code, text) => {
    for (const shards of [1, 2]) {
      const error = errorOfAct(act, to, { shards });
      expect(error.code).toBe(code);
      expect(error.message).toMatch(text);
      expect(error.site).toMatchObject({ actor: 'left/a', message: 'go', timeNs: 5, seed: 'bad' });
    }
  });

  it('allows the last representable time, and the least delay', () => {
    const simulation = new Simulation(
      modelOf(
        acting((context) => context.send(context.self, go, maximumTimeNs - 5, -1)),
        undefined,
      ),
    );
    simulation.runUntil();
    expect(simulation.eventCount).toBe(4 + 2); // Four starts, the go at 5 ns, and the last.
    expect(() => new Simulation(modelOf(acting(send(10)), undefined)).runUntil(15)).not.toThrow();
  });

  it.each<[string, Act, KernelErrorCode, RegExp]>([
    [
      'a field that is no number',
      (context, other) => context.send(other, go, 10, 'x' as never),
      'bad-value',
      /field 'value' is x; fields are numbers/,
    ],
    [
      'a missing body',
      (context, other) => (context.send as (...given: unknown[]) => void)(other, parcel, 10),
      'bad-value',
      /is declared with a body; use sendBody/,
    ],
    [
      'a body too many',
      (context, other) => (context.sendBody as (...given: unknown[]) => void)(other, go, 10, 1, 1),
      'bad-value',
      /is declared without a body; use send/,
    ],
    [
      'a body that is not plain',
      (context, other) => context.sendBody(other, parcel, 10, { f: () => 1 }),
      'bad-value',
      /the body of message 'parcel'\.f holds a function/,
    ],
  ])('refuses %s in strict mode', (_what, act, code, text) => {
    const error = errorOfAct(act, 'right', { strict: true });
    expect(error.code).toBe(code);
    expect(error.message).toMatch(text);
  });

  it('refuses a message the receiving kind does not handle, naming both', () => {
    const mute = actorKind({ name: 'mute', messages: { note }, state: () => ({}), on: { note() {} } });
    const talker = actorKind({
      name: 'talker',
      messages: { go },
      state: () => ({}),
      start: (_state, context) => context.send(0 as ActorId, go, 1, 1),
      on: { go() {} },
    });
    const program = defineProgram(undefined, 'deaf', (world) => {
      const cell = world.cell('c');
      cell.actor('a', mute, undefined);
      cell.actor('b', talker, undefined);
    });
    const error = errorOf(() => new Simulation(modelOf(program, undefined)).runUntil());
    expect(error.message).toContain("kind 'mute' handles no message 'go' (sent by 'c/b'); it handles [note]");
  });

  it('takes what a handler returns for nothing, unless it is a promise', () => {
    const returning = actorKind({
      name: 'returning',
      messages: { go },
      state: () => ({}),
      start: (_state, context) => context.send(context.self, go, 1, 1),
      on: { go: () => null as never },
    });
    const program = defineProgram(undefined, 'returning', (world) => void world.actor('a', returning, undefined));
    expect(() => new Simulation(modelOf(program, undefined)).runUntil()).not.toThrow();
  });

  it('names the loop of a zero-delay recursion over two actors', () => {
    const kindOf = new Map<string, () => number>();
    const bouncing = actorKind({
      name: 'bouncing',
      messages: { go },
      state: (other: string) => ({ other }),
      start: (state, context) => {
        if (state.other === 'c/b') context.send(context.self, go, 3, 0);
      },
      on: { go: (state, _message, context) => context.send((kindOf.get(state.other) as () => number)() as ActorId, go, 0, 0) },
    });
    const program = defineProgram(undefined, 'bouncing', (world) => {
      const cell = world.cell('c');
      const a = cell.actor('a', bouncing, 'c/b');
      const b = cell.actor('b', bouncing, 'c/a');
      kindOf.set('c/a', () => a.id).set('c/b', () => b.id);
    });
    const error = errorOf(() => new Simulation(modelOf(program, undefined), { limits: { zeroDelaySteps: 200 } }).runUntil());
    expect(error.code).toBe('zero-delay-loop');
    expect(error.message).toMatch(/passed 200 steps.*c\/a -go-> c\/b.*raise limits.zeroDelaySteps/);
    expect(error.message).toContain('c/b -go-> c/a');
    expect(error.site).toMatchObject({ timeNs: 3 });
  });

  it('refuses a message view that is read after its handler, in strict mode', () => {
    let kept: { readonly value: number } | undefined;
    const keeping = actorKind({
      name: 'keeping',
      messages: { go },
      state: () => ({}),
      start: (_state, context) => {
        for (const delayNs of [1, 2]) context.send(context.self, go, delayNs, 1);
      },
      on: {
        go(_state, view) {
          kept ??= view;
        },
      },
    });
    const program = defineProgram(undefined, 'keeping', (world) => void world.actor('a', keeping, undefined));
    new Simulation(modelOf(program, undefined), { strict: true }).runUntil();
    expect(() => kept?.value).toThrow(/message 'go' was read after its handler returned; copy 'value' inside the handler/);
  });
});
