import {
  actorKind,
  type Checkpoint,
  defineProgram,
  type InputEntry,
  KernelError,
  message,
  modelOf,
  type Run,
  RunObserver,
  type RunOptions,
  type RunRecord,
  record,
  run,
  Simulation,
  startRun,
} from '@braess/kernel';
import { echoProgram, faultProgram } from '@braess/kernel/testing';
import { describe, expect, it } from 'vitest';

const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const idle = { ticking: 'x', tickNs: 0 };

/** An observer, and a promise that settles once a shard has run an event: threads take their time to start on a busy machine. */
function watched(): { observer: RunObserver; underWay: Promise<void> } {
  const observer = new RunObserver();
  const underWay = new Promise<void>((resolve) => {
    observer.on('window', ({ events }) => {
      if (events > 0) resolve();
    });
  });
  return { observer, underWay };
}

/** Injects `count` inputs, one every `everyMs`, alternating between the two actors. */
async function feed(going: ReturnType<typeof startRun>, count: number, everyMs: number): Promise<void> {
  for (let index = 0; index < count; index++) {
    going.inject({ actor: index % 2 === 0 ? 'x' : 'y', message: 'poke', fields: [index] });
    await wait(everyMs);
  }
}

describe('live input', () => {
  it.each([
    ['one shard, no pace', { shards: 1 }],
    ['two shards, no pace', { shards: 2 }],
    ['two shards, paced, cut into segments', { shards: 2, pace: 1, checkpointEveryNs: 20_000_000 }],
  ] as const)('is never lost, and the log replays to the same fingerprint: %s', async (_name, options) => {
    const going = startRun(
      echoProgram,
      { ticking: 'x', tickNs: 1_000_000 },
      { ...options, live: true, ...('pace' in options ? {} : { untilNs: 2 ** 52 }) },
    );
    going.inject({ actor: 'x', message: 'poke', fields: [-1] }); // Before it is under way.
    await feed(going, 100, 2);
    await wait(100);
    going.stop();
    const result = await going.result;
    expect(result.stopped).toBe(true);
    expect(result.inputs).toHaveLength(101);
    const fields = result.inputs.map((entry: InputEntry) => entry.fields?.[0]).sort((a, b) => (a as number) - (b as number));
    expect(fields).toEqual(Array.from({ length: 101 }, (_, index) => index - 1));
    const again = await run(echoProgram, { ticking: 'x', tickNs: 1_000_000 }, { inputs: result.inputs, untilNs: result.stoppedNs });
    expect([again.fingerprint, again.eventCount]).toEqual([result.fingerprint, result.eventCount]);
  });

  it.each([1, 2])('keeps an idle run waiting until it is stopped: %i shards', async (shards) => {
    for (const options of [{ shards }, { shards, pace: 1 }, { shards, pace: 1, checkpointEveryNs: 50_000_000 }]) {
      const { observer, underWay } = watched();
      const going = startRun(echoProgram, idle, { ...options, live: true, observer });
      await underWay;
      const poked = new Promise((resolve) => observer.on('window', ({ fromNs, events }) => events > 0 && fromNs > 0 && resolve(undefined)));
      going.inject({ actor: 'y', message: 'poke', fields: [7] });
      await poked;
      await wait(60);
      going.stop();
      const result = await going.result;
      expect([result.stopped, result.inputs.length, result.eventCount]).toEqual([true, 1, 2 + 1]);
    }
  });

  it('enters in the order of its stamps, wherever it was given', async () => {
    const going = startRun(echoProgram, idle, { live: true, pace: 1, untilNs: 900_000_000 });
    going.inject({ actor: 'x', message: 'poke', fields: [1], timeNs: 800_000_000 });
    going.inject({ actor: 'y', message: 'poke', fields: [2], timeNs: 700_000_000 });
    const result = await going.result;
    expect(result.inputs.map((entry) => entry.timeNs)).toEqual([700_000_000, 800_000_000]);
    const again = await run(echoProgram, idle, { inputs: result.inputs, untilNs: 900_000_000 });
    expect(again.fingerprint).toBe(result.fingerprint);
  });

  it('that comes too late is named, or refused once the run has ended', async () => {
    let given = 0;
    const sink = {
      async write() {
        await wait(500); // The shards have ended by then, and wait for this.
        if (given++ === 0) going.inject({ actor: 'x', message: 'poke', fields: [5] });
      },
    };
    const going: Run = startRun(echoProgram, { ticking: 'x', tickNs: 1000 }, { sink, live: true, untilNs: 10_000 });
    const afterwards: unknown[] = [];
    going.observer.on('finished', () => {
      try {
        going.inject({ actor: 'x', message: 'poke', fields: [6] });
      } catch (error) {
        afterwards.push((error as KernelError).reason);
      }
    });
    const result = await going.result;
    expect(result.inputs).toEqual([]);
    expect(result.lateInputs).toEqual([{ actor: 'x', message: 'poke', fields: [5], timeNs: 0 }]);
    expect(afterwards).toEqual([expect.stringContaining("input 'poke' for 'x' comes too late")]);
  });

  it('arrives as it was given: without a prototype where it had none, and unchanged by what the caller does then', async () => {
    const ring = { actors: 3, fault: 'bare-body', failing: 0, atCount: 0, hops: 1, delayNs: 100 } as const;
    const given = Object.assign(Object.create(null) as { count: number }, { count: 5 });
    const observer = new RunObserver();
    const going = startRun(faultProgram, ring, { live: true, shards: 2, checkpoint: true, observer });
    observer.on('window', ({ fromNs }) => fromNs === 500 && going.stop());
    going.inject({ timeNs: 500, actor: 'ring000002', message: 'token', fields: [0], body: given });
    given.count = 6;
    const { checkpoint, inputs, stoppedNs } = await going.result;
    const entered = (state: unknown): object => (state as { kept: object }).kept;
    const taken = new Simulation(modelOf(faultProgram, ring), { from: checkpoint as Checkpoint });
    expect([Object.getPrototypeOf(entered(taken.stateOf('ring000002'))), { ...entered(taken.stateOf('ring000002')) }]).toEqual([
      null,
      { count: 5 },
    ]);
    const again = await run(faultProgram, ring, { inputs, untilNs: stoppedNs, checkpoint: true });
    expect(again.checkpoint).toEqual(checkpoint);
  });

  it('has its records in order, also where one shard is given something when the records of another have been written', async () => {
    const order: number[][] = [];
    const token = { message: 'token', fields: [0], body: null };
    const sink = {
      write(records: readonly RunRecord[]): void {
        const isFirst = order.length === 0;
        order.push(...records.map(({ timeNs, actor }) => [timeNs, actor]));
        if (isFirst) going.inject({ ...token, timeNs: 100, actor: 'ring000000' });
        else going.stop();
      },
    };
    const silent = { actors: 2, fault: 'none', failing: 0, atCount: 0, hops: 0, burst: 0, delayNs: 10 } as const;
    const going = startRun(faultProgram, silent, { live: true, shards: 2, sink });
    going.inject({ ...token, timeNs: 500, actor: 'ring000001' });
    const { inputs } = await going.result;
    // The second cannot enter at 500 ns any more, where it would come before the first.
    expect(inputs.map(({ timeNs, actor }) => [timeNs, actor])).toEqual([
      [500, 'ring000001'],
      [501, 'ring000000'],
    ]);
    expect(order).toEqual([
      [500, 1],
      [501, 0],
    ]);
  });

  it('is checked when it is given', () => {
    const going = startRun(echoProgram, idle, { live: true, pace: 1 });
    expect(() => going.inject({ actor: 'x', message: 'poke', fields: ['1' as unknown as number] })).toThrow(
      /field 'number' is 1; fields are numbers/,
    );
    expect(() => going.inject({ actor: 'z', message: 'poke', fields: [1] })).toThrow(/'z'/);
    going.stop();
    return going.result;
  });
});

describe('a checkpoint', () => {
  it('is not followed by inputs, or an end, before its time', async () => {
    const half = await run(echoProgram, { ticking: 'x', tickNs: 1000 }, { untilNs: 50_000, checkpoint: true });
    const from = half.checkpoint as NonNullable<typeof half.checkpoint>;
    for (const transport of ['memory', 'threads'] as const) {
      const early = [{ timeNs: 500, actor: 'x', message: 'poke', fields: [1] }];
      expect(() => startRun(echoProgram, { ticking: 'x', tickNs: 1000 }, { from, transport, inputs: early })).toThrow(
        /before the checkpoint's 50000 ns/,
      );
      expect(() => startRun(echoProgram, { ticking: 'x', tickNs: 1000 }, { from, transport, untilNs: 5 })).toThrow(
        /before the checkpoint's 50000 ns/,
      );
    }
  });

  it('jumps empty time: a period far below the gaps between events makes no empty segments', async () => {
    const result = await run(echoProgram, { ticking: 'x', tickNs: 1_000_000_000 }, { checkpointEveryNs: 1000, untilNs: 5_000_000_000 });
    const plain = await run(echoProgram, { ticking: 'x', tickNs: 1_000_000_000 }, { untilNs: 5_000_000_000 });
    expect(result.fingerprint).toBe(plain.fingerprint);
  });
});

describe('stop', () => {
  const ring = { actors: 6, fault: 'none' as const, failing: 4, atCount: 30, hops: 2 ** 40, delayNs: 1000 };

  it('ends a run whose handler does not return, naming it', async () => {
    const observer = new RunObserver();
    const going = startRun(faultProgram, { ...ring, fault: 'stall' }, { shards: 2, observer });
    observer.on('stalled', () => going.stop());
    await expect(going.result).rejects.toThrow(/has not returned.*asked to stop[\s\S]*actor ring000004/);
  });

  it('hands over every record whole and in order, also while nobody takes them in and all shared blocks are full', async () => {
    const recordsOf = async (transport: 'memory' | 'threads'): Promise<RunRecord[]> => {
      const all: RunRecord[] = [];
      let isFirst = true;
      const write = (records: readonly RunRecord[]): void => {
        all.push(...records);
        for (const endMs = performance.now() + (isFirst ? 300 : 0); performance.now() < endMs; ); // Holds this thread, not the shard's.
        isFirst = false;
      };
      await run(echoProgram, { ticking: 'x', tickNs: 1000 }, { transport, sink: { write }, untilNs: 1e8 });
      return all;
    };
    const expected = await recordsOf('memory');
    expect(expected).toHaveLength(99_999);
    expect(await recordsOf('threads')).toEqual(expected);
  });

  it('waits for a slow sink and resolves', async () => {
    let written = 0;
    const sink = {
      async write(records: readonly RunRecord[]) {
        if (written === 0) setTimeout(() => going.stop(), 200);
        written += records.length;
        await wait(150);
      },
    };
    const going: Run = startRun(echoProgram, { ticking: 'x', tickNs: 1000 }, { sink, limits: { recordBytes: 20_000 }, untilNs: 2 ** 52 });
    const result = await going.result;
    expect(result.stopped).toBe(true);
    expect(written).toBe(result.recordCount);
    expect(written).toBeGreaterThan(0);
  });

  const never = (): Promise<void> => new Promise(() => undefined);
  it.each([
    ['writes', 'memory'],
    ['writes', 'threads'],
    ['closes', 'memory'],
    ['closes', 'threads'],
  ] as const)('gives up a sink that never %s (%s)', async (what, transport) => {
    const hang = (): Promise<void> => {
      setTimeout(() => going.stop(), 100); // Once it hangs, however long the thread took to start.
      return never();
    };
    const sink = what === 'writes' ? { write: hang } : { write() {}, close: hang };
    const going: Run = startRun(
      echoProgram,
      { ticking: 'x', tickNs: 1000 },
      { sink, transport, limits: { handlerLimitMs: 300 }, untilNs: 2e6 },
    );
    await expect(going.result).rejects.toThrow(/record sink still holds it: nothing came back for 300 ms/);
  });

  it('reports a failed run although its sink never closes, and a sink that fails as such on every transport', async () => {
    const parameters = { ticking: 'x', tickNs: 1000, failAtTick: 3 };
    const hanging = { write() {}, close: never };
    await expect(run(echoProgram, parameters, { sink: hanging, limits: { handlerLimitMs: 300 } })).rejects.toThrow(/Error: tick 3/);
    const full = () => {
      throw new Error('disk full');
    };
    for (const transport of ['memory', 'threads'] as const) {
      for (const sink of [{ write: full }, { write() {}, close: full }]) {
        const failed = run(echoProgram, { ticking: 'x', tickNs: 1000 }, { sink, transport, untilNs: 10_000 });
        await expect(failed).rejects.toMatchObject({ code: 'sink-failed', reason: 'the record sink failed: disk full' });
      }
    }
  });

  it('before the start ends it at once, and twice is once', async () => {
    const going = startRun(faultProgram, ring, {});
    going.stop();
    going.stop();
    expect((await going.result).stopped).toBe(true);
  });
});

describe('a window that would last for years', () => {
  const endless = { ticking: 'xy', tickNs: 1, lookaheadNs: 2 ** 50 };

  it.each(['threads', 'memory'] as const)('lets records out, and ends when it is asked to (%s)', async (transport) => {
    let written = 0;
    const sink = {
      write(records: readonly RunRecord[]): void {
        for (const { timeNs, actor } of records) {
          if (timeNs !== 1 + (written >> 1) || actor !== (written & 1))
            throw new Error(`actor ${actor} at ${timeNs} ns is number ${written}`);
          written++;
        }
        going.stop();
      },
    };
    const going = startRun(echoProgram, endless, { transport, shards: 2, sink });
    const { stopped, stoppedNs, recordCount } = await going.result;
    expect([stopped, recordCount, 2 * (stoppedNs - 1)]).toEqual([true, written, written]);
  });

  it('lets the records of one shard out while all others wait for it', async () => {
    let written = 0;
    const sink = {
      write(records: readonly RunRecord[]): void {
        written += records.length;
        going.stop();
      },
    };
    const going = startRun(echoProgram, { ...endless, ticking: 'x' }, { shards: 2, sink });
    const { stopped, stoppedNs, recordCount } = await going.result;
    expect([stopped, recordCount, stoppedNs - 1]).toEqual([true, written, written]);
  });
});

describe('a failing run', () => {
  it.each([1, 2])('gives its sink no record of a time that a shard had not passed: memory, %i shards', async (shards) => {
    const tick = message('tick');
    const seen = record('seen');
    const ticker = actorKind({
      name: 'ticker',
      messages: { tick },
      state: (setup: { everyNs: number; failsAtNs: number }) => setup,
      start: ({ everyNs }, context) => void context.timer(tick, everyNs),
      on: {
        tick({ everyNs, failsAtNs }, _message, context) {
          context.emit(seen);
          if (context.now === failsAtNs) throw new Error('the ticker broke');
          context.timer(tick, everyNs);
        },
      },
    });
    // On two shards the first is 99 ns ahead when the second fails: they run a window of 100 ns one after the other.
    const program = defineProgram(undefined, 'tickers', (world) => {
      world.actor('a', ticker, { everyNs: 7, failsAtNs: -1 });
      world.actor('b', ticker, { everyNs: 5, failsAtNs: 500 });
      world.lookahead('default', 'default', 100);
    });
    const passed: number[][] = [];
    const sink = { write: (records: readonly RunRecord[]) => void passed.push(...records.map(({ timeNs, actor }) => [timeNs, actor])) };
    await expect(run(program, undefined, { transport: 'memory', shards, sink })).rejects.toThrow('the ticker broke');
    const expected = [];
    for (let timeNs = 1; timeNs < 500; timeNs++) {
      if (timeNs % 7 === 0) expected.push([timeNs, 0]);
      if (timeNs % 5 === 0) expected.push([timeNs, 1]);
    }
    expect(passed).toEqual(expected);
  });

  it.each(['memory', 'threads'] as const)('gives its sink what came before the failure, and closes it (%s)', async (transport) => {
    const seen: number[] = [];
    let closed = 0;
    const sink = {
      write: (records: readonly RunRecord[]) => void seen.push(...records.map((record) => record.timeNs)),
      close: () => void closed++,
    };
    await expect(run(echoProgram, { ticking: 'x', tickNs: 1000, failAtTick: 101 }, { transport, sink })).rejects.toThrow(/tick 101/);
    expect([seen.length, closed]).toEqual([100, 1]);
  });

  it.each(['memory', 'threads'] as const)('is told as it is, whatever its logger does (%s)', async (transport) => {
    const broken = () => {
      throw new Error('the logger broke');
    };
    const logger = { warn: broken, error: broken } as unknown as NonNullable<RunOptions['logger']>;
    const going = run(echoProgram, { ticking: 'x', tickNs: 10, failAtTick: 3 }, { transport, shards: 3, logger });
    await expect(going).rejects.toMatchObject({ code: 'handler-failed', site: { actor: 'x', message: 'tick', timeNs: 30 } });
  });

  it('is told as it is, whatever its observers do', async () => {
    const observer = new RunObserver();
    for (const name of ['started', 'progress', 'actor-error', 'window'] as const)
      observer.on(name, () => {
        throw new Error(`listener of ${name}`);
      });
    await expect(run(echoProgram, { ticking: 'x', tickNs: 1000, failAtTick: 5 }, { observer })).rejects.toThrow(/tick 5/);
  });
});

describe('pacing', () => {
  it('over many segments still says that it cannot keep up', async () => {
    const options = { pace: 1, untilNs: 400_000, checkpointEveryNs: 10_000 };
    const result = await run(echoProgram, { ticking: 'x', tickNs: 100, workMs: 0.1 }, options);
    expect(result.pacing).toMatchObject({ keptUp: false });
    expect(result.pacing?.lagMaxMs).toBeGreaterThan(100);
  });
});

describe('options', () => {
  it.each([
    [{ shard: 2 }, /shard is 2; but a run has no such option/],
    [{ restarts: -1 }, /restarts/],
    [{ strict: 'no' }, /strict/],
    [{ seed: Number.NaN }, /seed/],
    [{ bridgeDelayMs: -5 }, /bridgeDelayMs/],
    [{ sink: {} }, /sink/],
    [{ from: {} }, /from/],
    [{ observer: {} }, /observer/],
    [{ workerHeapMb: 0 }, /workerHeapMb/],
  ])('refuse %j by name', (options, text) => {
    expect(() => startRun(echoProgram, idle, options as never)).toThrow(text);
    expect(() => startRun(echoProgram, idle, options as never)).toThrow(KernelError);
  });

  it('refuse parameters that no thread can be sent', async () => {
    const kind = actorKind({ name: 'k', messages: { poke: message('poke') }, state: () => ({}), on: { poke() {} } });
    expect(kind.name).toBe('k');
    await expect(run(echoProgram, { ...idle, extra: () => 1 } as never, {})).rejects.toThrow(/cannot be sent to a thread/);
  });
});
