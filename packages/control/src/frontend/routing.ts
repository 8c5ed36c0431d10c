import { isMoving, kvMoveBytes } from '@braess/protocol';
import { networkTiers, siteOf } from '../oracle/site.js';
import { staticTierOracle } from '../oracle/tier-oracles.js';
import { type BoundPolicy, policyFailure, promiseFault, thrownFault } from '../policy/policy.js';
import { type RouterPolicy, routerStage } from '../policy/router-policy.js';
import { isWatched, SiteWatch, ViewWatch } from '../policy/untouched.js';
import { chooseEngine } from '../router/ask.js';
import { isRecorded, recordDecision } from './decisions.js';
import { belowCap, hasRoom, keepNearest } from './decode-stage.js';
import { readsDecodeOverlap } from './options.js';
import { oracleIsWell, oracleListens } from './oracle-watch.js';
import { type FrontendContext, type FrontendDesk, type FrontendState, sizeDesk } from './state.js';
import { steered } from './steering.js';

/** Why there is no engine: all are at a limit, or there is none that serves the stage. */
export const allBusy = -1;
export const noEngine = -2;

/** Chooses the engine for a request's first stage (`decode` false) or its decode stage. Returns its number, `allBusy` or `noEngine`. */
export function route(desk: FrontendDesk, state: FrontendState, context: FrontendContext, slot: number, decode: boolean): number {
  const found = present(desk, state, context, slot, decode);
  if (found <= 0) return found;
  const { settings, view, request } = desk;
  const sampled = isRecorded(settings, request.request);
  if (sampled) for (let place = 0; place < view.count; place++) view.scores[view.candidates[place]!] = Number.NaN;
  const { bound, engine: asked } = ask(desk, state, decode);
  const generates = view.stage !== routerStage.prefill;
  const engine =
    state.steering !== null && generates && asked >= 0 ? steered(state, request.request, asked, view.candidates, view.count) : asked;
  if (sampled && engine >= 0) recordDecision(desk, state, context, engine, bound.policy.name);
  return engine;
}

/** Lays candidates, request and view before the policy; returns how many candidates there are, or why there is none. */
export function present(desk: FrontendDesk, state: FrontendState, context: FrontendContext, slot: number, decode: boolean): number {
  sizeDesk(desk, state.engines.count);
  const found = decode ? decodeCandidates(desk, state, context, slot) : firstCandidates(desk, state, slot);
  if (found <= 0) return found;
  fillRequest(desk, state, context, slot);
  fillView(desk, state, context, slot, decode);
  return found;
}

/** Asks the policy of the stage, or the one that stands in while the oracle is ill. */
export function ask(
  desk: FrontendDesk,
  state: FrontendState,
  decode: boolean,
): { readonly bound: BoundPolicy<RouterPolicy>; readonly engine: number } {
  const { settings, view, request, random } = desk;
  if (!decode) {
    const bound = settings.prefillRouter;
    const parameters = state.prefillParameters ?? bound.parameters;
    return { bound, engine: chooseEngine(bound, view, request, state.prefillRouter, random.prefillRouter, parameters) };
  }
  if (view.network !== null && settings.oracleHealth.fallback === 'least-load' && !oracleIsWell(desk, state, view.nowNs)) {
    const bound = settings.fallback;
    return { bound, engine: chooseEngine(bound, view, request, null, random.decodeRouter) };
  }
  const bound = settings.decodeRouter;
  const parameters = state.decodeParameters ?? bound.parameters;
  return { bound, engine: chooseEngine(bound, view, request, state.decodeRouter, random.decodeRouter, parameters) };
}

/** Active engines, less the one that just refused the request, less those at a limit. Returns how many, or why there is none. */
function firstCandidates(desk: FrontendDesk, state: FrontendState, slot: number): number {
  const { view, free, settings } = desk;
  const { maxEngineRequests, maxEnginePrefillTokens } = settings.queue;
  const { firstCandidates: list, firstCount: count } = state;
  const avoid = state.slots.avoidEngine[slot]!;
  view.candidates = list;
  view.count = count;
  if (count === 0) return noEngine;
  if (avoid < 0 && maxEngineRequests === Number.POSITIVE_INFINITY && maxEnginePrefillTokens === Number.POSITIVE_INFINITY) return count;
  const { activeRequests, activePrefillTokens } = state.engines;
  let left = 0;
  let eligible = 0;
  for (let place = 0; place < count; place++) {
    const engine = list[place]!;
    if (engine === avoid) continue;
    eligible++;
    if (activeRequests[engine]! < maxEngineRequests && activePrefillTokens[engine]! < maxEnginePrefillTokens) free[left++] = engine;
  }
  return settleCandidates(desk, left, eligible);
}

/** The same of the decode stage, whose options narrow the choice further. */
function decodeCandidates(desk: FrontendDesk, state: FrontendState, context: FrontendContext, slot: number): number {
  const { view, free, settings } = desk;
  const { maxEngineRequests } = settings.queue;
  const { reserve, longestWaitNs, nearPriority } = settings.decodeStage;
  const { decodeCandidates: list, decodeCount: count, slots, engines } = state;
  const avoid = slots.avoidEngine[slot]!;
  const endNs = slots.prefillEndNs[slot]!;
  const patient = endNs < 0 || context.now - endNs < longestWaitNs;
  const cap = patient ? settings.decodeStage.utilisationCap : Number.POSITIVE_INFINITY;
  const limited = reserve !== undefined || maxEngineRequests !== Number.POSITIVE_INFINITY || cap !== Number.POSITIVE_INFINITY;
  view.candidates = list;
  view.count = count;
  if (count === 0) return noEngine;
  if (avoid < 0 && !limited && nearPriority === undefined) return count;
  const needBlocks = Math.ceil(slots.inputTokens[slot]! / settings.blockTokens);
  let left = 0;
  let eligible = 0;
  for (let place = 0; place < count; place++) {
    const engine = list[place]!;
    if (engine === avoid) continue;
    eligible++;
    if (engines.activeRequests[engine]! >= maxEngineRequests || !belowCap(engines, engine, cap)) continue;
    if (reserve !== undefined && !hasRoom(engines, engine, needBlocks, reserve)) continue;
    free[left++] = engine;
  }
  if (nearPriority !== undefined && patient && left > 0) {
    const tiers = siteOf(settings.site, engines.count).tiersFrom(slots.prefillEngine[slot]!);
    left = keepNearest(free, left, tiers, slots.priority[slot]! >= nearPriority);
  }
  return settleCandidates(desk, left, eligible);
}

function settleCandidates({ view, free }: FrontendDesk, left: number, eligible: number): number {
  view.candidates = free;
  view.count = left;
  if (eligible === 0) return noEngine;
  return left === 0 ? allBusy : left;
}

export function fillRequest(desk: FrontendDesk, state: FrontendState, context: FrontendContext, slot: number): void {
  const { request } = desk;
  const { slots } = state;
  request.request = slots.request[slot]!;
  request.inputTokens = slots.inputTokens[slot]!;
  request.outputTokens = slots.outputTokens[slot]!;
  request.tenant = slots.tenant[slot]!;
  request.priority = slots.priority[slot]!;
  request.attempt = slots.attempts[slot]!;
  request.ageNs = context.now - slots.arrivalNs[slot]!;
}

function fillView(desk: FrontendDesk, state: FrontendState, context: FrontendContext, slot: number, decode: boolean): void {
  const { view } = desk;
  desk.context = context;
  view.nowNs = context.now;
  view.engines = state.engines;
  view.scores = desk.scores;
  view.network = null;
  view.overlapBlocks = desk.zeros;
  if (decode) {
    view.stage = routerStage.decode;
    view.prefillEngine = state.slots.prefillEngine[slot]!;
    const { kvBytesPerToken, fixedKv } = desk.settings;
    const inputTokens = state.slots.inputTokens[slot]!;
    view.transferBytes = kvMoveBytes(inputTokens, kvBytesPerToken, fixedKv);
    view.fixedBytes = view.transferBytes - inputTokens * kvBytesPerToken;
    view.tierTransfers = state.tierTransfers;
    const [from, to] = [networkTiers * view.prefillEngine, networkTiers * (view.prefillEngine + 1)];
    view.sourceTransfers = state.sourceTransfers.subarray(from, to);
    view.tierRequests = state.tierRequests;
    view.sourceRequests = state.sourceRequests.subarray(from, to);
    if (readsDecodeOverlap(desk.settings.decodeRouter)) readOverlap(desk, state, slot);
    if (desk.settings.oracle !== undefined && desk.settings.decodeRouter.policy.reads?.network === true) askOracle(desk, state);
  } else {
    view.stage = state.firstStageHasPrefill ? routerStage.prefill : routerStage.aggregated;
    view.prefillEngine = -1;
    view.transferBytes = 0;
    view.fixedBytes = 0;
    readOverlap(desk, state, slot);
  }
}

/** Leading blocks of the prompt that each engine holds, into the view; the most that any engine holds is `bestOverlap`'s to find. */
function readOverlap(desk: FrontendDesk, state: FrontendState, slot: number): void {
  const { overlap } = desk.settings;
  const chain = state.slots.chains[slot];
  if (overlap === undefined || chain === undefined || chain.length === 0) return;
  // Behind the prompt's blocks may stand those of its answer.
  const blocks = Math.floor(state.slots.inputTokens[slot]! / desk.settings.blockTokens);
  overlap.overlap(state.overlap, chain.length > blocks ? chain.subarray(0, blocks) : chain, desk.overlap);
  desk.view.overlapBlocks = desk.overlap;
}

/** Prompt tokens that the best-placed engine would still have to compute: the work of a waiting request. */
export function tokensToCompute(desk: FrontendDesk, state: FrontendState, slot: number): number {
  sizeDesk(desk, state.engines.count);
  desk.view.overlapBlocks = desk.zeros;
  readOverlap(desk, state, slot);
  let most = 0;
  for (let place = 0; place < state.firstCount; place++) most = Math.max(most, desk.view.overlapBlocks[state.firstCandidates[place]!]!);
  return Math.max(1, state.slots.inputTokens[slot]! - most * desk.settings.blockTokens);
}

function askOracle(desk: FrontendDesk, state: FrontendState): void {
  const { network, view, settings } = desk;
  const oracle = settings.oracle as NonNullable<typeof settings.oracle>;
  if (oracle.policy.writesAll !== true) network.forget();
  view.network = network;
  const { knowledge } = state.oracle;
  const site = siteOf(settings.site, state.engines.count);
  const siteWatch = isWatched(oracle, desk.request.request) ? new SiteWatch('question.site', site) : undefined;
  const question = {
    nowNs: view.nowNs,
    prefillEngine: view.prefillEngine,
    transferBytes: view.transferBytes,
    fixedBytes: view.fixedBytes,
    candidates: view.candidates,
    count: view.count,
    site: siteWatch?.site ?? site,
    paths: settings.decodeRouter.policy.reads?.paths === true,
    inputTokens: desk.request.inputTokens,
    blockTokens: view.blockTokens,
    engines: view.engines,
    overlapBlocks: view.overlapBlocks,
  };
  // One that listens and has not spoken knows nothing.
  if (knowledge === null && oracleListens(oracle.policy)) network.forget();
  else {
    const watch = siteWatch === undefined ? undefined : new ViewWatch({ question }, ['question.site']);
    let said: unknown;
    try {
      said = oracle.policy.answer(question, network, oracle.parameters, knowledge, desk.random.oracle);
      network.check(question);
    } catch (thrown) {
      throw policyFailure(oracle, askedOfOracle(desk), thrownFault(thrown), thrown);
    }
    const fault = promiseFault(said) ?? watch?.written() ?? siteWatch?.written();
    if (fault !== undefined) throw policyFailure(oracle, askedOfOracle(desk), fault);
  }
  if (settings.oracleHealth.fallback !== 'static-tiers' || oracleIsWell(desk, state, view.nowNs)) return;
  // What the oracle said stays in `network`, so that it can be judged.
  staticTierOracle.answer(question, desk.inventory, {}, undefined, desk.random.oracle);
  view.network = desk.inventory;
}

function askedOfOracle({ request }: FrontendDesk): string {
  return `about the KV transfer of request ${request.request}`;
}

/** Whether an engine that serves nothing now is on its way to something: one that drains, switches or starts. */
export function engineMoves({ engines: { status, count } }: FrontendState): boolean {
  for (let engine = 0; engine < count; engine++) if (isMoving(status[engine]!)) return true;
  return false;
}
