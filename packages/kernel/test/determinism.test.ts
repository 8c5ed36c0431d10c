import { copyValue, modelOf, Simulation } from '@braess/kernel';
import { oneFingerprint, randomProgram } from '@braess/kernel/testing';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { randomSpec, replayOf } from './random-specs.js';

const file = 'determinism.test.ts';
const seed = 20260101;

describe('random programs', () => {
  it('have one fingerprint in memory: 1 to 4 shards, strict, restored at a random time', async () => {
    const replay = replayOf(file, 'have one fingerprint in memory');
    let events = 0;
    await fc.assert(
      fc.asyncProperty(
        randomSpec(),
        fc.nat(2000),
        fc.integer({ min: 1, max: 4 }),
        fc.integer({ min: 1, max: 4 }),
        async (spec, cutNs, before, after) => {
          await oneFingerprint(randomProgram, spec, {
            matrix: 'memory',
            checkpointAtNs: cutNs,
            restores: [[before, after]],
            seed: 'random',
            replay,
          });
          const simulation = new Simulation(modelOf(randomProgram, copyValue(spec, 'the spec')));
          simulation.runUntil();
          events += simulation.eventCount;
        },
      ),
      { seed, numRuns: 300 },
    );
    // The property would hold emptily for programs that do nothing.
    expect(events).toBeGreaterThan(300 * 20);
  });

  it('have one fingerprint on threads: 1 to 4 shards, bridged, strict, paced, restored', { timeout: 180_000 }, async () => {
    const replay = replayOf(file, 'have one fingerprint on threads');
    await fc.assert(
      fc.asyncProperty(randomSpec(120), async (spec) => {
        await oneFingerprint(randomProgram, spec, { matrix: 'threads', seed: 'random', replay, pacedMs: 20 });
      }),
      { seed, numRuns: 6 },
    );
  });
});
