import {
  bindPolicy,
  builtInPolicy,
  createPlannerKind,
  definePlannerPolicy,
  type PlannerOptions,
  type PlannerPolicy,
  type PlannerState,
} from '@braess/control';
import { type ActorReference, defineProgram, modelOf, Simulation } from '@braess/kernel';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { engineDelayNs, engineLog, type FakeEngine, fakeEngineKind } from './fakes.js';

function simulate(policy: PlannerOptions['policy'], engines: readonly FakeEngine[]): Simulation {
  const program = defineProgram(undefined, 'planned', (world) => {
    const entries: { name: string; actor: ActorReference; role: number }[] = [];
    const planner = world
      .cell('control', { class: 'control' })
      .actor('planner', createPlannerKind({ engines: entries, policy, engineDelayNs }), undefined);
    const kind = fakeEngineKind([planner as never]);
    for (const [index, engine] of engines.entries()) {
      const actor = world.cell(`node00${index}`, { class: 'server' }).actor('engine', kind, engine);
      entries.push({ name: `engine${index}`, actor: actor as never, role: engine.role });
    }
    world.lookahead('control', 'server', engineDelayNs);
    world.lookahead('server', 'control', engineDelayNs);
  });
  return new Simulation(modelOf(program, undefined), { strict: true, keepRecords: true });
}

const builtIn = (name: string, parameters: unknown = {}) => bindPolicy(builtInPolicy('planner', name) as PlannerPolicy, parameters);
const report = (atNs: number, queuedTokens: number) => [atNs, queuedTokens, 0, 0, 0, 10] as const;

describe('planner', () => {
  it('static: orders nothing, whatever is reported', () => {
    const simulation = simulate(builtIn('static'), [{ role: 1, reports: [report(1000, 99), report(9000, 99)] }]);
    simulation.runUntil();
    const state = simulation.stateOf('control/planner') as PlannerState;
    expect([state.orders, state.engines.queuedTokens[0], state.engines.reportedAtNs[0]]).toEqual([0, 99, 9500]);
  });

  it('schedule: orders changes and starts at their times', () => {
    const changes = [
      { atMs: 2, engine: 'engine1', role: 'prefill' },
      { atMs: 3, engine: 'engine0', role: 'decode', start: true },
    ];
    const simulation = simulate(builtIn('schedule', { changes }), [{ role: 2 }, { role: 2 }]);
    simulation.runUntil();
    expect(engineLog(simulation, 1).orders).toEqual([{ role: 1, atNs: 2_000_500, start: false }]);
    expect(engineLog(simulation, 0).orders).toEqual([{ role: 2, atNs: 3_000_500, start: true }]);
    expect(simulation.takeRecords().map((run) => [run.timeNs, ...run.fields])).toEqual([
      [2_000_000, 0, simulation.actorId('node001/engine'), 1],
      [3_000_000, 1, simulation.actorId('node000/engine'), 2],
    ]);
  });

  it('schedule: names an engine that is not there', () => {
    const simulation = simulate(builtIn('schedule', { changes: [{ atMs: 1, engine: 'gpu', role: 'decode' }] }), [{ role: 2 }]);
    expect(() => simulation.runUntil()).toThrow(
      "planner policy 'schedule' (built-in), asked for a plan at 1000000 ns over 1 engines (active: 1 decode), threw RangeError: no engine is named 'gpu'",
    );
  });

  const periodic = definePlannerPolicy({
    name: 'periodic',
    description: 'Notes when it is asked; orders a role by what it sees.',
    parameters: z.strictObject({ role: z.number() }),
    periodNs: () => 10_000,
    createState: () => ({ times: [] as number[] }),
    plan(view, actions, { role }, state) {
      state.times.push(view.nowNs);
      if (view.engines.queuedTokens[0]! > 50) actions.changeRole(0, role);
    },
  });

  it('by period: plans while reports come, and lets an idle run end', () => {
    const reports = [report(1000, 10), report(12_000, 60), report(55_000, 20)];
    const simulation = simulate(bindPolicy(periodic, { role: 2 }), [{ role: 1, reports }]);
    simulation.runUntil();
    const state = simulation.stateOf('control/planner') as PlannerState;
    expect(state.policy).toEqual({ times: [10_000, 20_000, 60_000] });
    expect(engineLog(simulation, 0).orders).toEqual([{ role: 2, atNs: 20_500, start: false }]);
  });

  it('stops the run when the policy orders nonsense', () => {
    const simulation = simulate(bindPolicy(periodic, { role: 9 }), [{ role: 1, reports: [report(0, 60)] }]);
    expect(() => simulation.runUntil()).toThrow('threw RangeError: ordered role 9');
  });
});
