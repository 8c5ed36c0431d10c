import { type FrontendState, slotStage } from '@braess/control';
import { modelOf, Simulation } from '@braess/kernel';
import { availableBlocks } from '@braess/kvbm';
import { engineRole, engineStatus } from '@braess/protocol';
import { type EngineActorState, type EngineState, slotState } from '@braess/serving';
import { type CareClientState, clientPhase, type RequestTable } from '@braess/workload';
import type { EnginePool } from './engine-blocks.js';
import type { ClusterPlan } from './plan.js';
import clusterProgram from './program.js';

type Engine = EngineActorState<EnginePool>;

/** Where the states of a run's actors can be read. */
export interface ActorStates {
  readonly actorNames: readonly string[];
  stateOf(actor: string): unknown;
}

/**
 * Runs a cluster again, on this thread, up to where nothing happens any more, and says who waits there. The states of a run live in its threads and are
 * gone with them; the run is the same every time, so this costs its time once more, and only where something is wrong.
 */
export function whoWaitsAtTheEnd(plan: ClusterPlan, table: RequestTable, seriesNs: number, seed: string | number): string[] {
  const model = modelOf(clusterProgram, { plan, table, seriesNs, alone: true });
  const run = new Simulation(model, { seed: String(seed) });
  run.runUntil();
  return whoWaits({ actorNames: model.actorNames, stateOf: (actor) => run.stateOf(actor) });
}

/** What each request in flight waits for: the actor that has it, the request, and the resource or the answer that is missing. One sentence each. */
export function whoWaits(states: ActorStates): string[] {
  const sentences: string[] = [];
  for (const actor of states.actorNames) {
    if (actor.startsWith('control/frontend')) sentences.push(...atFrontend(states, actor, states.stateOf(actor) as FrontendState));
    else if (actor.startsWith('clients/')) sentences.push(...atClient(actor, states.stateOf(actor) as CareClientState));
  }
  return sentences;
}

function atFrontend(states: ActorStates, actor: string, { slots, engines }: FrontendState): string[] {
  const nameOf = (engine: number): string => states.actorNames[engines.actors[engine]!]!;
  const sentences: string[] = [];
  for (let slot = 0; slot < slots.used; slot++) {
    const request = slots.request[slot]!;
    const prefillEngine = slots.prefillEngine[slot]!;
    const said = (what: string): void => void sentences.push(`${actor}: request ${request} ${what}`);
    switch (slots.stage[slot]) {
      case slotStage.waitingFirst:
        said('waits in the router for an engine that takes its prompt');
        break;
      case slotStage.waitingDecode:
        said(`waits in the router for a decode engine; ${nameOf(prefillEngine)} holds its KV`);
        break;
      case slotStage.prefill:
      case slotStage.aggregated:
        said(`waits for ${nameOf(prefillEngine)}, ${atEngine(states, nameOf(prefillEngine), slots.dispatch[slot]!)}`);
        break;
      case slotStage.decode: {
        const engine = nameOf(slots.decodeEngine[slot]!);
        said(`waits for ${engine}, ${atEngine(states, engine, slots.dispatch[slot]!)}`);
        break;
      }
    }
  }
  return sentences;
}

/** What an engine does with a request, as the end of a sentence. */
function atEngine(states: ActorStates, name: string, dispatch: number): string {
  const { engine, slots, columns, inquiries } = states.stateOf(name) as Engine;
  const slot = slots.get(dispatch);
  if (slot === undefined) return `which does not have it (${conditionOf(engine)})`;
  if (slot < 0) return `which looks its prompt up in a KV tier (${inquiries.get(-1 - slot)?.answered ?? 0} have answered)`;
  const { state, promptTokens } = engine.requests;
  switch (state[slot]) {
    case slotState.waiting: {
      const needed = Math.ceil(promptTokens[slot]! / engine.rules.blockTokens);
      return `where it waits for a place in the batch (${engine.runningCount} of ${engine.rules.maxSequences} run) and for KV blocks (${availableBlocks(engine.pool.pool)} of ${engine.rules.capacityBlocks} are available, its prompt takes up to ${needed}; ${conditionOf(engine)})`;
    }
    case slotState.reserved: {
      const from = columns.prefillEngine[slot]!;
      const source = from < 0 ? 'a KV tier' : states.actorNames[from]!;
      return `which waits for its KV from ${source}`;
    }
    case slotState.held:
      return 'which has computed its prompt and holds the KV';
    case slotState.decoding:
      return `which decodes it (${conditionOf(engine)})`;
    default:
      return `which computes its prompt (${conditionOf(engine)})`;
  }
}

function conditionOf<Pool>({ status, role }: EngineState<Pool>): string {
  const named = (codes: Record<string, number>, code: number): string =>
    Object.keys(codes).find((name) => codes[name] === code) ?? `${code}`;
  return `${named(engineRole, role)} engine, ${named(engineStatus, status)}`;
}

const clientWaits: Partial<Record<number, string>> = {
  [clientPhase.awaitingPermit]: 'waits for a permit of the closed loop',
  [clientPhase.awaitingConnection]: 'waits for a connection',
  [clientPhase.closing]: 'was given up, and its frontend has not answered',
};

/** Requests that a client has not sent. What it has sent is in flight at a frontend. */
function atClient(actor: string, { active }: Partial<CareClientState>): string[] {
  return [...(active ?? [])].flatMap(([request, { phase }]) => {
    const waits = clientWaits[phase];
    return waits === undefined ? [] : [`${actor}: request ${request} ${waits}`];
  });
}
