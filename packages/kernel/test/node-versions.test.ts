import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { packValue } from '@braess/kernel';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { randomSpec } from './random-specs.js';

/** Other Node binaries to compare with, separated as in PATH; .ci/run sets them. */
const binaries = (process.env.BRAESS_NODE_BINARIES ?? '').split(delimiter).filter((path) => path !== '');
const versions = binaries.map((binary) => execFileSync(binary, ['--version'], { encoding: 'utf8' }).trim());
const title =
  versions.length === 0
    ? `runs the programs of the Node comparison on this ${process.version} only (BRAESS_NODE_BINARIES names no others)`
    : `gives the same fingerprints, records and checkpoints on Node ${versions.join(', ')} as on this ${process.version}`;

it(title, {
  timeout: 120_000,
}, () => {
  const folder = mkdtempSync(join(tmpdir(), 'braess-node-'));
  try {
    // Drawn once, here: fast-check itself may differ between versions.
    const specs = fc.sample(randomSpec(80), { seed: 10, numRuns: 40 });
    const file = join(folder, 'specs');
    writeFileSync(file, packValue(specs, 'the specs'));
    const script = `
      import { readFileSync } from 'node:fs';
      import { actorKind, defineProgram, exponential, Hash, message, modelOf, power, Simulation, standardNormal, unpackValue } from '@braess/kernel';
      import { randomProgram } from '@braess/kernel/testing';
      const specs = unpackValue(readFileSync(${JSON.stringify(file)}));
      for (const spec of specs) {
        const simulation = new Simulation(modelOf(randomProgram, spec), { shards: 2, seed: 'versions' });
        simulation.runUntil(100);
        const cut = new Hash();
        cut.bytes(simulation.checkpoint().bytes);
        simulation.runUntil();
        console.log(simulation.fingerprint, simulation.recordFingerprint, cut.digest());
      }
      // The allowed mathematics on a random stream, as handlers use it.
      const tick = message('tick', ['a', 'b', 'c', 'd']);
      const kind = actorKind({
        name: 'mathematics', messages: { tick }, streams: ['draws'], state: () => ({ left: 20000 }),
        start: (state, context) => context.send(context.self, tick, 1, 0, 0, 0, 0),
        on: {
          tick(state, view, context) {
            if (state.left-- === 0) return;
            const u = context.random('draws');
            const v = context.random('draws') * 20 - 10;
            context.send(context.self, tick, 1 + Math.round(exponential(u, 1e6)), standardNormal(u), power(u * 100, v), Math.exp(v), Math.log1p(u) + Math.sqrt(u) + Math.expm1(v) + Math.log(u));
          },
        },
      });
      const simulation = new Simulation(modelOf(defineProgram(undefined, 'mathematics', (world) => world.actor('a', kind, undefined)), undefined));
      simulation.runUntil();
      console.log(simulation.fingerprint, simulation.eventCount);`;
    const outputOf = (binary: string): string[] =>
      execFileSync(binary, ['--input-type=module', '--eval', script], { cwd: import.meta.dirname, encoding: 'utf8' })
        .trim()
        .split('\n');
    const here = outputOf(process.execPath);
    expect(here).toHaveLength(41);
    expect(here[40]).toMatch(/ 20002$/);
    for (const [index, binary] of binaries.entries()) expect(outputOf(binary), versions[index]).toEqual(here);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
