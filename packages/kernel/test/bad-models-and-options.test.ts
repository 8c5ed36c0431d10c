import { actorKind, defineProgram, KernelError, message, modelOf, type RunOptions, Simulation, startRun, type World } from '@braess/kernel';
import { faultProgram } from '@braess/kernel/testing';
import { describe, expect, it } from 'vitest';

const go = message('go', ['value']);

function errorOf(work: () => unknown): KernelError {
  try {
    work();
  } catch (error) {
    if (error instanceof KernelError) return error;
    throw error;
  }
  throw new Error('nothing was refused');
}

describe('bad models', () => {
  const kind = actorKind({ name: 'kind', messages: { go }, state: () => ({}), on: { go() {} } });
  const other = actorKind({ name: 'kind', messages: { go }, state: () => ({}), on: { go() {} } });
  const otherGo = message('go', ['value']);
  const third = actorKind({ name: 'third', messages: { go: otherGo }, state: () => ({}), on: { go() {} } });

  it.each<[string, (world: World) => void, RegExp]>([
    ['no actor', () => undefined, /program 'bad' declares no actor/],
    ['cells without actors only', (world) => void world.cell('c'), /declares no actor/],
    ['two actors of a name', (world) => void [1, 2].map(() => world.actor('a', kind, undefined)), /'a' is declared twice/],
    [
      'two actors of a name in a cell',
      (world) => {
        const cell = world.cell('c');
        for (const _ of [1, 2]) cell.actor('a', kind, undefined);
      },
      /actor 'c\/a' is declared twice/,
    ],
    ['two cells of a name', (world) => void [1, 2].map(() => world.cell('c')), /cell 'c' is declared twice/],
    ['a cell without a name', (world) => void world.cell(''), /a cell needs a name/],
    ['a negative weight', (world) => void world.cell('c', { weight: -1 }), /cell 'c' has weight -1/],
    ['a NaN weight', (world) => void world.cell('c', { weight: Number.NaN }), /cell 'c' has weight NaN/],
    [
      'a lookahead of 0',
      (world) => world.lookahead('x', 'y', 0),
      /lookahead from class 'x' to class 'y' is 0 ns; between cells at least 1 ns/,
    ],
    ['a fractional lookahead', (world) => world.lookahead('x', 'y', 1.5), /is 1.5; it must be a whole number/],
    [
      'a link from nowhere',
      (world) => {
        world.actor('a', kind, undefined);
        world.link('a', 'nowhere', 5);
      },
      /link from 'a' to 'nowhere': no cell with actors is named 'nowhere'/,
    ],
    ['a link of 0', (world) => world.link('a', 'b', 0), /link from cell 'a' to cell 'b' is 0 ns/],
    [
      'two kinds of a name',
      (world) => {
        world.actor('a', kind, undefined);
        world.actor('b', other, undefined);
      },
      /two actor kinds are named 'kind'/,
    ],
    [
      'two messages of a name',
      (world) => {
        world.actor('a', kind, undefined);
        world.actor('b', third, undefined);
      },
      /two messages are named 'go'/,
    ],
    [
      'a build that is not over when it returns',
      (async (world: World) => {
        world.actor('a', kind, undefined);
        await Promise.resolve();
        world.actor('b', kind, undefined);
      }) as unknown as (world: World) => void,
      /build function of program 'bad' returned a promise/,
    ],
    [
      'an id read too early',
      (world) => void world.actor('a', kind, undefined).id,
      /the id of 'a' is not known while the program is being built/,
    ],
  ])('refuses %s', (_what, build, text) => {
    const error = errorOf(() => modelOf(defineProgram(undefined, 'bad', build), undefined));
    expect(error.code).toMatch(/^bad-(model|time)$/);
    expect(error.message).toMatch(text);
  });

  it('refuses what is declared after the build', () => {
    let late: World | undefined;
    const build = (world: World): void => {
      late = world;
      world.actor('a', kind, undefined);
    };
    modelOf(defineProgram(undefined, 'late', build), undefined);
    for (const declare of [
      () => late?.actor('b', kind, undefined),
      () => late?.lookahead('default', 'default', 5),
      () => late?.link('a', 'a', 5),
    ])
      expect(declare).toThrow(/the build function has returned/);
  });

  it.each<[string, () => unknown, RegExp]>([
    ['seven fields', () => message('m', ['a', 'b', 'c', 'd', 'e', 'f', 'g']), /has 7 fields; at most 6/],
    ['a field twice', () => message('m', ['a', 'a']), /field 'a' twice/],
    ['a reserved field', () => message('m', ['sender']), /'sender' is reserved/],
    ['no name', () => message(''), /needs a name/],
    [
      'a key that is not the name',
      () => actorKind({ name: 'k', messages: { went: go }, state: () => ({}), on: { went() {} } }),
      /key 'went' holds message 'go'/,
    ],
    [
      'a stream whose name could be that of another actor',
      () => actorKind({ name: 'k', messages: { go }, streams: ['gpu0/work'], state: () => ({}), on: { go() {} } }),
      /random stream 'gpu0\/work' needs a name without '\/'/,
    ],
    ['a handler too few', () => actorKind({ name: 'k', messages: { go }, state: () => ({}), on: {} as never }), /has no handler for 'go'/],
    [
      'a handler too many',
      () => actorKind({ name: 'k', messages: { go }, state: () => ({}), on: { go() {}, came() {} } as never }),
      /handles 'came'/,
    ],
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
    const failing = actorKind({
      name: 'failing',
      messages: { go },
      state: () => {
        throw new Error('no state');
      },
      on: { go() {} },
    });
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
    ['restarts without checkpoints', { restarts: 1 }, /restarts is 1; but there are no checkpoints to start from; set checkpointEveryNs/],
    ['checkpoints on the way in memory', { transport: 'memory', checkpointEveryNs: 5 }, /'memory' has no threads to lose/],
    ['restarts in memory', { transport: 'memory', restarts: 1, checkpointEveryNs: 5 }, /leave checkpointEveryNs and restarts out/],
    ['checkpoints every 0 ns', { checkpointEveryNs: 0 }, /checkpointEveryNs is 0/],
    ['a limit of 0', { limits: { pendingBytes: 0 } }, /limits.pendingBytes is 0/],
    ['a NaN limit', { limits: { handlerLimitMs: Number.NaN } }, /limits.handlerLimitMs is NaN/],
    ['an endless ring', { limits: { ringBytes: Number.POSITIVE_INFINITY } }, /limits.ringBytes is Infinity; at most 1073741824/],
    ['a limit as text', { limits: { ringBytes: '9000' as never } }, /limits.ringBytes is 9000; it must be a positive number/],
    ['an unknown limit', { limits: { pendingByte: 1 } as never }, /there is no limits.pendingByte; there are pendingBytes, /],
    ['a tiny ring', { limits: { ringBytes: 100 } }, /limits.ringBytes is 100; at least 4096/],
  ])('refuses %s at once', (_what, options, text) => {
    expect(() => startRun(faultProgram, parameters, options)).toThrow(text);
  });

  it('refuses threads for a program without a module, and inject in a run that is not live', async () => {
    const local = defineProgram(undefined, 'local', (world) => {
      world.actor('a', actorKind({ name: 'k', messages: { go }, state: () => ({}), on: { go() {} } }), undefined);
    });
    expect(() => startRun(local, undefined)).toThrow(/has no module URL, so worker threads cannot load it/);
    const going = startRun(faultProgram, parameters, { transport: 'memory' });
    expect(() => going.inject({ actor: 'ring000000', message: 'token', fields: [1], body: null })).toThrow(/inject needs a live run/);
    await going.result;
  });

  it('names a module that cannot be loaded, or has no program', async () => {
    const missing = { ...faultProgram, module: 'file:///nowhere/program.js' };
    await expect(startRun(missing, parameters).result).rejects.toThrow(/nowhere\/program.js cannot be loaded/);
    const empty = { ...faultProgram, module: new URL('../dist/index.js', import.meta.url).href };
    await expect(startRun(empty, parameters).result).rejects.toThrow(/no program as its default export/);
  });
});
