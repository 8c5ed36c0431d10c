import { engineRole } from '@braess/protocol';
import { z } from 'zod';
import { definePlannerPolicy, type PlannerActions, type PlannerView } from '../policy/control-policies.js';
import { convert, decodePool, giveBack, kvUse, movingEngines, offEngine, type PoolLoad, prefillPool } from './pools.js';

const threshold = (value: number) => z.number().nonnegative().default(value);

type Wish = 'up' | 'down' | 'stay';

/** Any engine at or over `up` asks for one more, all under `down` offer one. */
function wishOf(pool: PoolLoad, loadOf: (engine: number) => number, up: number, down: number): Wish {
  const loads = pool.engines.map(loadOf);
  if (loads.some((load) => load >= up)) return 'up';
  return loads.length > 0 && loads.every((load) => load < down) ? 'down' : 'stay';
}

const parameters = z.strictObject({
  intervalSeconds: z.number().positive().default(10),
  prefillUp: threshold(1),
  prefillDown: threshold(0.1),
  decodeUp: threshold(1),
  decodeDown: threshold(0.6),
  leastEngines: z.int().min(1).default(1).describe('Engines that each role keeps'),
  contextTokens: z
    .int()
    .positive()
    .optional()
    .describe('Tokens that count as load 1 of a prefill engine; default the longest context the engines take'),
  giveBack: z.boolean().default(true).describe('Stop an engine that its role offers and the other does not ask for'),
  waitForMoves: z.boolean().default(false).describe('Order nothing while an engine still drains, switches or starts'),
  plansInARow: z.int().min(1).default(1).describe('Plans in a row that must ask for the same'),
  onlyOffered: z
    .boolean()
    .default(false)
    .describe('A role gives an engine to the other only when it offers one itself, not whenever the other asks'),
});

/** A role, what it wants, and for how many plans in a row. */
interface Side {
  readonly role: number;
  readonly pool: PoolLoad;
  readonly wish: Wish;
  streak: { wish: Wish; plans: number };
}

/**
 * NVIDIA Dynamo's load-based planner (docs: SLA-based planner, "load-based scaling"; planner defaults): prefill by queued prompt tokens over the context
 * length, decode by KV use with the queue. A role that asks gets an engine that is off, or, with the budget used up, one of the other role; where both ask
 * then, nobody moves. A role that offers one gives it back. One order a role and plan, prefill first.
 */
export const loadPlanner = definePlannerPolicy({
  name: 'load',
  description:
    "NVIDIA Dynamo's load thresholds: queued prompt tokens over the context length, KV use with the queue; starts, stops and converts engines.",
  parameters,
  movesBetweenPools: true,
  periodNs: ({ intervalSeconds }) => Math.round(intervalSeconds * 1e9),
  createState: () => ({ prefill: { wish: 'stay' as Wish, plans: 0 }, decode: { wish: 'stay' as Wish, plans: 0 } }),
  plan(view, actions, settings, state) {
    const [p, d] = [prefillPool(view), decodePool(view)];
    const context = settings.contextTokens ?? view.contextTokens;
    const queue = (engine: number): number => view.engines.queuedTokens[engine]! / context;
    const wantsPrefill = wishOf(p, queue, settings.prefillUp, settings.prefillDown);
    const wantsDecode = wishOf(d, (engine) => kvUse(view, engine), settings.decodeUp, settings.decodeDown);
    const prefill: Side = { role: engineRole.prefill, pool: p, wish: wantsPrefill, streak: state.prefill };
    const decode: Side = { role: engineRole.decode, pool: d, wish: wantsDecode, streak: state.decode };
    for (const side of [prefill, decode]) {
      side.streak.plans = side.wish === side.streak.wish ? side.streak.plans + 1 : 1;
      side.streak.wish = side.wish;
    }
    if (settings.waitForMoves && movingEngines(view) > 0) return;
    const started = serve(view, actions, settings, prefill, decode);
    serve(view, actions, settings, decode, prefill, started);
  },
});

type Settings = z.output<typeof parameters>;

/** What one role gets or gives; the engine that it starts, or -1. */
function serve(view: PlannerView, actions: PlannerActions, settings: Settings, side: Side, other: Side, started = -1): number {
  if (side.wish === 'stay' || side.streak.plans < settings.plansInARow) return -1;
  const { giveBack: gives, leastEngines, onlyOffered } = settings;
  const spare = side.wish === 'up' ? offEngine(view, side.role, started) : -1;
  let ordered = spare >= 0;
  if (spare >= 0) actions.startEngine(spare, side.role);
  else if (side.wish === 'up') {
    if (other.wish === 'down' || (other.wish === 'stay' && !onlyOffered))
      ordered = convert(view, actions, other.pool, side.role, leastEngines);
  } else if (gives && other.wish !== 'up') ordered = giveBack(view, actions, side.pool, leastEngines);
  if (ordered) side.streak.plans = 0;
  return spare;
}
