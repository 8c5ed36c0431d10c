import { engineRole, engineStatus } from '@braess/protocol';
import type { BlockAccounting } from './blocks.js';
import { applyPasses, endDecodes, endMixed } from './engine-passes.js';
import { closeStretch, schedule } from './engine-scheduler.js';
import { type EngineRules, type EngineState, freeSlot, heldBlocks, liveRequests, passKind, slotState, takeSlot } from './engine-state.js';
import { addEvent, type EngineEvents, engineEvent } from './events.js';
import { passProgress } from './pass-progress.js';
import { emptyLevels, enqueue, nextOf, withdraw } from './slot-queue.js';
import { elapsedNs, passesWithin } from './timing.js';

/** Why a request was not taken; all below zero, so that `submit` can return a slot or one of these. */
export const submitRefusal = { notActive: -1, queueFull: -2, promptTooLong: -3, exceedsKvMemory: -4, badLength: -5 } as const;

/** A request as an engine sees it. */
export interface EngineRequest {
  id: number;
  promptTokens: number;
  /** Output tokens it will have; a prefill engine stops after the first. */
  outputTokens: number;
  /** Larger is more urgent; counts only where the engine goes by priority (default 0). */
  priority?: number;
  /** The KV of the prompt comes by transfer: reserve first, run after `transferDone`. */
  transferred: boolean;
}

/**
 * Queues a request; it joins at the next pass boundary, at once when the engine is idle. Returns its slot, or a {@link submitRefusal}.
 * As for all calls from outside, `advance` to `nowNs` must come first when `nextEventNs` is due.
 */
export function submit<Pool>(engine: EngineState<Pool>, blocks: BlockAccounting<Pool>, request: EngineRequest, nowNs: number): number {
  const { rules, requests: table } = engine;
  if (engine.status !== engineStatus.active) return submitRefusal.notActive;
  if (engine.waiting.count >= rules.maxWaiting) return submitRefusal.queueFull;
  const refusal = lengthRefusal(rules, engine.role === engineRole.prefill, request.promptTokens, request.outputTokens);
  if (refusal !== 0) return refusal;
  const outputTokens = Math.min(request.outputTokens, rules.maxModelTokens - request.promptTokens);
  settle(engine, blocks, nowNs);
  const slot = takeSlot(table);
  table.state[slot] = slotState.waiting;
  table.transferred[slot] = request.transferred ? 1 : 0;
  table.id[slot] = request.id;
  table.priority[slot] = rules.byPriority === true ? (request.priority ?? 0) : 0;
  table.promptTokens[slot] = request.promptTokens;
  table.targetTokens[slot] = request.promptTokens;
  table.outputTokens[slot] = outputTokens;
  table.submitNs[slot] = nowNs;
  enqueue(engine.waiting, table.priority[slot]!, slot);
  // Behind others it waits for what they wait for, and they were looked at when that could change.
  if (nextOf(engine.waiting) === slot) lookAtBoundary(engine, nowNs);
  return slot;
}

/**
 * Whether an engine of these rules, idle, has room for a request of these lengths: 0, or the {@link submitRefusal}. Answers are cut at the model's length, and
 * the KV of the last output token is never computed.
 */
export function lengthRefusal(
  rules: Pick<EngineRules, 'maxModelTokens' | 'blockTokens' | 'capacityBlocks'>,
  isPrefill: boolean,
  promptTokens: number,
  outputTokens: number,
): number {
  if (!(Number.isSafeInteger(promptTokens) && promptTokens >= 1 && Number.isSafeInteger(outputTokens) && outputTokens >= 1))
    return submitRefusal.badLength;
  if (promptTokens >= rules.maxModelTokens) return submitRefusal.promptTooLong;
  const kvTokens = promptTokens + (isPrefill ? 1 : Math.min(outputTokens, rules.maxModelTokens - promptTokens)) - 1;
  return Math.ceil(kvTokens / rules.blockTokens) > rules.capacityBlocks ? submitRefusal.exceedsKvMemory : 0;
}

/** The next time the engine must be advanced: nothing is to be seen from outside before it. Infinite when idle. */
export function nextEventNs<Pool>(engine: EngineState<Pool>): number {
  if (engine.passKind === passKind.stretch) return engine.anchorNs + elapsedNs(engine.curve, engine.passesLimit);
  if (engine.passKind === passKind.mixed) return engine.mixedEndNs;
  return engine.wakeNs;
}

/**
 * The earliest time at which anything can be seen, whatever the engine receives until then: what comes joins at a pass boundary, so it is the
 * end of the pass in progress. `nowNs` itself when idle. For promises of silence.
 */
export function quietUntilNs<Pool>(engine: EngineState<Pool>, nowNs: number): number {
  if (engine.passKind === passKind.none) return Math.min(engine.wakeNs, nowNs);
  if (engine.passKind === passKind.mixed) return engine.mixedEndNs;
  const done = passesWithin(engine.curve, nowNs - engine.anchorNs, engine.passesDone, engine.passesLimit - 1);
  return engine.anchorNs + elapsedNs(engine.curve, done + 1);
}

/** Runs the engine up to and including `nowNs` and appends what is to be seen, at its true times. */
export function advance<Pool>(engine: EngineState<Pool>, blocks: BlockAccounting<Pool>, nowNs: number, events: EngineEvents): void {
  for (;;) {
    const dueNs = nextEventNs(engine);
    if (!(dueNs <= nowNs)) return;
    if (engine.passKind === passKind.stretch) {
      applyPasses(engine, blocks, engine.passesLimit - engine.passesDone, false);
      const finished = endDecodes(engine, blocks, dueNs, events);
      schedule(engine, blocks, dueNs, finished, events);
    } else if (engine.passKind === passKind.mixed) {
      endMixed(engine, blocks, events);
      schedule(engine, blocks, dueNs, true, events);
    } else {
      engine.wakeNs = Number.POSITIVE_INFINITY;
      wake(engine, blocks, dueNs, events);
    }
    if (engine.status === engineStatus.draining) endDrain(engine, dueNs);
  }
}

/**
 * The KV of a reserved request has arrived: of its first `presentTokens` tokens, by default of all but the last, which is computed here as it
 * samples the first output token (as vLLM does for remote KV). It joins at the next pass boundary.
 */
export function transferDone<Pool>(
  engine: EngineState<Pool>,
  blocks: BlockAccounting<Pool>,
  slot: number,
  nowNs: number,
  presentTokens = Number.POSITIVE_INFINITY,
): void {
  const table = engine.requests;
  expectState(engine, slot, slotState.reserved, 'transferDone');
  settle(engine, blocks, nowNs);
  table.state[slot] = slotState.ready;
  table.computed[slot] = Math.min(presentTokens, table.targetTokens[slot]! - 1);
  enqueue(engine.ready, table.priority[slot]!, slot);
  lookAtBoundary(engine, nowNs);
}

/** Ends the hold on a prefilled request: the transfer is over (or given up), its blocks are free. */
export function releaseHeld<Pool>(engine: EngineState<Pool>, blocks: BlockAccounting<Pool>, slot: number, nowNs: number): void {
  expectState(engine, slot, slotState.held, 'releaseHeld');
  settle(engine, blocks, nowNs);
  giveBack(engine, blocks, slot);
  blocksFreed(engine, nowNs);
}

/** Tells the engine that blocks became available by other hands than its own. */
export function blocksFreed<Pool>(engine: EngineState<Pool>, nowNs: number): void {
  if (engine.waiting.count > 0 || engine.status === engineStatus.draining) lookAtBoundary(engine, nowNs);
}

/** Takes a request out, in whatever state: at once, or at the next pass boundary with the event `left` when it runs. True when it is out. */
export function cancel<Pool>(engine: EngineState<Pool>, blocks: BlockAccounting<Pool>, slot: number, nowNs: number): boolean {
  const table = engine.requests;
  const state = table.state[slot];
  if (state === slotState.free || state === undefined) throw new Error(`engine: cancel of slot ${slot}, which holds no request`);
  settle(engine, blocks, nowNs);
  const running = state === slotState.prefilling || state === slotState.decoding;
  if (running) {
    if (table.cancelled[slot] === 0) engine.cancelCount++;
    table.cancelled[slot] = 1;
  } else {
    if (state === slotState.waiting) withdraw(engine.waiting, table.priority[slot]!, slot);
    if (state === slotState.ready) withdraw(engine.ready, table.priority[slot]!, slot);
    giveBack(engine, blocks, slot);
  }
  lookAtBoundary(engine, nowNs);
  return !running;
}

/** Sets the speed of the slowest GPU of the group (1 = nominal, 0.5 = half); holds from the next pass boundary. */
export function setSpeedFactor<Pool>(engine: EngineState<Pool>, blocks: BlockAccounting<Pool>, factor: number, nowNs: number): void {
  if (!(factor > 0 && factor <= 100))
    throw new Error(`engine: speed factor is ${factor}; must be above 0 and at most 100 (stop a GPU with killEngine)`);
  settle(engine, blocks, nowNs);
  engine.nextSpeedFactor = factor;
  lookAtBoundary(engine, nowNs);
}

/** Drains the engine (refusing new requests), then takes `changeNs` (5 s by default) and is ready in the new role. */
export function changeRole<Pool>(
  engine: EngineState<Pool>,
  blocks: BlockAccounting<Pool>,
  role: number,
  nowNs: number,
  changeNs = 5e9,
): void {
  if (engine.status !== engineStatus.active)
    throw new Error(`engine: role change while its status is ${engine.status}; only an active engine can change its role`);
  settle(engine, blocks, nowNs);
  engine.nextRole = role;
  engine.roleChangeNs = changeNs;
  engine.status = engineStatus.draining;
  lookAtBoundary(engine, nowNs);
}

/** Drains the engine (refusing new requests); it is off then, until a start. */
export function stopEngine<Pool>(engine: EngineState<Pool>, blocks: BlockAccounting<Pool>, nowNs: number): void {
  if (engine.status !== engineStatus.active)
    throw new Error(`engine: stop while its status is ${engine.status}; only an active engine can be stopped`);
  settle(engine, blocks, nowNs);
  engine.stopping = true;
  engine.status = engineStatus.draining;
  lookAtBoundary(engine, nowNs);
}

// Reused; never state.
const progress = { ns: 0, share: 0, tokens: 0 };

/** A GPU of the group died: the pass stops, every request in the engine is lost. */
export function killEngine<Pool>(engine: EngineState<Pool>, blocks: BlockAccounting<Pool>, nowNs: number, events: EngineEvents): void {
  settle(engine, blocks, nowNs);
  closeStretch(engine, events);
  passProgress(engine, nowNs, progress);
  engine.cutShortNs += progress.ns;
  engine.promptsSinceNs = -1;
  const table = engine.requests;
  // Blocks of the pass in progress were taken at its start.
  const inPass = engine.passKind !== passKind.none;
  for (let slot = 0; slot < table.used; slot++) {
    const state = table.state[slot]!;
    if (state === slotState.free) continue;
    addEvent(events, engineEvent.failed, slot, table.id[slot]!, nowNs, state);
    giveBack(engine, blocks, slot, inPass);
  }
  emptyLevels(engine.waiting);
  emptyLevels(engine.ready);
  engine.runningCount = 0;
  engine.decodeCount = 0;
  engine.decodeTokens = 0;
  engine.blockResidues.fill(0);
  engine.cancelCount = 0;
  engine.nextFinishPass = Number.POSITIVE_INFINITY;
  engine.chunkCount = 0;
  engine.passKind = passKind.none;
  engine.wakeNs = Number.POSITIVE_INFINITY;
  // One that was on its way out does not come back with its GPU.
  engine.status = engine.stopping ? engineStatus.off : engineStatus.dead;
  engine.stopping = false;
}

/** Most blocks that decodes may take before the engine's next event. */
export function growthAhead<Pool>(engine: EngineState<Pool>): number {
  if (engine.passKind !== passKind.stretch) return 0;
  return Math.ceil((engine.passesLimit - engine.passesDone) / engine.rules.blockTokens) * engine.decodeCount;
}

/** Brings the counts of a lazy engine (tokens, blocks in use) up to `nowNs`, as a report needs them. */
export function settleEngine<Pool>(engine: EngineState<Pool>, blocks: BlockAccounting<Pool>, nowNs: number): void {
  settle(engine, blocks, nowNs);
}

/** Reports the gaps of the passes that are over although their stretch goes on, as at the end of a reporting period. */
export function reportGaps<Pool>(engine: EngineState<Pool>, blocks: BlockAccounting<Pool>, nowNs: number, events: EngineEvents): void {
  settle(engine, blocks, nowNs);
  closeStretch(engine, events);
}

/** Starts an engine that is dead or off in a role; it is ready after `startNs` (60 s by default: loading weights, capturing graphs). */
export function startEngine<Pool>(engine: EngineState<Pool>, role: number, nowNs: number, startNs = 60e9): void {
  if (liveRequests(engine.requests) > 0)
    throw new Error(`engine: start with ${liveRequests(engine.requests)} requests in it; drain or kill it first`);
  engine.status = engineStatus.starting;
  engine.nextRole = role;
  engine.statusUntilNs = nowNs + startNs;
  engine.wakeNs = engine.statusUntilNs;
}

function wake<Pool>(engine: EngineState<Pool>, blocks: BlockAccounting<Pool>, nowNs: number, events: EngineEvents): void {
  if (engine.status === engineStatus.switching || engine.status === engineStatus.starting) {
    if (nowNs < engine.statusUntilNs) {
      engine.wakeNs = engine.statusUntilNs;
      return;
    }
    engine.status = engineStatus.active;
    engine.role = engine.nextRole;
    addEvent(events, engineEvent.ready, -1, -1, nowNs, engine.role);
  }
  schedule(engine, blocks, nowNs, true, events);
}

function endDrain<Pool>(engine: EngineState<Pool>, nowNs: number): void {
  if (liveRequests(engine.requests) > 0) return;
  if (engine.stopping) {
    engine.stopping = false;
    engine.status = engineStatus.off;
    return;
  }
  engine.status = engineStatus.switching;
  engine.statusUntilNs = nowNs + engine.roleChangeNs;
  engine.wakeNs = engine.statusUntilNs;
}

/** Brings a stretch up to the passes that are over; nothing of them is to be seen from outside. */
function settle<Pool>(engine: EngineState<Pool>, blocks: BlockAccounting<Pool>, nowNs: number): void {
  if (engine.passKind === passKind.none) return;
  if (nextEventNs(engine) <= nowNs) {
    throw new Error(`engine: called at ${nowNs} ns with an event due at ${nextEventNs(engine)} ns; call advance first`);
  }
  if (engine.passKind !== passKind.stretch || engine.passesLimit === engine.passesDone + 1) return;
  const done = passesWithin(engine.curve, nowNs - engine.anchorNs, engine.passesDone, engine.passesLimit - 1);
  if (done > engine.passesDone) applyPasses(engine, blocks, done - engine.passesDone, true);
}

/** Makes the scheduler look at the next pass boundary, or now when no pass is in progress. */
function lookAtBoundary<Pool>(engine: EngineState<Pool>, nowNs: number): void {
  if (engine.passKind === passKind.stretch) engine.passesLimit = engine.passesDone + 1;
  else if (engine.passKind === passKind.none && nowNs < engine.wakeNs) engine.wakeNs = nowNs;
}

function giveBack<Pool>(engine: EngineState<Pool>, blocks: BlockAccounting<Pool>, slot: number, inPass = false): void {
  const table = engine.requests;
  const decoding = table.state[slot] === slotState.decoding;
  const tokens = decoding ? table.contextBase[slot]! + engine.passCount : table.computed[slot]!;
  const held = decoding && inPass ? Math.ceil((tokens + 1) / engine.rules.blockTokens) : heldBlocks(engine, slot);
  if (held > 0) blocks.release(engine.pool, table.id[slot]!, held, tokens);
  if (table.state[slot] === slotState.held) engine.heldCount--;
  freeSlot(table, slot);
}

function expectState<Pool>(engine: EngineState<Pool>, slot: number, state: number, call: string): void {
  const found = engine.requests.state[slot];
  if (found !== state) throw new Error(`engine: ${call} of slot ${slot} in state ${found}; it must be in state ${state}`);
}
