import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type ActorId,
  actorKind,
  body,
  type Context,
  defineProgram,
  KernelError,
  message,
  modelOf,
  record,
  run,
  Simulation,
} from '@braess/kernel';
import { describe, expect, it } from 'vitest';
import { EventRecorder } from '../src/event-recorder.js';
import { installGuards } from '../src/guards.js';
import * as source from '../src/index.js';
import { ringBytesFor } from '../src/limits.js';

const go = message('go', ['a', 'b']);
const parcel = message('parcel', [], body<unknown>());

interface Deeds {
  readonly act: (context: Context, state: Record<string, unknown>) => void;
  readonly take?: (received: unknown, state: Record<string, unknown>) => void;
  readonly state?: () => Record<string, unknown>;
}

/** Actor 'sender' does `act` at 5 ns; 'taker' (id 1), 10 ns away, takes a parcel. */
function two({ act, take, state }: Deeds) {
  const kind = actorKind({
    name: 'kind',
    messages: { go, parcel },
    state: () => state?.() ?? {},
    start: (_state, context) => {
      if (context.self === 0) context.send(context.self, go, 5, 1, 2);
    },
    on: {
      go: (own, _message, context) => act(context as unknown as Context, own),
      parcel: (own, message) => take?.(message.body, own),
    },
  });
  return defineProgram(undefined, 'two', (world) => {
    for (const name of ['sender', 'taker']) world.actor(name, kind, undefined);
    world.lookahead('default', 'default', 10);
  });
}

const post = (value: unknown): Deeds => ({ act: (context) => context.sendBody(1 as never, parcel, 10, value as never) });

function simulate(deeds: Deeds, options: object = {}): Simulation {
  const simulation = new Simulation(modelOf(two(deeds), undefined), { seed: 'strict', ...options });
  simulation.runUntil();
  return simulation;
}

function refusal(deeds: Deeds, options: object = {}): KernelError {
  try {
    simulate(deeds, options);
  } catch (error) {
    if (error instanceof KernelError) return error;
    throw error;
  }
  throw new Error('nothing was refused');
}

class Point {
  x = 1;
}
const cycle: { self?: unknown } = {};
cycle.self = cycle;

describe('a body that is not plain data', () => {
  it.each<[string, unknown, RegExp]>([
    ['a function', { f: () => 1 }, /\.f holds a function/],
    ['a symbol', { s: Symbol('s') }, /\.s holds a symbol/],
    ['a Date', { d: new Date(0) }, /\.d holds an instance of Date/],
    ['an instance', { list: [0, new Point()] }, /\.list\[1\] holds an instance of Point/],
    // biome-ignore lint/suspicious/noSparseArray: the hole is what is refused.
    ['a hole', { h: [1, , 3] }, /\.h\[1\] holds a hole/],
    ['a lone surrogate', { t: 'a\ud800' }, /\.t holds a string with a lone surrogate/],
    ['a large bigint', { b: 2n ** 70n }, /\.b holds a bigint beyond 64 bits/],
    ['a Buffer', { b: Buffer.from('x') }, /\.b holds a Buffer/],
    ['the key __proto__', { o: JSON.parse('{"__proto__": 1}') }, /\.o holds an object with the key '__proto__'/],
    ['shared memory', { s: new Uint8Array(new SharedArrayBuffer(4)) }, /\.s holds shared memory/],
    ['inside a Map', new Map([['k', () => 1]]), /\.value0 holds a function/],
    ['inside a Set', new Set([() => 1]), /\.item0 holds a function/],
    ['a cycle', cycle, /nested deeper than 200/],
  ])('(%s) is refused where it is sent, with message, actor and time, on one shard as on two', (_what, value, text) => {
    for (const shards of [1, 2]) {
      const error = refusal(post(value), { shards });
      expect(error.code).toBe('bad-value');
      expect(error.message).toMatch(text);
      expect(error.message).toContain("the body of message 'parcel'");
      expect(error.site).toMatchObject({ actor: 'sender', message: 'go', timeNs: 5, seed: 'strict' });
    }
  });
});

describe('a body where none is declared, and none where one is', () => {
  const bare = message('bare');
  const full = message('full', [], body<{ v: number }>());
  const seen: unknown[] = [];
  const kind = actorKind({
    name: 'kind',
    messages: { bare, full },
    state: (act: ((context: Context) => void) | undefined) => ({ act: act === undefined ? 0 : 1 }),
    on: { bare: (_state, view) => void seen.push((view as { body?: unknown }).body), full: (_state, view) => void seen.push(view.body) },
  });
  const deliver = (act: (context: Context) => void): unknown[] => {
    const sender = actorKind({ name: 'sender', messages: {}, state: () => ({}), start: (_state, context) => act(context), on: {} });
    const program = defineProgram(undefined, 'bodies', (world) => {
      world.actor('a', sender, undefined);
      world.actor('b', kind, undefined);
      world.lookahead('default', 'default', 1);
    });
    seen.length = 0;
    new Simulation(modelOf(program, undefined)).runUntil();
    return [...seen];
  };
  type Loose = { send(...given: unknown[]): void; sendBody(...given: unknown[]): void };

  it('is refused, and reads as undefined, whatever came before', () => {
    const given = deliver((context) => {
      const loose = context as unknown as Loose;
      loose.sendBody(1, full, 5, { v: 1 });
      loose.send(1, full, 6);
      loose.send(1, bare, 7);
    });
    expect(given).toEqual([{ v: 1 }, undefined, undefined]);
    const surplus = () => deliver((context) => (context as unknown as Loose).sendBody(1, bare, 5, { v: 1 }));
    expect(surplus).toThrow(/message 'bare' is declared without a body/);
  });
});

describe('strict mode', () => {
  const shared = { v: 1 };
  const buffer = new ArrayBuffer(16);
  it.each<[string, unknown, RegExp]>([
    ['an object twice', { a: shared, b: [shared] }, /\.b\[0\] holds an object that it also holds elsewhere/],
    ['memory twice', [new Uint8Array(buffer, 0, 9), new Uint8Array(buffer, 8)], /\[1\] holds a typed array whose memory it also holds/],
    [
      'an accessor',
      {
        get x() {
          return 1;
        },
      },
      /holds an object with the accessor 'x'/,
    ],
    ['a hidden property', Object.defineProperty({}, 'x', { value: 1 }), /holds an object with properties that a copy would lose/],
    ['a property beside items', Object.assign([1], { x: 1 }), /holds an instance of Array with properties that a copy would lose/],
    ['a symbol beside items', Object.assign([1], { [Symbol('k')]: 1 }), /an instance of Array with properties/],
    ['a property on a Map', Object.assign(new Map(), { x: 1 }), /an instance of Map with properties/],
    ['a property on a Set', Object.assign(new Set(), { x: 1 }), /an instance of Set with properties/],
    ['a property on a typed array', Object.assign(new Uint8Array(2), { x: 1 }), /an instance of Uint8Array with properties/],
    ['a setter', Object.defineProperty({}, 'x', { set() {}, enumerable: true }), /holds an object with the accessor 'x'/],
    ['a Proxy', { p: new Proxy({ x: 1 }, {}) }, /\.p holds a Proxy/],
    ['a symbol key', { [Symbol('k')]: 1 }, /symbol keys/],
  ])('refuses a body with %s', (_what, value, text) => {
    expect(refusal(post(value), { strict: true }).message).toMatch(text);
  });

  it.each<[string, () => object, (part: never) => void]>([
    ['a list', () => [1, 2], (part: number[]) => part.push(3)],
    ['a Map', () => new Map([[1, 2]]), (part: Map<number, number>) => part.set(1, 3)],
    ['a typed array', () => new Uint8Array(4), (part: Uint8Array) => part.fill(1)],
    ['a part of a table', () => new Map([['k', { rows: [1] }]]), (part: Map<string, { rows: number[] }>) => part.get('k')?.rows.push(2)],
  ])('refuses to change what states share from the start, and lets them read it: %s', (_what, make, change) => {
    const part = make();
    const changeIt = change as (given: unknown) => void;
    for (const [mode, text] of [
      ['read', undefined],
      ['replace', undefined],
      ['change first', /the state of 'a' has changed an object that it shares with the state of 'b'/],
      ['change second', /the state of 'b' has changed an object that it shares with the state of 'a'/],
    ] as const) {
      const kind = actorKind({
        name: 'kind',
        messages: {},
        state: (name: string) => ({ name, part: { inner: [part] } }),
        start(state) {
          if (mode === 'replace') state.part = { inner: [make()] };
          if (mode === (state.name === 'a' ? 'change first' : 'change second')) changeIt(state.part.inner[0]);
        },
        on: {},
      });
      const program = defineProgram(undefined, 'sharing', (world) => {
        for (const name of ['a', 'b']) world.actor(name, kind, name);
      });
      const runIt = () => new Simulation(modelOf(program, undefined), { strict: true }).runUntil();
      if (text === undefined) expect(runIt).not.toThrow();
      else expect(runIt).toThrow(text);
    }
  });

  it('takes a body whose typed arrays lie side by side in one buffer', () => {
    const taken: unknown[] = [];
    const halves = [new Uint8Array(buffer, 0, 8), new Uint8Array(buffer, 8)];
    simulate({ ...post(halves), take: (received) => taken.push(received) }, { strict: true });
    expect(taken).toEqual([halves]);
  });

  it.each<[string, number[], RegExp]>([
    ['missing', [1], /message 'go' was given 1 fields; it needs 2 \[a, b\]/],
    ['too many', [1, 2, 3], /message 'go' was given 3 fields; it needs 2/],
  ])('refuses fields that are %s', (_what, fields, text) => {
    const send = (context: Context) => (context.send as (...given: unknown[]) => void)(1, go, 10, ...fields);
    expect(refusal({ act: send }, { strict: true }).message).toMatch(text);
    const timer = (context: Context) => (context.timer as (...given: unknown[]) => void)(go, 10, ...fields);
    expect(refusal({ act: timer }, { strict: true }).message).toMatch(text);
  });

  it('finds what a handler puts into a state, after that handler', () => {
    const act: Deeds['act'] = (_context, state) => {
      state.later = () => 1;
    };
    const error = refusal({ act }, { strict: true });
    expect(error.message).toContain("the state of 'sender'.later holds a function");
    expect(error.site).toMatchObject({ actor: 'sender', message: 'go', timeNs: 5 });
  });

  it('finds a part that a handler puts into a state twice', () => {
    const act: Deeds['act'] = (_context, state) => {
      state.list = [shared];
      state.last = shared;
    };
    expect(refusal({ act }, { strict: true }).message).toContain("the state of 'sender'.last holds an object that it also holds elsewhere");
  });

  it('gives every actor a state of its own, as threads do', () => {
    const common = { count: 0 };
    const deeds: Deeds = {
      state: () => common,
      act: (context, state) => {
        state.count = 7;
        context.sendBody(1 as never, parcel, 10, null as never);
      },
    };
    const simulation = simulate(deeds, { strict: true, shards: 2 });
    expect([simulation.stateOf('sender'), simulation.stateOf('taker')]).toEqual([{ count: 7 }, { count: 0 }]);
    // On one shard both are in sight, and the change is refused.
    expect(() => simulate(deeds, { strict: true })).toThrow(/'sender' has changed an object that it shares with the state of 'taker'/);
    expect(common).toEqual({ count: 0 });
  });
});

describe('values nested 200 deep', () => {
  const parcel = message('parcel', [], body<unknown>());
  const kept = record('kept', [], body<unknown>());
  const nested = (levels: number): unknown => Array.from({ length: levels }).reduce<unknown>((inner) => [inner], 1);
  const nesting = (levels: number) => {
    const kind = actorKind({
      name: 'nesting',
      messages: { parcel },
      state: (): { content: unknown } => ({ content: nested(levels - 1) }),
      start(_state, context) {
        if (context.self === 0) context.sendBody(1 as ActorId<'parcel'>, parcel, 10, nested(levels));
      },
      on: { parcel: (_state, view, context) => context.emitBody(kept, view.body) },
    });
    return modelOf(
      defineProgram(undefined, 'nesting', (world) => {
        for (const name of ['a', 'b']) world.actor(name, kind, undefined);
        world.lookahead('default', 'default', 10);
      }),
      undefined,
    );
  };

  it.each([1, 2])('pass everywhere, on %i shards, and 201 nowhere', (shards) => {
    const simulation = new Simulation(nesting(200), { shards, keepRecords: true });
    simulation.runUntil(5); // The body is under way.
    const restored = new Simulation(nesting(200), { shards: 3 - shards, keepRecords: true, from: simulation.checkpoint() });
    for (const each of [simulation.fork(), restored]) {
      each.runUntil();
      expect(each.takeRecords().map((entry) => entry.body)).toEqual([nested(200)]);
      expect(each.stateOf('a')).toEqual({ content: nested(199) });
    }
    expect(() => new Simulation(nesting(201), { shards }).runUntil()).toThrow(/nested deeper than 200/);
    const state = new Simulation(nesting(1), { shards });
    (state.stateOf('a') as { content: unknown }).content = nested(200);
    expect(() => state.checkpoint()).toThrow(/the state of 'a'.content.* holds nested deeper than 200/);
  });
});

describe('limits count bodies', () => {
  const bulk = new Uint8Array(3_000_000);

  it('of a batch, naming the receiver', () => {
    const error = refusal(post(bulk), { shards: 2, limits: { batchBytes: 10_000 } });
    expect(error.code).toBe('limit');
    expect(error.message).toMatch(/the last of them to 'taker', passes 10000 bytes; raise limits.batchBytes/);
    expect(error.site).toMatchObject({ actor: 'sender', timeNs: 5 });
  });

  it('of pending events, also where they arrive from another shard', () => {
    const local = refusal(post(bulk), { limits: { pendingBytes: 1_000_000 } });
    expect(local.message).toMatch(/a body of about 30000\d\d bytes passes the limit of 1000000 bytes .* raise limits.pendingBytes/);
    expect(local.site).toMatchObject({ actor: 'sender', message: 'go', timeNs: 5 });
    const arriving = refusal(post(bulk), { shards: 2, limits: { pendingBytes: 1_000_000 } });
    expect(arriving.site).toMatchObject({ actor: 'taker', message: 'parcel', timeNs: 15 });
  });

  it.each([1, 2])('and cannot be caught by the handler that passes one: what was half sent would be lost (%i shards)', (shards) => {
    const load = message('load', ['count'], body<{ bytes: Uint8Array }>());
    let failed = 0;
    const greedy = actorKind({
      name: 'greedy',
      messages: { load },
      state: (other: { id: number }) => ({ other: other.id }),
      start(state, context) {
        for (let count = 0; count < 40; count++) {
          try {
            context.sendBody(state.other as ActorId<'load'>, load, 10, { bytes: new Uint8Array(1000) }, count);
          } catch {
            failed++;
          }
        }
      },
      on: { load: (_state, { body: content }) => void content.bytes.length },
    });
    const program = defineProgram(undefined, 'greedy', (world) => {
      const ids = { id: 1 };
      world.actor('a', greedy, ids);
      world.actor('b', greedy, ids);
      world.lookahead('default', 'default', 10);
    });
    const simulation = new Simulation(modelOf(program, undefined), { shards, limits: { batchBytes: 20_000, pendingBytes: 20_000 } });
    let error: unknown;
    try {
      simulation.runUntil();
    } catch (thrown) {
      error = thrown;
    }
    expect(failed).toBeGreaterThan(0);
    expect(error).toMatchObject({ code: 'limit', site: { actor: 'a', message: 'start', timeNs: 0 } });
  });

  it('and forget those that were taken', () => {
    const act: Deeds['act'] = (context) => {
      for (let sent = 0; sent < 10; sent++) context.sendBody(1 as never, parcel, 10 + sent, new Uint8Array(50_000) as never);
      context.send(context.self, go, 100, 1, 2);
    };
    const simulation = new Simulation(modelOf(two({ act }), undefined), { limits: { pendingBytes: 600_000 } });
    // Ten times 500 kB, never more than that at once.
    expect(() => simulation.runUntil(1000)).not.toThrow();
    expect(simulation.eventCount).toBe(2 + 10 + 10 * 10);
  });

  it('and have a least value', () => {
    expect(() => simulate(post(0), { limits: { pendingBytes: 1 } })).toThrow(/limits.pendingBytes is 1; at least 4096/);
  });
});

describe('a simulation that failed', () => {
  it('neither goes on nor can be saved, and names the first error', () => {
    const simulation = new Simulation(
      modelOf(
        two({
          act: () => {
            throw new Error('first trouble');
          },
        }),
        undefined,
      ),
    );
    expect(() => simulation.runUntil()).toThrow(/first trouble/);
    for (const again of [
      () => simulation.runUntil(),
      () => simulation.checkpoint(),
      () => simulation.fork(),
      () => simulation.inject({ timeNs: 50, actor: 'taker', message: 'go', fields: [1, 2] }),
    ])
      expect(again).toThrow(/failed before and cannot go on or be saved; .*It failed with: Error: first trouble/);
  });
});

describe('message views', () => {
  it('show fields named like anything, nothing of the engine, and keep nothing', () => {
    const odd = message('odd', ['cursor', 'words', 'base']);
    const seen: unknown[] = [];
    const kind = actorKind({
      name: 'odd',
      messages: { odd },
      state: () => ({}),
      start: (_state, context) => context.send(context.self, odd, 1, 10, 20, 30),
      on: {
        odd(_state, view) {
          seen.push(view.cursor, view.words, view.base, ...Reflect.ownKeys(view));
          seen.push(Reflect.set(view, 'mark', 1));
        },
      },
    });
    new Simulation(
      modelOf(
        defineProgram(undefined, 'odd', (world) => void world.actor('a', kind, undefined)),
        undefined,
      ),
    ).runUntil();
    expect(seen).toEqual([10, 20, 30, false]);
  });

  it.each(['sender', 'body', 'constructor', '__proto__', 'toString', 'hasOwnProperty', ''])('leave the name "%s" reserved', (name) => {
    expect(() => message('m', [name])).toThrow(/is reserved; rename the field/);
  });
});

describe('models', () => {
  const kind = actorKind({ name: 'kind', messages: { go }, state: () => ({}), on: { go() {} } });
  const declaring = (declare: (world: Parameters<Parameters<typeof defineProgram>[2]>[0]) => void) => () =>
    modelOf(
      defineProgram(undefined, 'declaring', (world) => {
        for (const name of ['a', 'b']) world.actor(name, kind, undefined);
        declare(world);
      }),
      undefined,
    );

  it('refuse a lookahead or link that is declared twice with different values', () => {
    const rule = (delayNs: number) =>
      declaring((world) => {
        for (const value of [5, delayNs]) world.lookahead('default', 'default', value);
      });
    expect(rule(5)).not.toThrow();
    expect(rule(6)).toThrow(/lookahead from class 'default' to class 'default' is declared twice, as 5 ns and as 6 ns/);
    const link = (delayNs: number) =>
      declaring((world) => {
        for (const value of [5, delayNs]) world.link('a', 'b', value);
      });
    expect(link(5)).not.toThrow();
    expect(link(6)).toThrow(/link from cell 'a' to cell 'b' is declared twice/);
  });

  it('name the program whose build function throws', () => {
    const build = declaring(() => {
      throw new TypeError('no such table');
    });
    try {
      build();
      expect.unreachable();
    } catch (error) {
      expect(error).toMatchObject({ code: 'bad-model', cause: new TypeError('no such table') });
      expect((error as Error).message).toContain("the build function of program 'declaring' failed: TypeError: no such table");
    }
  });

  it('cannot be saved where there is no folder', () => {
    expect(() =>
      simulate({ act: () => undefined })
        .checkpoint()
        .write('/no/such/folder/file'),
    ).toThrow(expect.objectContaining({ code: 'bad-checkpoint' }));
  });
});

describe('a trace', () => {
  const message = ['tick'];

  it('drops what a restart will write again', async () => {
    const file = join(mkdtempSync(join(tmpdir(), 'braess-trace-')), 'trace.json');
    const kind = source.actorKind({ name: 'kind', messages: {}, state: () => ({}), on: {} });
    const build = source.defineProgram(undefined, 'traced', (world) => {
      for (const name of ['a', 'b']) world.actor(name, kind, undefined);
    });
    const model = source.modelOf(build, undefined);
    const recorder = new EventRecorder(model, { actors: () => true, file });
    recorder.add(Float64Array.of(1, 0, 0, 1, 0), message);
    recorder.mark();
    for (let timeNs = 2; timeNs < 3000; timeNs++) recorder.add(Float64Array.of(timeNs, 0, 0, 1, 0), message);
    recorder.rewind();
    recorder.add(Float64Array.of(9, 0, 0, 1, 0), message);
    await recorder.close();
    const { traceEvents } = JSON.parse(readFileSync(file, 'utf8')) as { traceEvents: { ph: string; args: { timeNs?: number } }[] };
    expect(traceEvents.filter((event) => event.ph === 'X').map((event) => event.args.timeNs)).toEqual([1, 9]);
  });

  it('to a file that cannot be opened, or of an unknown actor, is refused at once', () => {
    const start = (trace: { actors: string[]; file: string }) =>
      run(two({ act: () => undefined }), undefined, { transport: 'memory', trace });
    expect(() => start({ actors: ['sender'], file: '/no/such/folder/trace.json' })).toThrow(/trace.file .* cannot be written: ENOENT/);
    expect(() => start({ actors: ['sendr'], file: '/no/such/folder/trace.json' })).toThrow(
      /trace.actors names 'sendr', but no actor has this name; the nearest is 'sender'/,
    );
  });
});

describe('guards', () => {
  it.each<[string, () => unknown]>([
    ['crypto', () => crypto.randomUUID()],
    ['performance.timeOrigin', () => performance.timeOrigin + 1],
    ['process.uptime', () => process.uptime()],
    ['process.cpuUsage', () => process.cpuUsage()],
    ['process.hrtime', () => process.hrtime.bigint()],
    ['process.nextTick', () => process.nextTick(() => undefined)],
    ['Promise.prototype.then', () => Promise.resolve().then(() => undefined)],
    ['WeakRef', () => new WeakRef({})],
    ['console', () => console.debug('')],
    ['process.stdout', () => process.stdout.write('')],
    ['process.stderr', () => process.stderr.write('')],
    ['FinalizationRegistry', () => new FinalizationRegistry(() => undefined)],
  ])('hide %s, and put it back', (name, use) => {
    const before = [globalThis.crypto, Promise.prototype.then, process.nextTick];
    let found: unknown;
    const restore = installGuards();
    try {
      use();
    } catch (error) {
      found = error;
    } finally {
      restore();
    }
    expect((found as Error).message).toContain(
      `${name} inside a handler: a run is reproducible and does no input or output of its own; use `,
    );
    expect([globalThis.crypto, Promise.prototype.then, process.nextTick]).toEqual(before);
    expect(use).not.toThrow();
  });
});

describe('rings', () => {
  it('share 64 MiB, none above 1 MiB or below 64 KiB', () => {
    expect([1, 2, 8, 9, 16, 32, 64].map((shards) => ringBytesFor(shards) / 2 ** 10)).toEqual([1024, 1024, 1024, 512, 256, 64, 64]);
  });
});
