import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { actorKind, body, Checkpoint, defineProgram, message, modelOf, type RunOptions, run, Simulation, startRun } from '@braess/kernel';
import { type FaultParameters, faultProgram, randomProgram } from '@braess/kernel/testing';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { randomSpec } from './random-specs.js';

const ring: FaultParameters = { actors: 5, fault: 'none', failing: 0, atCount: 0, hops: 50, delayNs: 100, bodyBytes: 10 };

function checkpointOf(parameters: FaultParameters = ring, seed = '1'): Checkpoint {
  const simulation = new Simulation(modelOf(faultProgram, parameters), { seed });
  simulation.runUntil(2000);
  return simulation.checkpoint();
}

describe('checkpoints', () => {
  it('have the same bytes for 1 to 4 shards at any time, and say what they are', () => {
    fc.assert(
      fc.property(randomSpec(), fc.nat(300), (spec, cutNs) => {
        const bytes = [1, 2, 3, 4].map((shards) => {
          const simulation = new Simulation(modelOf(randomProgram, spec), { shards, seed: 'cut' });
          simulation.runUntil(cutNs);
          return Buffer.from(simulation.checkpoint().bytes);
        });
        for (const other of bytes) expect(other.equals(bytes[0] as Buffer)).toBe(true);
        const { header } = Checkpoint.parse(bytes[0] as Buffer);
        expect(header).toMatchObject({ program: 'random', seed: 'cut', timeNs: cutNs });
      }),
      { seed: 8, numRuns: 150 },
    );
  });

  it('have the same bytes on threads as in memory', async () => {
    const expected = Buffer.from(checkpointOf().bytes);
    for (const [shards, transport] of [
      [1, 'threads'],
      [3, 'threads'],
      [2, 'bridged'],
    ] as const) {
      const { checkpoint } = await run(faultProgram, ring, { shards, transport, untilNs: 2000, checkpoint: true });
      expect(Buffer.from((checkpoint as Checkpoint).bytes).equals(expected), `${transport}, ${shards} shards`).toBe(true);
    }
  });

  it('hold objects without a prototype as such, and have the same bytes, wherever they were taken', async () => {
    const bare: FaultParameters = { ...ring, fault: 'bare-body' };
    const expected = Buffer.from(checkpointOf(bare).bytes);
    for (const shards of [1, 3]) {
      const { checkpoint } = await run(faultProgram, bare, { shards, untilNs: 2000, checkpoint: true });
      expect(Buffer.from((checkpoint as Checkpoint).bytes).equals(expected)).toBe(true);
    }
    const restored = new Simulation(modelOf(faultProgram, bare), { from: checkpointOf(bare) });
    expect(Object.getPrototypeOf((restored.stateOf('ring000001') as { kept: object }).kept)).toBe(null);
  });

  it('cut between instants: everything before the time is done, nothing at it', () => {
    const simulation = new Simulation(modelOf(faultProgram, ring));
    for (const [untilNs, events] of [
      [100, 5],
      [101, 10],
      [2000, 5 * 20],
      [2001, 5 * 21],
    ] as const) {
      simulation.runUntil(untilNs);
      expect([simulation.nowNs, simulation.eventCount]).toEqual([untilNs, events]);
    }
  });

  it('restored from a file end like the run they were taken from', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'braess-checkpoint-'));
    try {
      const path = join(folder, 'at-2000.checkpoint');
      checkpointOf().write(path);
      const whole = await run(faultProgram, ring, { transport: 'memory' });
      for (const shards of [1, 2, 3]) {
        const restored = await run(faultProgram, ring, { shards, from: Checkpoint.read(path) });
        expect([restored.fingerprint, restored.recordFingerprint, restored.eventCount]).toEqual([
          whole.fingerprint,
          whole.recordFingerprint,
          whole.eventCount,
        ]);
      }
      writeFileSync(path, 'not a checkpoint at all, but long enough to be one');
      expect(() => Checkpoint.read(path)).toThrow(/is not a Braess checkpoint \(it begins with 'not a ch'/);
      expect(() => Checkpoint.read(join(folder, 'missing'))).toThrow(/cannot be read/);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });

  it('truncated anywhere are refused', () => {
    const { bytes } = checkpointOf();
    for (const length of [0, 3, 8, 16, 31, 32, 100, bytes.length - 1])
      expect(() => Checkpoint.parse(bytes.subarray(0, length)), `${length} bytes`).toThrow(/truncated|is not a Braess checkpoint/);
    expect(() => Checkpoint.parse(Buffer.concat([bytes, Buffer.of(0)]))).toThrow(/too long/);
  });

  it('with any one bit flipped are refused', () => {
    const { bytes } = checkpointOf();
    fc.assert(
      fc.property(fc.nat(bytes.length - 1), fc.nat(7), (at, bit) => {
        // Four reserved bytes carry nothing.
        fc.pre(at < 12 || at >= 16);
        const damaged = Uint8Array.from(bytes);
        damaged[at] = (damaged[at] as number) ^ (1 << bit);
        expect(() => Checkpoint.parse(damaged)).toThrow(/damaged|truncated|too long|version|not a Braess/);
      }),
      { seed: 9, numRuns: 300 },
    );
  });

  it('of another version, program, model or seed are refused, naming both', () => {
    const checkpoint = checkpointOf();
    const newer = Uint8Array.from(checkpoint.bytes);
    newer[8] = 99;
    expect(() => Checkpoint.parse(newer)).toThrow(/has format version 99; this version of Braess reads \d+/);
    const open = (parameters: FaultParameters, seed: string) =>
      new Simulation(modelOf(faultProgram, parameters), { seed, from: checkpoint });
    expect(() => open(ring, '2')).toThrow(/taken with seed '1', the run has '2'/);
    expect(() => open({ ...ring, actors: 6 }, '1')).toThrow(/of another model of 'fault'/);
    expect(() => open({ ...ring, delayNs: 99 }, '1')).toThrow(/of another model of 'fault'/);
    const spec = fc.sample(randomSpec(), { seed: 1, numRuns: 1 })[0];
    expect(() => new Simulation(modelOf(randomProgram, spec as never), { from: checkpoint })).toThrow(/of program 'fault', not 'random'/);
    expect(() => open(ring, '1')).not.toThrow();
  });
});

describe('a checkpoint of other parameters', () => {
  it('is told from one of the same, and refused where they are to be the same', async () => {
    const from = checkpointOf();
    const other = { ...ring, hops: ring.hops + 1 };
    expect(from.header.parametersDigest).toBe(modelOf(faultProgram, { ...ring }).parametersDigest);
    expect(from.header.parametersDigest).not.toBe(modelOf(faultProgram, other).parametersDigest);
    for (const transport of ['memory', 'threads'] as const) {
      const warnings: unknown[] = [];
      const logger = { warn: (text: unknown) => warnings.push(text), error: () => undefined } as unknown as NonNullable<
        RunOptions['logger']
      >;
      expect((await run(faultProgram, ring, { from, transport, logger, sameParameters: true })).otherParameters).toBe(false);
      expect(warnings).toEqual([]);
      expect((await run(faultProgram, other, { from, transport, logger })).otherParameters).toBe(true);
      expect(warnings).toEqual([expect.stringContaining('a fork by parameter')]);
      expect(() => startRun(faultProgram, other, { from, transport, sameParameters: true })).toThrow(
        /taken with other parameters \(digest/,
      );
    }
    expect(() => new Simulation(modelOf(faultProgram, other), { from, sameParameters: true })).toThrow(/taken with other parameters/);
    expect(() => new Simulation(modelOf(faultProgram, other), { from })).not.toThrow();
  });

  it('is not known where parameters are no plain data', () => {
    const kind = actorKind({ name: 'kind', messages: {}, state: () => ({}), on: {} });
    const program = defineProgram<{ make: () => number }>(undefined, 'functions', (world) => void world.actor('a', kind, undefined));
    const from = new Simulation(modelOf(program, { make: () => 1 })).checkpoint();
    expect(from.header.parametersDigest).toBe('');
    expect(() => new Simulation(modelOf(program, { make: () => 2 }), { from, sameParameters: true })).not.toThrow();
  });
});

describe('forks', () => {
  const parcel = message('parcel', [], body<{ list: number[] }>());
  const changing = actorKind({
    name: 'changing',
    messages: { parcel },
    state: () => ({ kept: [] as number[][], nested: { deep: [0] } }),
    start(_state, context) {
      context.sendBody(context.self, parcel, 100, { list: [1] });
    },
    on: {
      parcel(state, { body: received }, context) {
        received.list.push(context.now);
        state.nested.deep.push(context.now);
        state.kept.push([...received.list]);
        if (context.now < 300) context.sendBody(context.self, parcel, 100, received);
      },
    },
  });
  const program = defineProgram(undefined, 'changing', (world) => void world.actor('a', changing, undefined));

  it('share nothing with the run they leave: neither states nor bodies under way', () => {
    const original = new Simulation(modelOf(program, undefined));
    original.runUntil(150);
    const forks = [original.fork(), original.fork({ shards: 2 }), original.fork({ strict: true })];
    for (const fork of forks) fork.runUntil();
    original.runUntil();
    const expected = {
      kept: [
        [1, 100],
        [1, 100, 200],
        [1, 100, 200, 300],
      ],
      nested: { deep: [0, 100, 200, 300] },
    };
    for (const simulation of [original, ...forks]) {
      expect(simulation.stateOf('a')).toEqual(expected);
      expect(simulation.fingerprint).toBe(original.fingerprint);
    }
  });

  it('differ by what was changed in them only', () => {
    const original = new Simulation(modelOf(program, undefined));
    original.runUntil(150);
    const fork = original.fork();
    (fork.stateOf('a') as { kept: number[][] }).kept.push([7]);
    fork.runUntil();
    original.runUntil();
    expect((fork.stateOf('a') as { kept: number[][] }).kept).toHaveLength(4);
    expect((original.stateOf('a') as { kept: number[][] }).kept).toHaveLength(3);
  });
});
