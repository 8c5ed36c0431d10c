import { type ActorKind, actorKind, body, type Context, KernelError, message, record } from '@braess/kernel';
import { changeRole, engineRole, engineState, engineStatus, loadReport, setTelemetryLoss, startEngine, stopEngine } from '@braess/protocol';
import { createEngineColumns, type EngineColumns, type EngineEntry, engineOf, takeLoadReport } from '../frontend/engines.js';
import { callPolicy } from '../policy/call-policy.js';
import type { PlannerActions, PlannerPolicy, SpeedProfile } from '../policy/control-policies.js';
import { type BoundPolicy, builtInSource, policyState } from '../policy/policy.js';
import { ViewWatch } from '../policy/untouched.js';

/** planner -> itself: it is time to plan; `periodic` 1 for the period, 0 for a fixed time. */
const planDue = message('planDue', ['periodic']);

/** Kinds of orders. */
const orderKind = { changeRole: 0, start: 1, stop: 2 } as const;

/** What a planner ordered: 0 change of role, 1 start, 2 stop (in the role it has); `engineId` is an actor id. */
export const plannerOrder = record('plannerOrder', ['order', 'engineId', 'role'], body<{ readonly policy: string }>());

/** An engine's role and status as the planner has just been told. */
export const engineRoleSeen = record('engineRoleSeen', ['engineId', 'role', 'status']);

/** What a planner is built with; delays and times in ns. */
export interface PlannerOptions {
  readonly engines: readonly EngineEntry[];
  readonly policy: BoundPolicy<PlannerPolicy>;
  readonly engineDelayNs: number;
  /** By engine number. May be filled until the run begins. */
  readonly profiles?: readonly SpeedProfile[];
  /** Default 16, and 131,072. */
  readonly blockTokens?: number;
  readonly contextTokens?: number;
  /** Time a change of role takes once the engine has drained (default 5 s). */
  readonly switchNs?: number;
  /** Time an engine takes to start (default 60 s). */
  readonly startNs?: number;
}

/** Plain data. */
export interface PlannerState {
  engines: EngineColumns;
  policy: unknown;
  telemetryLost: boolean;
  /** The next periodic planning is set. */
  armed: boolean;
  orders: number;
}

const messages = { loadReport, engineState, setTelemetryLoss, planDue };

/** The actor kind of a planner. */
export type PlannerKind = ActorKind<'planner', keyof typeof messages, void>;

/** The planner: sees load reports and engine states, late, and moves engines between roles by its policy. */
export function createPlannerKind(options: PlannerOptions): PlannerKind {
  const { policy: bound } = options;
  const { profiles = [], blockTokens = 16, contextTokens = 131_072 } = options;
  const { policy, parameters } = bound;
  const { periodNs, timesNs } = planTimes(bound);
  const desk = new PlannerDesk(options);
  const planNow = (state: PlannerState, context: Context<'planner'>): void => {
    const { engines } = state;
    const view = { nowNs: context.now, engines, status: engines.status, profiles, blockTokens, contextTokens };
    const asked = (): string => `for a plan at ${context.now} ns over ${describeEngines(state.engines)}`;
    const watch = bound.source === builtInSource ? undefined : new ViewWatch({ view });
    callPolicy(bound, asked, () => policy.plan(view, desk.actions(state, context), parameters, state.policy, desk.random), watch);
  };
  return actorKind({
    name: 'planner',
    messages,
    streams: ['planner'] as const,
    state: (): PlannerState => {
      const engines = createEngineColumns(options.engines);
      return { engines, policy: policyState(bound, engines.count), telemetryLost: false, armed: false, orders: 0 };
    },
    start: (_state, context) => {
      for (const time of timesNs) context.timer(planDue, time, 0);
    },
    on: {
      loadReport: (state: PlannerState, view, context) => {
        if (state.telemetryLost) return;
        takeLoadReport(state.engines, engineOf(state.engines, view.sender), view, context.now);
        // Reports start the clock, so that an idle cluster's run can end.
        if (periodNs === undefined || state.armed) return;
        state.armed = true;
        context.timer(planDue, periodNs - (context.now % periodNs), 1);
      },
      engineState: (state: PlannerState, view, context) => {
        const engine = engineOf(state.engines, view.sender);
        state.engines.role[engine] = view.role;
        state.engines.status[engine] = view.status;
        context.emit(engineRoleSeen, view.sender, view.role, view.status);
      },
      setTelemetryLoss: (state: PlannerState, view) => {
        state.telemetryLost = view.lost === 1;
      },
      planDue: (state: PlannerState, view, context) => {
        if (view.periodic === 1) state.armed = false;
        planNow(state, context);
      },
    },
  });
}

/** State and context while a policy plans. */
interface Moment {
  readonly state: PlannerState;
  readonly context: Context<'planner'>;
}

/** What a plan may draw and order, for the state and the context of the moment. */
class PlannerDesk {
  readonly #options: PlannerOptions;
  #current: Moment | undefined;
  readonly #actions: PlannerActions = {
    changeRole: (engine, role) => this.#order(orderKind.changeRole, engine, role),
    startEngine: (engine, role) => this.#order(orderKind.start, engine, role),
    stopEngine: (engine) => this.#order(orderKind.stop, engine, this.#now.state.engines.role[engine] ?? 0),
  };

  constructor(options: PlannerOptions) {
    this.#options = options;
  }

  readonly random = (): number => this.#now.context.random('planner');

  actions(state: PlannerState, context: Context<'planner'>): PlannerActions {
    this.#current = { state, context };
    return this.#actions;
  }

  get #now(): Moment {
    return this.#current as Moment;
  }

  #order(kind: number, engine: number, role: number): void {
    const { state, context } = this.#now;
    const { policy, engineDelayNs, switchNs = 5_000_000_000, startNs = 60_000_000_000 } = this.#options;
    const target = state.engines.actors[engine];
    if (target === undefined)
      throw new RangeError(`ordered engine ${String(engine)}; engines are numbered 0 to ${state.engines.count - 1}`);
    if (role !== engineRole.aggregated && role !== engineRole.prefill && role !== engineRole.decode)
      throw new RangeError(`ordered role ${String(role)}; roles are 0 (aggregated), 1 (prefill), 2 (decode)`);
    state.orders++;
    context.emitBody(plannerOrder, { policy: policy.policy.name }, kind, target, role);
    if (kind === orderKind.changeRole) context.send(target, changeRole, engineDelayNs, role, switchNs);
    else if (kind === orderKind.start) context.send(target, startEngine, engineDelayNs, role, startNs);
    else context.send(target, stopEngine, engineDelayNs);
  }
}

/** When a policy wants to plan. @throws KernelError `bad-option` for what is no time. */
function planTimes(bound: BoundPolicy<PlannerPolicy>): { periodNs: number | undefined; timesNs: number[] } {
  const { policy, parameters } = bound;
  const asked = (): string => 'when it wants to plan';
  const periodNs = callPolicy(bound, asked, () => policy.periodNs?.(parameters));
  const timesNs = callPolicy(bound, asked, () => [...new Set(policy.timesNs?.(parameters) ?? [])]);
  const times: readonly (readonly [number, number])[] = timesNs.map((time) => [time, 0]);
  for (const [time, least] of periodNs === undefined ? times : [...times, [periodNs, 1] as const])
    if (!(Number.isSafeInteger(time) && time >= least))
      throw new KernelError(
        'bad-option',
        `planner policy '${bound.policy.name}' (${bound.source}) wants to plan at or every ${time} ns; times are whole ns up to 2^53 (104 days), periods at least 1`,
      );
  return { periodNs, timesNs };
}

/** What a plan is about, for an error. */
function describeEngines({ count, role, status }: EngineColumns): string {
  const serving = [0, 0, 0];
  for (let engine = 0; engine < count; engine++) if (status[engine] === engineStatus.active) serving[role[engine]!]!++;
  const active = Object.entries(engineRole).flatMap(([name, code]) => (serving[code] === 0 ? [] : [`${serving[code]} ${name}`]));
  return `${count} engines (active: ${active.join(', ') || 'none'})`;
}
