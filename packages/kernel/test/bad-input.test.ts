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
  type RunOptions,
  Simulation,
  startRun,
  type World,
} from '@braess/kernel';
import { faultProgram } from '@braess/kernel/testing';
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
        if (state.name === 'left/a' && value === 0) return act(context as unknown as Context, (ids.get(to) as () => number)() as ActorId) as undefined;
        if (value > 0) context.send((ids.get('left/a') as () => number)() as ActorId<'go'>, go, 0, value);
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
    ['an unknown message', (context, other) => context.send(other, note, 10, 1), 'right', 'unknown-message', /no actor of this program handles message 'note'/],
    ['an undeclared lookahead', send(1000), 'far', 'lookahead', /from 'left\/a' \(cell 'left'\) to 'far' \(cell 'far'\): no lookahead is declared from class 'near' to class 'far'/],
    ['a delay under the lookahead', send(9), 'right', 'lookahead', /from 'left\/a' \(cell 'left'\) to 'right' \(cell 'right'\) has a delay of 9 ns, under the declared lookahead of 10 ns/],
    ['a fractional promise', (context, other) => context.promiseSilence(other, 0.5), 'right', 'bad-time', /promiseSilence until 0.5: it must be a whole number/],
    ['a broken promise', (context, other) => { context.promiseSilence(other, 100); context.send(other, go, 94, 1); }, 'right', 'promise-broken', /for 99 ns, but promised cell 'right' silence until 100 ns/],
    ['an undeclared random stream', (context) => context.random('dice' as never), 'right', 'bad-value', /kind 'acting' declares no random stream 'dice'/],
    ['a timer in the past', (context) => context.timer(go, -5, 1), 'right', 'bad-time', /delay -5: it must not be negative/],
  ])(
    'refuses %s with actor, message, time and seed, on one shard and on two',
    (_what, act, to, code, text) => {
      for (const shards of [1, 2]) {
        const error = errorOfAct(act, to, { shards });
        expect(error.code).toBe(code);
        expect(error.message).toMatch(text);
        expect(error.site).toMatchObject({ actor: 'left/a', message: 'go', timeNs: 5, seed: 'bad' });
      }
    },
  );

  it('allows the last representable time, and the least delay', () => {
    const simulation = new Simulation(modelOf(acting((context) => context.send(context.self, go, maximumTimeNs - 5, -1)), undefined));
    simulation.runUntil();
    expect(simulation.eventCount).toBe(1 + 2);
    expect(() => new Simulation(modelOf(acting(send(10)), undefined)).runUntil(15)).not.toThrow();
  });

  it.each<[string, Act, KernelErrorCode, RegExp]>([
    ['a field that is no number', (context, other) => context.send(other, go, 10, 'x' as never), 'bad-value', /field 'value' is x; fields are numbers/],
    ['a missing body', (context, other) => context.send(other, parcel as never, 10), 'bad-value', /is declared with a body; use sendBody/],
    ['a body too many', (context, other) => context.sendBody(other, go as never, 10, 1 as never, 1), 'bad-value', /is declared without a body; use send/],
    ['a body that is not plain', (context, other) => context.sendBody(other, parcel, 10, { f: () => 1 }), 'bad-value', /the body of message 'parcel'\.f holds a function/],
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

describe('bad models', () => {
  const kind = actorKind({ name: 'kind', messages: { go }, state: () => ({}), on: { go() {} } });
  const other = actorKind({ name: 'kind', messages: { go }, state: () => ({}), on: { go() {} } });
  const otherGo = message('go', ['value']);
  const third = actorKind({ name: 'third', messages: { go: otherGo }, state: () => ({}), on: { go() {} } });

  it.each<[string, (world: World) => void, RegExp]>([
    ['no actor', () => undefined, /program 'bad' declares no actor/],
    ['cells without actors only', (world) => void world.cell('c'), /declares no actor/],
    ['two actors of a name', (world) => [1, 2].forEach(() => world.actor('a', kind, undefined)), /'a' is declared twice/],
    ['two actors of a name in a cell', (world) => { const cell = world.cell('c'); for (const _ of [1, 2]) cell.actor('a', kind, undefined); }, /actor 'c\/a' is declared twice/],
    ['two cells of a name', (world) => [1, 2].forEach(() => world.cell('c')), /cell 'c' is declared twice/],
    ['a cell without a name', (world) => void world.cell(''), /a cell needs a name/],
    ['a negative weight', (world) => void world.cell('c', { weight: -1 }), /cell 'c' has weight -1/],
    ['a NaN weight', (world) => void world.cell('c', { weight: Number.NaN }), /cell 'c' has weight NaN/],
    ['a lookahead of 0', (world) => world.lookahead('x', 'y', 0), /lookahead from class 'x' to class 'y' is 0 ns; between cells at least 1 ns/],
    ['a fractional lookahead', (world) => world.lookahead('x', 'y', 1.5), /is 1.5; it must be a whole number/],
    ['a link from nowhere', (world) => { world.actor('a', kind, undefined); world.link('a', 'nowhere', 5); }, /link from 'a' to 'nowhere': no cell with actors is named 'nowhere'/],
    ['a link of 0', (world) => world.link('a', 'b', 0), /link from cell 'a' to cell 'b' is 0 ns/],
    ['two kinds of a name', (world) => { world.actor('a', kind, undefined); world.actor('b', other, undefined); }, /two actor kinds are named 'kind'/],
    ['two messages of a name', (world) => { world.actor('a', kind, undefined); world.actor('b', third, undefined); }, /two messages are named 'go'/],
    ['an id read too early', (world) => void world.actor('a', kind, undefined).id, /the id of 'a' is not known while the program is being built/],
  ])('refuses %s', (_what, build, text) => {
    const error = errorOf(() => modelOf(defineProgram(undefined, 'bad', build), undefined));
    expect(error.code).toBe('bad-model');
    expect(error.message).toMatch(text);
  });

  it.each<[string, () => unknown, RegExp]>([
    ['seven fields', () => message('m', ['a', 'b', 'c', 'd', 'e', 'f', 'g']), /has 7 fields; at most 6/],
    ['a field twice', () => message('m', ['a', 'a']), /field 'a' twice/],
    ['a reserved field', () => message('m', ['sender']), /'sender' is reserved/],
    ['no name', () => message(''), /needs a name/],
    ['a key that is not the name', () => actorKind({ name: 'k', messages: { went: go }, state: () => ({}), on: { went() {} } }), /key 'went' holds message 'go'/],
    ['a handler too few', () => actorKind({ name: 'k', messages: { go }, state: () => ({}), on: {} as never }), /has no handler for 'go'/],
    ['a handler too many', () => actorKind({ name: 'k', messages: { go }, state: () => ({}), on: { go() {}, came() {} } as never }), /handles 'came'/],
  ])('refuses a declaration with %s', (_what, declare, text) => {
    expect(errorOf(declare).message).toMatch(text);
  });

  it('refuses a state that is not plain data in strict mode, and in a checkpoint', () => {
    const closed = actorKind({ name: 'closed', messages: { go }, state: () => ({ f: () => 1 }), on: { go() {} } });
    const program = defineProgram(undefined, 'closed', (world) => void world.actor('a', closed, undefined));
    expect(() => new Simulation(modelOf(program, undefined), { strict: true })).toThrow(/'?a'?\.f holds a function/);
    expect(() => new Simulation(modelOf(program, undefined)).checkpoint()).toThrow(/a'?\.f holds a function/);
  });

  it('names the actor whose state function throws', () => {
    const failing = actorKind({ name: 'failing', messages: { go }, state: () => { throw new Error('no state'); }, on: { go() {} } });
    const program = defineProgram(undefined, 'failing', (world) => void world.actor('a', failing, undefined));
    const error = errorOf(() => new Simulation(modelOf(program, undefined), { seed: '9' }));
    expect(error.site).toMatchObject({ actor: 'a', message: 'state', seed: '9' });
  });
});

describe('bad options', () => {
  const parameters = { actors: 2, fault: 'none', failing: 0, atCount: 0, hops: 2, delayNs: 10 } as const;
  it.each<[string, RunOptions, RegExp]>([
    ['0 shards', { shards: 0 }, /shards is 0; it must be a whole number from 1 to 64/],
    ['1.5 shards', { shards: 1.5 }, /shards is 1.5/],
    ['65 shards', { shards: 65 }, /shards is 65/],
    ['an unknown transport', { transport: 'pigeon' as never }, /transport is 'pigeon'; it must be 'memory', 'threads' or 'bridged'/],
    ['pace 0', { pace: 0 }, /pace is 0/],
    ['pace NaN', { pace: Number.NaN }, /pace is NaN/],
    ['a fractional end', { untilNs: 0.5 }, /untilNs is 0.5/],
    ['a paced memory run', { transport: 'memory', pace: 1 }, /use transport 'threads' for pace/],
    ['a live memory run', { transport: 'memory', live: true }, /use transport 'threads'/],
    ['restarts without checkpoints', { restarts: 1 }, /restarts is 1, but there are no checkpoints to start from; set checkpointEveryNs/],
    ['checkpoints every 0 ns', { checkpointEveryNs: 0 }, /checkpointEveryNs is 0/],
    ['a limit of 0', { limits: { pendingBytes: 0 } }, /limits.pendingBytes is 0/],
    ['a NaN limit', { limits: { handlerLimitMs: Number.NaN } }, /limits.handlerLimitMs is NaN/],
    ['a tiny ring', { limits: { ringBytes: 100 } }, /limits.ringBytes is 100; at least 4096/],
  ])('refuses %s at once', (_what, options, text) => {
    expect(() => startRun(faultProgram, parameters, options)).toThrow(text);
  });

  it('refuses threads for a program without a module, and inject in a run that is not live', async () => {
    expect(() => startRun(acting(() => undefined), undefined)).toThrow(/has no module URL, so worker threads cannot load it/);
    const going = startRun(faultProgram, parameters, { transport: 'memory' });
    expect(() => going.inject({ actor: 'ring000000', message: 'token', fields: [1], body: null })).toThrow(/inject needs a live run/);
    await going.result;
  });

  it('names a module that cannot be loaded, or has no program', async () => {
    const missing = { ...faultProgram, module: 'file:///nowhere/program.js' };
    await expect(startRun(missing, parameters).result).rejects.toThrow(/nowhere\/program.js cannot be loaded/);
    const empty = { ...faultProgram, module: 'node:path' };
    await expect(startRun(empty, parameters).result).rejects.toThrow(/no program as its default export/);
  });
});
