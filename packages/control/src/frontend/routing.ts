import { networkTiers, siteOf } from '../oracle/site.js';
import { policyFailure, thrownFault } from '../policy/policy.js';
import { routerStage } from '../policy/router-policy.js';
import { chooseEngine } from '../router/ask.js';
import { recordDecision } from './decisions.js';
import { type EngineColumns, engineStatus } from './engines.js';
import { readsDecodeOverlap } from './options.js';
import { type FrontendContext, type FrontendDesk, type FrontendState, sizeDesk } from './state.js';
import { steered } from './steering.js';

/** Why there is no engine: all are at a limit, or there is none that serves the stage. */
export const allBusy = -1;
export const noEngine = -2;

/** Chooses the engine for a request's first stage (`decode` false) or its decode stage. Returns its number, `allBusy` or `noEngine`. */
export function route(desk: FrontendDesk, state: FrontendState, context: FrontendContext, slot: number, decode: boolean): number {
  sizeDesk(desk, state.engines.count);
  const found = collectCandidates(desk, state, slot, decode);
  if (found <= 0) return found;
  fillRequest(desk, state, slot);
  fillView(desk, state, context, slot, decode);
  const { settings, view, request } = desk;
  const sampled = settings.decisions.every > 0 && request.request % settings.decisions.every === 0;
  if (sampled) for (let place = 0; place < view.count; place++) view.scores[view.candidates[place]!] = Number.NaN;
  const bound = decode ? settings.decodeRouter : settings.prefillRouter;
  const asked = decode
    ? chooseEngine(bound, view, request, state.decodeRouter, desk.random.decodeRouter, state.decodeParameters ?? bound.parameters)
    : chooseEngine(bound, view, request, state.prefillRouter, desk.random.prefillRouter, state.prefillParameters ?? bound.parameters);
  const generates = view.stage !== routerStage.prefill;
  const engine = state.steering !== null && generates ? steered(state, request.request, asked, view.candidates, view.count) : asked;
  if (sampled) recordDecision(desk, state, context, engine, bound.policy.name);
  return engine;
}

/** Active engines, less the one that just refused the request, less those at a limit. Returns how many, or why there is none. */
function collectCandidates(desk: FrontendDesk, state: FrontendState, slot: number, decode: boolean): number {
  const { view, free, settings } = desk;
  const { maxEngineRequests, maxEnginePrefillTokens } = settings.queue;
  const list = decode ? state.decodeCandidates : state.firstCandidates;
  const count = decode ? state.decodeCount : state.firstCount;
  const avoid = state.slots.avoidEngine[slot]!;
  view.candidates = list;
  view.count = count;
  if (count === 0) return noEngine;
  const reserve = decode ? settings.memoryReserve : undefined;
  const limited =
    reserve !== undefined ||
    maxEngineRequests !== Number.POSITIVE_INFINITY ||
    (!decode && maxEnginePrefillTokens !== Number.POSITIVE_INFINITY);
  if (avoid < 0 && !limited) return count;
  const { activeRequests, activePrefillTokens } = state.engines;
  const needBlocks = Math.ceil(state.slots.inputTokens[slot]! / settings.blockTokens);
  let left = 0;
  let eligible = 0;
  for (let place = 0; place < count; place++) {
    const engine = list[place]!;
    if (engine === avoid) continue;
    eligible++;
    if (activeRequests[engine]! >= maxEngineRequests) continue;
    if (!decode && activePrefillTokens[engine]! >= maxEnginePrefillTokens) continue;
    if (reserve !== undefined && !hasRoom(state.engines, engine, needBlocks, reserve)) continue;
    free[left++] = engine;
  }
  view.candidates = free;
  view.count = left;
  if (eligible === 0) return noEngine;
  return left === 0 ? allBusy : left;
}

/** Whether an engine can take so many blocks and keep its reserve. An empty one judges for itself, so that nobody waits for ever. */
function hasRoom(engines: EngineColumns, engine: number, needBlocks: number, reserve: number): boolean {
  const used = engines.activeBlocks[engine]!;
  return used === 0 || engines.capacityBlocks[engine] === 0 || used + needBlocks <= engines.capacityBlocks[engine]! * (1 - reserve);
}

export function fillRequest(desk: FrontendDesk, state: FrontendState, slot: number): void {
  const { request } = desk;
  const { slots } = state;
  request.request = slots.request[slot]!;
  request.inputTokens = slots.inputTokens[slot]!;
  request.outputTokens = slots.outputTokens[slot]!;
  request.tenant = slots.tenant[slot]!;
  request.priority = slots.priority[slot]!;
  request.attempt = slots.attempts[slot]!;
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
    view.transferBytes = state.slots.inputTokens[slot]! * desk.settings.kvBytesPerToken;
    view.tierTransfers = state.tierTransfers;
    view.sourceTransfers = state.sourceTransfers.subarray(networkTiers * view.prefillEngine, networkTiers * (view.prefillEngine + 1));
    if (readsDecodeOverlap(desk.settings.decodeRouter)) readOverlap(desk, state, slot);
    if (desk.settings.oracle !== undefined && desk.settings.decodeRouter.policy.reads?.network === true) askOracle(desk, state);
  } else {
    view.stage = state.firstStageHasPrefill ? routerStage.prefill : routerStage.aggregated;
    view.prefillEngine = -1;
    view.transferBytes = 0;
    readOverlap(desk, state, slot);
  }
}

/** Leading blocks of the prompt that each engine holds, into the view; the most that any engine holds is `bestOverlap`'s to find. */
function readOverlap(desk: FrontendDesk, state: FrontendState, slot: number): void {
  const { overlap } = desk.settings;
  const chain = state.slots.bodies[slot]?.chain;
  if (overlap === undefined || chain === null || chain === undefined || chain.length === 0) return;
  overlap.overlap(state.overlap, chain, desk.overlap);
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
  network.tier.fill(-1);
  network.bytesPerSecond.fill(Number.NaN);
  network.latencyNs.fill(Number.NaN);
  network.transferNs.fill(Number.NaN);
  network.congestion.fill(Number.NaN);
  const question = {
    nowNs: view.nowNs,
    prefillEngine: view.prefillEngine,
    transferBytes: view.transferBytes,
    candidates: view.candidates,
    count: view.count,
    site: siteOf(settings.site, state.engines.count),
  };
  try {
    oracle.policy.answer(question, network, oracle.parameters, state.oracle, desk.random.oracle);
  } catch (thrown) {
    throw policyFailure(oracle, `about the KV transfer of request ${desk.request.request}`, thrownFault(thrown), thrown);
  }
  view.network = network;
}

/** Whether an engine that serves nothing now may come back by itself: one that drains, switches or starts. */
export function engineMayCome(state: FrontendState): boolean {
  const { status, count } = state.engines;
  for (let engine = 0; engine < count; engine++) {
    if (status[engine] !== engineStatus.active && status[engine] !== engineStatus.dead) return true;
  }
  return false;
}
