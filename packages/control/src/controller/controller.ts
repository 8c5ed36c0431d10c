import { type ActorId, type ActorKind, actorKind, body, type Context, KernelError, message, record } from '@braess/kernel';
import {
  bucketQuantileNs,
  latencyBuckets,
  moveClient,
  type ScrapedMetrics,
  scrape,
  scraped,
  setRouterParameters,
  trafficStarted,
} from '@braess/protocol';
import { callPolicy } from '../policy/call-policy.js';
import type { ControllerPolicy } from '../policy/control-policies.js';
import { type BoundPolicy, policyFailure, policyState } from '../policy/policy.js';
import { placementPoa } from './placement-poa.js';

/** controller -> itself: it is time to scrape. */
const scrapeDue = message('scrapeDue');

/** What a scrape showed, of all targets together; NaN where nothing was measured. */
export const controllerSample = record('controllerSample', ['ttftP99Ms', 'inFlight', 'waiting', 'placementPoa']);

/** What a controller changed: `frontendId` is the actor clients were moved to, -1 when all frontends were told new parameters. */
export interface ControllerChangeBody {
  readonly policy: string;
  readonly parameters: Readonly<Record<string, unknown>>;
}
export const controllerChange = record('controllerChange', ['frontendId'], body<ControllerChangeBody>());

/** An actor that is scraped or told; its id is read when the state is created. */
export interface ControllerTarget {
  readonly id: number;
}

/** What a controller scrapes and changes; delays and times in ns. */
export interface ControllerOptions {
  readonly policy: BoundPolicy<ControllerPolicy>;
  readonly periodNs: number;
  /** Latencies count for so long; 0: since the beginning, as a cumulative histogram without a rate has them. */
  readonly windowNs: number;
  /** Whose TTFT counts. */
  readonly signal: 'server' | 'client';
  /**
   * `set`: tell all frontends the new parameters; `move`: move the clients to the first frontend that has them. Lists may be filled until the run begins.
   */
  readonly apply: 'set' | 'move';
  readonly frontends: readonly ControllerTarget[];
  /** Router parameters of each frontend, in the same order. */
  readonly frontendParameters: readonly Readonly<Record<string, unknown>>[];
  /** Throws where the frontends' router does not take such parameters; absent: it shows there. */
  readonly check?: (parameters: Readonly<Record<string, unknown>>) => void;
  readonly clients: readonly ControllerTarget[];
  /** Further actors with metrics. */
  readonly sources?: readonly ControllerTarget[];
  readonly controlDelayNs: number;
  readonly clientDelayNs: number;
}

interface Sample {
  atNs: number;
  ttftCounts: Float64Array;
  ttftSumNs: number;
}

/** Plain data. */
export interface ControllerState {
  policy: unknown;
  /** Whom to scrape: actor ids; the first `frontends` of them are frontends. */
  targets: number[];
  frontends: number[];
  clients: number[];
  armed: boolean;
  round: number;
  awaited: number;
  /** Of the round under way. */
  gathered: Sample;
  inFlight: number;
  waiting: number;
  lost: boolean;
  decodeRequests: Float64Array | null;
  values: Map<string, number>;
  /** Past rounds within the window, oldest first. */
  history: Sample[];
}

const messages = { trafficStarted, scraped, scrapeDue };

/** The actor kind of a controller. */
export type ControllerKind = ActorKind<'controller', keyof typeof messages, void>;

/**
 * The controller: scrapes its targets each period, at whole multiples of it, while requests are in flight; asks its policy once all have answered,
 * and applies what it says. It learns and acts by messages only.
 */
export function createControllerKind(options: ControllerOptions): ControllerKind {
  checkController(options);
  const { policy: bound, periodNs } = options;
  let current: Context<'controller'> | undefined;
  const random = (): number => (current as Context<'controller'>).random('controller');
  const arm = (state: ControllerState, context: Context<'controller'>): void => {
    if (state.armed) return;
    state.armed = true;
    context.timer(scrapeDue, periodNs - (context.now % periodNs));
  };
  return actorKind({
    name: 'controller',
    messages,
    streams: ['controller'] as const,
    state: (): ControllerState => createControllerState(options),
    on: {
      trafficStarted: (state: ControllerState, _view, context) => arm(state, context),
      scrapeDue: (state: ControllerState, _view, context) => {
        state.armed = false;
        state.round++;
        state.awaited = state.targets.length;
        state.gathered = emptySample(context.now);
        state.inFlight = 0;
        state.waiting = 0;
        state.lost = false;
        state.decodeRequests = null;
        state.values = new Map();
        for (const target of state.targets) context.send(target as ActorId, scrape, delayTo(options, state, target), state.round);
      },
      scraped: (state: ControllerState, view, context) => {
        if (view.round !== state.round) return; // Later than a whole period: its round is over.
        gather(state, view, (options.signal === 'client') === state.clients.includes(view.sender));
        if (--state.awaited > 0) return;
        current = context;
        if (!state.lost) decide(state, context);
        if (state.inFlight > 0) arm(state, context);
      },
    },
  });

  function decide(state: ControllerState, context: Context<'controller'>): void {
    const metrics = metricsOf(options, state);
    const read = (name: string): number => metrics.get(name) ?? Number.NaN;
    context.emit(controllerSample, read('ttft_p99_ms'), state.inFlight, state.waiting, read('placement_poa'));
    const asked = (): string => `at ${context.now} ns`;
    const parameters = callPolicy(bound, asked, () =>
      bound.policy.decide({ nowNs: context.now, metrics }, bound.parameters, state.policy, random),
    );
    if (parameters === null) return;
    if (typeof parameters !== 'object')
      throw policyFailure(bound, asked(), `returned ${String(parameters)}; return router parameters or null`);
    apply(options, state, context, parameters);
  }
}

function apply(
  options: ControllerOptions,
  state: ControllerState,
  context: Context<'controller'>,
  parameters: Readonly<Record<string, unknown>>,
): void {
  const change: ControllerChangeBody = { policy: options.policy.policy.name, parameters: structuredClone(parameters) };
  if (options.apply === 'set') {
    try {
      options.check?.(parameters);
    } catch (thrown) {
      const fault = `returned ${described(parameters)}, which the router does not take: ${(thrown as Error).message}`;
      throw policyFailure(options.policy, `at ${context.now} ns`, fault);
    }
    context.emitBody(controllerChange, change, -1);
    for (const frontend of state.frontends)
      context.sendBody(frontend as ActorId, setRouterParameters, options.controlDelayNs, { parameters: structuredClone(parameters) });
    return;
  }
  const place = options.frontendParameters.findIndex((own) => hasParameters(own, parameters));
  if (place < 0)
    throw policyFailure(
      options.policy,
      `at ${context.now} ns`,
      `returned ${described(parameters)}, but no frontend has these parameters; add them to router.frontendParameters, or use controller.apply: set`,
    );
  context.emitBody(controllerChange, change, state.frontends[place]!);
  for (const client of state.clients) context.send(client as ActorId, moveClient, options.clientDelayNs, state.frontends[place]!);
}

/** JSON, but with the numbers that it has not. */
function described(parameters: Readonly<Record<string, unknown>>): string {
  return `{ ${Object.entries(parameters)
    .map(([name, value]) => `${name}: ${typeof value === 'number' ? value : JSON.stringify(value)}`)
    .join(', ')} }`;
}

/** Whether a frontend's parameters are those wanted, as far as these say. */
export function hasParameters(own: Readonly<Record<string, unknown>>, wanted: Readonly<Record<string, unknown>>): boolean {
  return Object.keys(wanted).every((name) => JSON.stringify(own[name]) === JSON.stringify(wanted[name]));
}

function delayTo(options: ControllerOptions, state: ControllerState, target: number): number {
  return state.clients.includes(target) ? options.clientDelayNs : options.controlDelayNs;
}

function gather(
  state: ControllerState,
  view: { readonly inFlight: number; readonly waiting: number; readonly lost: number; readonly body: ScrapedMetrics },
  countsTtft: boolean,
): void {
  const { ttftCounts, ttftSumNs, decodeRequests, values } = view.body;
  state.inFlight += view.inFlight;
  state.waiting += view.waiting;
  if (view.lost === 1) state.lost = true;
  if (countsTtft && ttftCounts !== null) {
    addTo(state.gathered.ttftCounts, ttftCounts);
    state.gathered.ttftSumNs += ttftSumNs;
  }
  if (decodeRequests !== null) {
    if (state.decodeRequests === null) state.decodeRequests = decodeRequests.slice();
    else addTo(state.decodeRequests, decodeRequests);
  }
  for (const [name, value] of values) state.values.set(name, (state.values.get(name) ?? 0) + value);
}

function addTo(sum: Float64Array, part: Float64Array): void {
  for (let index = 0; index < part.length; index++) sum[index]! += part[index]!;
}

/** The metrics of a round: latencies of the window, gauges as they are. What was not measured is not there. */
function metricsOf(options: ControllerOptions, state: ControllerState): Map<string, number> {
  const { gathered, history } = state;
  const metrics = new Map(state.values);
  metrics.set('inflight_requests', state.inFlight);
  metrics.set('router_queue', state.waiting);
  const poa = state.decodeRequests === null ? Number.NaN : placementPoa(state.decodeRequests);
  if (!Number.isNaN(poa)) metrics.set('placement_poa', poa);
  // The newest sample that is a whole window old, or older, is the base; in the first window there is none.
  const fromNs = gathered.atNs - options.windowNs;
  while (history.length > 1 && history[1]!.atNs <= fromNs) history.shift();
  const base = history.length > 0 && history[0]!.atNs <= fromNs ? history[0] : undefined;
  const counts = gathered.ttftCounts.slice();
  if (base !== undefined) for (let bucket = 0; bucket < counts.length; bucket++) counts[bucket]! -= base.ttftCounts[bucket]!;
  const count = counts.reduce((sum, value) => sum + value, 0);
  if (count > 0) {
    metrics.set('ttft_count', count);
    metrics.set('ttft_mean_ms', (gathered.ttftSumNs - (base?.ttftSumNs ?? 0)) / count / 1e6);
    for (const [name, quantile] of [
      ['ttft_p50_ms', 0.5],
      ['ttft_p90_ms', 0.9],
      ['ttft_p99_ms', 0.99],
    ] as const)
      metrics.set(name, bucketQuantileNs(counts, quantile) / 1e6);
  }
  // A copy: state is a tree, and `gathered` stays where it is until the next round.
  if (options.windowNs > 0) history.push({ ...gathered, ttftCounts: gathered.ttftCounts.slice() });
  return metrics;
}

function createControllerState(options: ControllerOptions): ControllerState {
  const ids = (targets: readonly ControllerTarget[]): number[] => targets.map((target) => target.id);
  const clients = ids(options.clients);
  return {
    policy: policyState(options.policy, 0),
    targets: [...ids(options.frontends), ...(options.signal === 'client' ? clients : []), ...ids(options.sources ?? [])],
    frontends: ids(options.frontends),
    clients,
    armed: false,
    round: 0,
    awaited: 0,
    gathered: emptySample(0),
    inFlight: 0,
    waiting: 0,
    lost: false,
    decodeRequests: null,
    values: new Map(),
    history: [],
  };
}

function emptySample(atNs: number): Sample {
  return { atNs, ttftCounts: new Float64Array(latencyBuckets), ttftSumNs: 0 };
}

function checkController({ periodNs, windowNs, apply: how, frontends, frontendParameters }: ControllerOptions): void {
  if (!(Number.isSafeInteger(periodNs) && periodNs > 0))
    throw new KernelError('bad-option', `controller period is ${periodNs} ns; it must be a whole number of ns, 1 or more`);
  if (!(Number.isSafeInteger(windowNs) && windowNs >= 0))
    throw new KernelError('bad-option', `controller window is ${windowNs} ns; it must be a whole number of ns, 0 for since the beginning`);
  if (how === 'move' && frontendParameters.length !== frontends.length)
    throw new KernelError(
      'bad-option',
      `controller knows parameters of ${frontendParameters.length} of ${frontends.length} frontends; give all`,
    );
}
