import { execFile } from 'node:child_process';
import {
  KernelError,
  type Program,
  prepareThreads,
  type Run,
  RunObserver,
  type RunOptions,
  run,
  type StallReport,
  startRun,
  type World,
} from '@braess/kernel';
import { type Fault, type FaultParameters, faultProgram } from '@braess/kernel/testing';
import { describe, expect, it } from 'vitest';

const ring: FaultParameters = { actors: 6, fault: 'none', failing: 4, atCount: 30, hops: 100, delayNs: 1000 };
/** The 30th message of every actor of the ring arrives then: one a microsecond, the first at 1000 ns. */
const failureNs = 30_000;

async function failure(fault: Fault, options: RunOptions = {}, parameters: Partial<FaultParameters> = {}): Promise<KernelError> {
  try {
    await run(faultProgram, { ...ring, ...parameters, fault }, { seed: 'faults', replay: 'braess replay faults', ...options });
  } catch (error) {
    if (error instanceof KernelError) return error;
    throw error;
  }
  throw new Error(`the run with fault '${fault}' succeeded`);
}

/** Worker threads of this process; a run must leave none. */
function workerCount(): number {
  return process.getActiveResourcesInfo().filter((name) => name === 'MessagePort' || name === 'Worker').length;
}

describe('a handler that throws', () => {
  it.each([
    ['memory', 1],
    ['memory', 3],
    ['threads', 1],
    ['threads', 3],
    ['bridged', 2],
  ] as const)('is reported on %s with %i shards: actor, message, simulated time, seed, replay', async (transport, shards) => {
    const before = workerCount();
    const error = await failure('throw', { transport, shards });
    expect(error.code).toBe('handler-failed');
    expect(error.site).toMatchObject({
      actor: 'ring000004',
      message: 'token',
      timeNs: failureNs,
      seed: 'faults',
      replay: 'braess replay faults',
    });
    for (const part of [
      'TypeError: the handler broke',
      'ring000004',
      "'token'",
      '30000 ns',
      "seed 'faults'",
      'replay: braess replay faults',
    ])
      expect(error.message).toContain(part);
    await expect.poll(workerCount, { timeout: 5000 }).toBe(before);
  });

  it('tells an observer', async () => {
    const observer = new RunObserver();
    const seen: KernelError[] = [];
    observer.on('actor-error', (error) => seen.push(error));
    const error = await failure('throw', { observer });
    expect(seen).toEqual([error]);
  });
});

describe('a worker thread that is lost', () => {
  it.each([1, 2, 3])('by process.exit on %i shards is named within 2 s, with actor, simulated time and seed', async (shards) => {
    const before = workerCount();
    const error = await failure('exit', { shards });
    expect(error.code).toBe('worker-lost');
    expect(error.site).toMatchObject({ shard: shards - 1, actor: 'ring000004', message: 'token', timeNs: failureNs, seed: 'faults' });
    expect(error.message).toContain(`shard ${shards - 1}`);
    await expect.poll(workerCount, { timeout: 5000 }).toBe(before);
  });

  it('by running out of memory is named', { timeout: 60_000 }, async () => {
    const before = workerCount();
    const error = await failure('memory', { shards: 2, workerHeapMb: 32 });
    expect(error.code).toBe('worker-lost');
    expect(error.message).toMatch(/memory/);
    expect(error.site).toMatchObject({ actor: 'ring000004', timeNs: failureNs, seed: 'faults' });
    await expect.poll(workerCount, { timeout: 5000 }).toBe(before);
  });
});

describe('a handler that stalls', () => {
  it('is named within 2 s and ended after limits.handlerLimitMs', async () => {
    const before = workerCount();
    const observer = new RunObserver();
    const stalls: StallReport[] = [];
    observer.on('stalled', (report) => stalls.push(report));
    const error = await failure('stall', { shards: 2, observer, limits: { handlerLimitMs: 2500 } });
    expect(stalls).toHaveLength(1);
    expect(stalls[0]).toMatchObject({ shard: 1, actor: 'ring000004', message: 'token', nowNs: failureNs });
    expect((stalls[0] as StallReport).stalledMs).toBeLessThan(2000);
    expect(error.code).toBe('handler-stalled');
    expect(error.message).toContain('limits.handlerLimitMs is 2500');
    expect(error.site).toMatchObject({ shard: 1, actor: 'ring000004', message: 'token', timeNs: failureNs, seed: 'faults' });
    await expect.poll(workerCount, { timeout: 5000 }).toBe(before);
  });
});

describe('what a handler must not touch', () => {
  it.each([
    ['Date', 'context.now'],
    ['Date.now', 'context.now'],
    ['performance.now', 'context.now'],
    ['performance.mark', 'context.now'],
    ['Intl.DateTimeFormat', 'context.now'],
    ['Math.random', 'context.random(stream)'],
    ['Math.pow', 'power'],
    ['setTimeout', 'context.timer'],
    ['SharedArrayBuffer', 'messages'],
    ['await', 'split the work into messages'],
  ] as const)('%s is refused in a worker, naming %s', async (fault, instead) => {
    const error = await failure(fault);
    expect(error.code).toBe('forbidden');
    expect(error.message).toContain(instead);
    expect(error.site).toMatchObject({ actor: 'ring000004', message: 'token', timeNs: failureNs });
  });

  it('a promise left behind is refused, always, when it is rejected', async () => {
    const error = await failure('rejection', { shards: 2 });
    expect(error.code).toBe('forbidden');
    expect(error.message).toMatch(/left a promise behind, which was rejected \(nobody waits for it\)/);
  });

  it('is back in place afterwards, and may be left alone with guards: false', async () => {
    const result = await run(faultProgram, { ...ring, fault: 'Date' }, { guards: false });
    expect(result.eventCount).toBe(6 + 6 * 101);
  });
});

describe('limits', () => {
  it.each(['memory', 'threads'] as const)('of pending events name the fullest actor (%s)', async (transport) => {
    const error = await failure('flood', { transport, limits: { pendingBytes: 2 ** 20 } });
    expect(error.code).toBe('limit');
    expect(error.message).toMatch(/raise limits.pendingBytes/);
    // 2^20 bytes of 84 a slot; the others hold six tokens at most.
    const [, name, count] = /Fullest: actor '(\w+)' with (\d+)/.exec(error.message) ?? [];
    expect(name).toBe('ring000004');
    expect(Number(count)).toBeGreaterThan(2 ** 20 / 84 - 20);
  });

  it('of a batch are named with the sender', async () => {
    const error = await failure('none', { shards: 2, limits: { batchBytes: 16_384 } }, { burst: 2000 });
    expect(error.code).toBe('limit');
    expect(error.message).toMatch(/passes 16384 bytes; raise limits.batchBytes/);
    expect(error.site).toMatchObject({ actor: 'ring000002', message: 'start', timeNs: 0 });
  });

  it.each(['memory', 'threads'] as const)('of zero-delay chains name the loop (%s)', async (transport) => {
    const error = await failure('zero-delay', { transport, limits: { zeroDelaySteps: 500 } });
    expect(error.code).toBe('zero-delay-loop');
    expect(error.message).toContain('passed 500 steps');
    expect(error.message).toContain('ring000004 -token-> ring000004');
  });
});

describe('a program that is not the same on every thread', () => {
  /** The ring as the coordinator builds it; its threads build what the module's default export says. */
  const builtOtherwise = (build: Program<FaultParameters>['build']): Program<FaultParameters> => ({ ...faultProgram, build });
  it.each<[string, Program<FaultParameters>, number]>([
    ['more actors', builtOtherwise((world, parameters) => faultProgram.build(world, { ...parameters, actors: 7 })), 1],
    ['another lookahead', builtOtherwise((world, parameters) => faultProgram.build(world, { ...parameters, delayNs: 500 })), 1],
    [
      'weights that place its cells elsewhere',
      builtOtherwise((world, parameters) => {
        const actor: World['actor'] = (name, kind, setup) => world.actor(name, kind, setup, { weight: name.endsWith('0') ? 9 : 1 });
        faultProgram.build({ actor, cell: world.cell, link: world.link, lookahead: (...rule) => world.lookahead(...rule) }, parameters);
      }),
      2,
    ],
  ])('(%s) is refused', async (_what, program, shards) => {
    await expect(run(program, ring, { shards })).rejects.toMatchObject({
      code: 'handshake',
      reason: expect.stringMatching(/built another model of 'fault' than the thread that started the run: .* default export/),
    });
  });
});

describe('threads', () => {
  it('prepared for one run are not taken by another', async () => {
    const threads = prepareThreads(faultProgram, 2);
    const going = run(faultProgram, ring, { shards: 2, threads });
    expect(() => startRun(faultProgram, ring, { shards: 2, threads })).toThrow(/threads belong to another run/);
    expect((await going).eventCount).toBe(6 + 6 * 101);
    expect(() => startRun(faultProgram, ring, { threads })).toThrow(/threads belong to another run/);
  });

  it('that were ended are refused, and a run that is refused leaves them to the next', async () => {
    const ended = prepareThreads(faultProgram, 1);
    await ended.destroy();
    expect(() => startRun(faultProgram, ring, { threads: ended })).toThrow(/threads have been ended/);
    const threads = prepareThreads(faultProgram, 1);
    const trace = { actors: ['ring000000'], file: '/nowhere/to/be/written.json' };
    expect(() => startRun(faultProgram, ring, { threads, trace })).toThrow(/nowhere/);
    expect((await run(faultProgram, ring, { threads })).eventCount).toBe(6 + 6 * 101);
  });

  it.each(['threads', 'bridged'] as const)('pass a batch larger than the ring in pieces (%s)', async (transport) => {
    const parameters = { ...ring, hops: 3, bodyBytes: 300_000, burst: 4 };
    const one = await run(faultProgram, parameters, { transport: 'memory' });
    const two = await run(faultProgram, parameters, { transport, shards: 2, limits: { ringBytes: 65_536 }, bridgeDelayMs: 0.2 });
    expect(two.fingerprint).toBe(one.fingerprint);
  });

  it('run thousands of cells on two shards', async () => {
    const parameters = { ...ring, actors: 5000, hops: 5 };
    const one = await run(faultProgram, parameters, { transport: 'memory' });
    const two = await run(faultProgram, parameters, { shards: 2 });
    expect(two.fingerprint).toBe(one.fingerprint);
    expect(two.eventCount).toBe(5000 * 7);
  });

  it('may outnumber the cores, and the cells', { timeout: 120_000 }, async () => {
    const one = await run(faultProgram, ring, { transport: 'memory' });
    for (const shards of [8, 12]) expect((await run(faultProgram, ring, { shards })).fingerprint).toBe(one.fingerprint);
  });

  it.each([
    [1, 'threads'],
    [2, 'threads'],
    [3, 'bridged'],
    [1, 'memory'],
    [2, 'memory'],
  ] as const)('stop at an agreed instant and resolve: %i shards, %s', async (shards, transport) => {
    const before = workerCount();
    const endless = { ...ring, hops: 2 ** 40 };
    const going = startRun(faultProgram, endless, { shards, transport, checkpoint: true });
    going.observer.on('progress', ({ events }) => {
      if (events > 0) going.stop();
    });
    const result = await going.result;
    expect(result.stopped).toBe(true);
    expect(result.eventCount).toBeGreaterThan(0);
    await expect.poll(workerCount, { timeout: 5000 }).toBe(before);
    // What was done up to there is what an undisturbed run has done at that time.
    const again = await run(faultProgram, endless, { transport: 'memory', untilNs: result.stoppedNs });
    expect([again.fingerprint, again.eventCount]).toEqual([result.fingerprint, result.eventCount]);
  });

  it.each(['threads', 'memory'] as const)(
    'say that they were stopped where something was left to do, and only there: %s',
    async (transport) => {
      const short = { ...ring, hops: 200_000 };
      const whole = await run(faultProgram, short, { transport });
      expect([whole.stopped, whole.endFaults]).toEqual([false, []]);
      for (const afterMs of [0, 5, 20, 60, 150]) {
        const going = startRun(faultProgram, short, { transport });
        const timer = setTimeout(() => going.stop(), afterMs);
        const result = await going.result;
        clearTimeout(timer);
        expect(result.stopped).toBe(result.eventCount < whole.eventCount);
      }
      // Asked for when all is done, and the sink is being closed.
      const last: Run = startRun(faultProgram, short, { transport, sink: { write: () => undefined, close: (): void => last.stop() } });
      const { eventCount, stopped } = await last.result;
      expect([eventCount, stopped]).toEqual([whole.eventCount, false]);
    },
  );

  it('stop also where thousands of events share every instant', async () => {
    // 4099 is prime: looks after every 4096 events fall between two instants once in 4099 times only.
    const together = { ...ring, actors: 1, burst: 4099, hops: 1000 };
    const going = startRun(faultProgram, together, { transport: 'memory' });
    going.observer.on('progress', () => going.stop());
    const result = await going.result;
    expect(result.stopped).toBe(true);
    expect((result.eventCount - 1) % 4099).toBe(0);
    expect(result.eventCount).toBeLessThan(1 + 4099 * 1001);
  });

  it.each([
    ['throw', /TypeError: the handler broke/],
    ['exit', /worker thread of shard 1 was lost/],
    ['stall', /limits.handlerLimitMs is 1200/],
  ] as const)('leave a script whose run fails by "%s" with an exit code of its own, and end', async (fault, text) => {
    const script = `
      import { run } from '@braess/kernel';
      import { faultProgram } from '@braess/kernel/testing';
      await run(faultProgram, ${JSON.stringify({ ...ring, fault })}, { shards: 2, seed: 'child', limits: { handlerLimitMs: 1200 } });
      console.log('finished');`;
    const { code, stdout, stderr } = await runScript(script);
    expect(code).toBe(1);
    expect(stdout).not.toContain('finished');
    expect(stderr).toMatch(text);
    expect(stderr).toContain("seed 'child'");
  });

  it('let a script end by itself after a good run', async () => {
    const script = `
      import { run } from '@braess/kernel';
      import { faultProgram } from '@braess/kernel/testing';
      const result = await run(faultProgram, ${JSON.stringify(ring)}, { shards: 2 });
      console.log(result.fingerprint);`;
    const { code, stdout } = await runScript(script);
    expect(code).toBe(0);
    expect(stdout.trim()).toBe((await run(faultProgram, ring, { transport: 'memory' })).fingerprint);
  });
});

function runScript(script: string): Promise<{ code: number | string; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      ['--input-type=module', '--eval', script],
      { cwd: import.meta.dirname, timeout: 30_000 },
      (error, stdout, stderr) => resolve({ code: error === null ? 0 : (error.code ?? 'killed'), stdout, stderr }),
    );
  });
}
