import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { clusterProgram, loadWorkload, planCluster, readScenario } from '@braess/cluster';
import { type FrontendState, steerFrontend } from '@braess/control';
import { modelOf, Simulation } from '@braess/kernel';
import { counterfactualPoa, runScenario } from '@braess/lab';
import { afterAll, describe, expect, it } from 'vitest';

const file = resolve(import.meta.dirname, '../../../configs/paper/poa/340b-1p2d.yaml');
const settings = ['workload.client.phases=[{seconds: 14, inFlight: 40}]'];
const folders: string[] = [];
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

async function simulation(): Promise<Simulation> {
  const read = readScenario(file, settings);
  const plan = planCluster(read);
  const { table } = await loadWorkload(read);
  return new Simulation(modelOf(clusterProgram, { plan, table, seriesNs: 0, alone: true }), { seed: '1', keepRecords: true });
}

describe('forks of a cluster run', () => {
  it('one that changes nothing ends with the fingerprint of the original, also when its placements are steered where the policy sends them', async () => {
    const run = await simulation();
    run.runUntil(7e9);
    const fork = run.fork();
    const steered = run.fork();
    const steering = steerFrontend(steered.stateOf('control/frontend0') as FrontendState, new Array(10).fill(-1));
    for (const each of [run, fork, steered]) each.runUntil();
    expect(fork.fingerprint).toBe(run.fingerprint);
    expect(steered.fingerprint).toBe(run.fingerprint);
    expect(steering.chosen).toHaveLength(10);
    // Sent elsewhere, it is another run; the one it was forked from never notices.
    const second = await simulation();
    second.runUntil(7e9);
    const other = second.fork();
    const forced = steerFrontend(
      other.stateOf('control/frontend0') as FrontendState,
      steering.chosen.map((engine) => (engine === 1 ? 2 : 1)),
    );
    other.runUntil();
    second.runUntil();
    expect(forced.chosen).toEqual(steering.chosen.map((engine) => (engine === 1 ? 2 : 1)));
    expect(other.fingerprint).not.toBe(run.fingerprint);
    expect(second.fingerprint).toBe(run.fingerprint);
  });

  it('the counterfactual price of anarchy is that of the run in the folder, and at least 1', async () => {
    const out = mkdtempSync(join(tmpdir(), 'braess-poa-'));
    folders.push(out);
    // A decode engine at half speed that the router does not know of: here placements matter.
    const slow = 'faults=[{kind: gpu-speed, atSeconds: 0, gpu: pod0/rack0/node2/gpu0, factor: 0.5}]';
    const summary = await runScenario({ file, settings: [...settings, slow], out: join(out, 'run'), transport: 'memory' });
    const found = await counterfactualPoa({ folder: summary.folder, moments: 5, decisions: 4, forks: 6 });
    expect(found.sameRun).toBe(true);
    // Those after the last request was sent decide nothing.
    expect(found.moments.length).toBeGreaterThanOrEqual(3);
    for (const { realisedSeconds, bestSeconds } of found.moments) expect(bestSeconds).toBeLessThanOrEqual(realisedSeconds);
    expect(found.estimate!.ratio).toBeGreaterThan(1.001);
    expect(found.forks).toBeLessThanOrEqual(5 * 6);
  });
});
