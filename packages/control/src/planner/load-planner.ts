import { z } from 'zod';
import { engineRole } from '../frontend/engines.js';
import { definePlannerPolicy, type PlannerView } from '../policy/control-policies.js';
import { convert, decodePool, kvUse, movingEngines, type PoolLoad, prefillPool } from './pools.js';

const threshold = (value: number) => z.number().nonnegative().default(value);

type Wish = 'up' | 'down' | 'stay';

/** Any engine at or over `up` asks for one more, all under `down` offer one. */
function wishOf(pool: PoolLoad, loadOf: (engine: number) => number, up: number, down: number): Wish {
  const loads = pool.engines.map(loadOf);
  if (loads.some((load) => load >= up)) return 'up';
  return loads.length > 0 && loads.every((load) => load < down) ? 'down' : 'stay';
}

/**
 * NVIDIA Dynamo's load-based planner (docs: SLA-based planner, "load-based scaling"; planner defaults): prefill by queued prompt tokens over the context
 * length, decode by KV use with the queue. All GPUs are in use here, so one more engine of a role is one less of the other; where both ask, nobody moves.
 */
export const loadPlanner = definePlannerPolicy({
  name: 'load',
  description:
    "NVIDIA Dynamo's load thresholds: queued prompt tokens over the context length, KV use with the queue; converts between the pools.",
  parameters: z.strictObject({
    intervalSeconds: z.number().positive().default(10),
    prefillUp: threshold(1),
    prefillDown: threshold(0.1),
    decodeUp: threshold(1),
    decodeDown: threshold(0.6),
    /** Tokens that count as load 1 of a prefill engine; default the longest context the engines take. */
    contextTokens: z.int().positive().optional(),
    /** Order nothing while an engine still drains or switches. */
    waitForMoves: z.boolean().default(false),
    /** Plans in a row that must ask for the same move. */
    plansInARow: z.int().min(1).default(1),
    /** A pool gives an engine away only when it offers one itself, not whenever the other asks. */
    onlyOffered: z.boolean().default(false),
  }),
  periodNs: ({ intervalSeconds }) => Math.round(intervalSeconds * 1e9),
  createState: () => ({ wanted: -1, streak: 0 }),
  plan(view, actions, parameters, state) {
    const prefill = prefillPool(view);
    const decode = decodePool(view);
    const context = parameters.contextTokens ?? view.contextTokens;
    const queue = (engine: number): number => view.engines.queuedTokens[engine]! / context;
    const wantsPrefill = wishOf(prefill, queue, parameters.prefillUp, parameters.prefillDown);
    const wantsDecode = wishOf(decode, (engine) => kvUse(view, engine), parameters.decodeUp, parameters.decodeDown);
    const gives = (wish: Wish): boolean => wish === 'down' || (wish === 'stay' && !parameters.onlyOffered);
    let wanted = -1;
    if (wantsPrefill === 'up' && gives(wantsDecode)) wanted = engineRole.prefill;
    else if (wantsDecode === 'up' && gives(wantsPrefill)) wanted = engineRole.decode;
    state.streak = wanted === state.wanted ? state.streak + 1 : 1;
    state.wanted = wanted;
    if (wanted < 0 || state.streak < parameters.plansInARow || (parameters.waitForMoves && hasMoves(view))) return;
    if (convert(view, actions, wanted === engineRole.prefill ? decode : prefill, wanted)) state.streak = 0;
  },
});

function hasMoves(view: PlannerView): boolean {
  return movingEngines(view) > 0;
}
