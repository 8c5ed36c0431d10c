import { engineRole } from '@braess/protocol';
import { type BlockAccounting, blocksRefused, quietGrowth } from './blocks.js';
import { dropCancelled, endPrompts, leaveDecode } from './engine-passes.js';
import {
  computedTokens,
  type EngineState,
  generatedTokens,
  heldBlocks,
  passKind,
  slotState,
  widenChunks,
  widenRunning,
} from './engine-state.js';
import { addEvent, addStretch, type EngineEvents, engineEvent } from './events.js';
import { dequeue, enqueueFirst, nextOf } from './slot-queue.js';
import { createPassShape, decodeCurve, elapsedNs, mixedPassNs, type PassShape } from './timing.js';

/**
 * The scheduler looks at the end of a pass (or when an idle engine wakes): grow or preempt the running requests, then spend the rest of the
 * token budget on the prompt in progress, on requests whose KV has arrived, and on waiting ones, first come first served or by priority. `changed` says that
 * the batch already differs from that of the last pass.
 */
export function schedule<Pool>(
  engine: EngineState<Pool>,
  blocks: BlockAccounting<Pool>,
  nowNs: number,
  changed: boolean,
  events: EngineEvents,
): void {
  let differs = changed;
  if (engine.nextSpeedFactor !== engine.speedFactor) {
    engine.speedFactor = engine.nextSpeedFactor;
    differs = true;
  }
  if (engine.cancelCount > 0) {
    dropCancelled(engine, blocks, nowNs, events);
    differs = true;
  }
  if (engine.rules.independentPrompts === true && engine.role === engineRole.prefill) {
    scheduleIndependent(engine, blocks, nowNs, events);
    return;
  }
  const preempted = growRunning(engine, blocks, nowNs, events);
  if (preempted) differs = true;
  planChunks(engine, blocks, nowNs, !preempted, events);
  if (engine.chunkCount > 0) {
    closeStretch(engine, events);
    startMixed(engine, nowNs);
  } else if (engine.decodeCount > 0 && engine.seenBatches.length > 0 && engine.seenBatches[engine.decodeCount] === 0) {
    // One pass by itself: the curve of a stretch has no place for a longer first one.
    closeStretch(engine, events);
    startMixed(engine, nowNs);
  } else if (engine.decodeCount > 0) {
    startStretch(engine, blocks, nowNs, differs, preempted, events);
  } else {
    closeStretch(engine, events);
    engine.passKind = passKind.none;
    // A request preempted by its own growth must be looked at again; nothing else would wake the engine.
    if (preempted) engine.wakeNs = nowNs;
  }
}

/** Ends the prompts whose time is over, begins those that wait while there is memory, and wakes when the next one ends. */
function scheduleIndependent<Pool>(engine: EngineState<Pool>, blocks: BlockAccounting<Pool>, nowNs: number, events: EngineEvents): void {
  const table = engine.requests;
  endPrompts(engine, blocks, nowNs, events);
  const begun = engine.runningCount;
  engine.chunkCount = 0;
  admitReady(engine, nowNs, Number.POSITIVE_INFINITY, events);
  admitWaiting(engine, blocks, nowNs, Number.POSITIVE_INFINITY, events);
  for (let i = begun; i < engine.runningCount; i++) {
    const slot = engine.running[i]!;
    shape.decodeSequences = 0;
    shape.decodeContextTokens = 0;
    const before = table.computed[slot]!;
    setPrompts(1, table.targetTokens[slot]! - before, before, 1);
    const ns = mixedPassNs(engine.timing, shape, engine.speedFactor);
    engine.busyNs += ns;
    engine.repeatedNs += ns;
    table.promptEndNs[slot] = nowNs + ns;
  }
  engine.chunkCount = 0;
  if (engine.runningCount > 0 && engine.promptsSinceNs < 0) engine.promptsSinceNs = nowNs;
  if (engine.runningCount === 0 && engine.promptsSinceNs >= 0) {
    engine.repeatedNs -= nowNs - engine.promptsSinceNs;
    engine.promptsSinceNs = -1;
  }
  for (let i = 0; i < engine.runningCount; i++) engine.wakeNs = Math.min(engine.wakeNs, table.promptEndNs[engine.running[i]!]!);
}

function setPrompts(sequences: number, tokens: number, before: number, sampled: number): void {
  shape.prefillSequences = sequences;
  shape.prefillTokens = tokens;
  shape.prefillPairs = tokens * (before + (tokens + 1) / 2);
  shape.prefillContextTokens = sequences === 0 ? 0 : before + tokens;
  shape.prefillSampled = sampled;
}

/** Reports the gaps of the passes since the last report. */
export function closeStretch<Pool>(engine: EngineState<Pool>, events: EngineEvents): void {
  if (engine.passKind === passKind.stretch && engine.passesDone > engine.reportedPasses) {
    addStretch(events, engine.mixedDecodes, engine.reportedPasses, engine.passesDone, engine.anchorNs, engine.curve);
    engine.busyNs += elapsedNs(engine.curve, engine.passesDone) - elapsedNs(engine.curve, engine.reportedPasses);
    engine.reportedPasses = engine.passesDone;
  }
}

/** Gives each decoding request the block its next token may need; another is preempted while there is none. True when one was. */
function growRunning<Pool>(engine: EngineState<Pool>, blocks: BlockAccounting<Pool>, nowNs: number, events: EngineEvents): boolean {
  const size = engine.rules.blockTokens;
  if (!engine.rules.stepwise) {
    const need = engine.blockResidues[engine.passCount % size]!;
    if (need === 0) return false;
    if (need <= blocks.available(engine.pool)) {
      blocks.grow(engine.pool, need);
      return false;
    }
  }
  let preempted = false;
  for (let i = 0; i < engine.runningCount; i++) {
    if (!needsBlock(engine, i)) continue;
    let gone = false;
    while (!gone && blocks.available(engine.pool) < 1) {
      const place = victimPlace(engine);
      preempt(engine, blocks, place, place < i, nowNs, events);
      preempted = true;
      gone = place === i;
      // Those behind it have moved up.
      if (place <= i) i--;
    }
    if (!gone) blocks.grow(engine.pool, 1);
  }
  return preempted;
}

/** Whether the running request at a place has filled its blocks. */
function needsBlock<Pool>(engine: EngineState<Pool>, place: number): boolean {
  const slot = engine.running[place]!;
  return engine.requests.state[slot] === slotState.decoding && computedTokens(engine, slot) % engine.rules.blockTokens === 0;
}

/** Place of the running request to preempt: the last in, or the last in of the least priority. */
function victimPlace<Pool>(engine: EngineState<Pool>): number {
  let victim = engine.runningCount - 1;
  if (engine.rules.byPriority !== true) return victim;
  const { priority } = engine.requests;
  for (let place = victim - 1; place >= 0; place--)
    if (priority[engine.running[place]!]! < priority[engine.running[victim]!]!) victim = place;
  return victim;
}

/** Its KV is dropped and recomputed when it is admitted again, ahead of all that wait with its priority. */
function preempt<Pool>(
  engine: EngineState<Pool>,
  blocks: BlockAccounting<Pool>,
  place: number,
  looked: boolean,
  nowNs: number,
  events: EngineEvents,
): void {
  const table = engine.requests;
  const slot = engine.running[place]!;
  // One that was looked at before has its next block already.
  const held = heldBlocks(engine, slot) + (looked && needsBlock(engine, place) ? 1 : 0);
  const tokens = computedTokens(engine, slot);
  engine.running.copyWithin(place, place + 1, engine.runningCount--);
  if (table.state[slot] === slotState.decoding) {
    table.generated[slot] = generatedTokens(engine, slot);
    table.lastTokenNs[slot] = nowNs;
    leaveDecode(engine, slot);
  }
  blocks.release(engine.pool, table.id[slot]!, held, tokens);
  table.targetTokens[slot] = table.promptTokens[slot]! + table.generated[slot]!;
  table.computed[slot] = 0;
  table.state[slot] = slotState.waiting;
  table.transferred[slot] = 0;
  table.preemptions[slot] = table.preemptions[slot]! + 1;
  engine.preemptionCount++;
  enqueueFirst(engine.waiting, table.priority[slot]!, slot);
  addEvent(events, engineEvent.preempted, slot, table.id[slot]!, nowNs, table.generated[slot]!);
}

function planChunks<Pool>(
  engine: EngineState<Pool>,
  blocks: BlockAccounting<Pool>,
  nowNs: number,
  admitting: boolean,
  events: EngineEvents,
): void {
  engine.chunkCount = 0;
  let budget = goOnWithPrompts(engine, engine.rules.maxBatchedTokens - engine.decodeCount);
  if (!admitting) return;
  budget = admitReady(engine, nowNs, budget, events);
  admitWaiting(engine, blocks, nowNs, budget, events);
}

/** Prompts in progress, the first first. Returns what is left of the budget. */
function goOnWithPrompts<Pool>(engine: EngineState<Pool>, budgetTokens: number): number {
  let budget = budgetTokens;
  // Where one takes all of the budget, only the last running request can be in progress: another is admitted only while budget is left.
  const begin = engine.rules.maxChunkTokens === undefined ? Math.max(0, engine.runningCount - 1) : 0;
  for (let i = begin; i < engine.runningCount; i++) {
    const slot = engine.running[i]!;
    if (engine.requests.state[slot] === slotState.prefilling) budget -= addChunk(engine, slot, budget);
  }
  return budget;
}

/** Those whose KV has come from elsewhere. Returns what is left of the budget. */
function admitReady<Pool>(engine: EngineState<Pool>, nowNs: number, budgetTokens: number, events: EngineEvents): number {
  let budget = budgetTokens;
  while (engine.ready.count > 0 && engine.runningCount < engine.rules.maxSequences && budget > 0) {
    const slot = dequeue(engine.ready);
    startRunning(engine, slot, nowNs, events);
    budget -= addChunk(engine, slot, budget);
  }
  return budget;
}

function admitWaiting<Pool>(
  engine: EngineState<Pool>,
  blocks: BlockAccounting<Pool>,
  nowNs: number,
  budgetTokens: number,
  events: EngineEvents,
): void {
  const table = engine.requests;
  const size = engine.rules.blockTokens;
  let budget = budgetTokens;
  while (engine.waiting.count > 0) {
    const slot = nextOf(engine.waiting);
    const transfer = table.transferred[slot] === 1;
    const taken = engine.runningCount + (engine.rules.holdsSlots === true ? engine.heldCount : 0);
    if (!transfer && (budget <= 0 || taken >= engine.rules.maxSequences)) return;
    const target = table.targetTokens[slot]!;
    const found = blocks.admit(engine.pool, table.id[slot]!, target);
    if (found === blocksRefused) return;
    dequeue(engine.waiting);
    // The last token is always computed, for it samples the next one; credit comes in whole blocks.
    const credit = Math.floor(Math.min(found, target - 1) / size) * size;
    table.computed[slot] = credit;
    if (table.admittedNs[slot]! < 0) {
      table.admittedNs[slot] = nowNs;
      table.cachedTokens[slot] = credit;
    }
    if (transfer) {
      table.state[slot] = slotState.reserved;
      addEvent(events, engineEvent.reserved, slot, table.id[slot]!, nowNs, credit);
    } else {
      startRunning(engine, slot, nowNs, events);
      budget -= addChunk(engine, slot, budget);
    }
  }
}

function startRunning<Pool>(engine: EngineState<Pool>, slot: number, nowNs: number, events: EngineEvents): void {
  const table = engine.requests;
  table.state[slot] = slotState.prefilling;
  if (engine.runningCount === engine.running.length) widenRunning(engine);
  engine.running[engine.runningCount++] = slot;
  // Not at admission: blocks that come from a tier are waited for in between.
  if (engine.rules.tellsBegin === true && engine.role === engineRole.prefill && table.preemptions[slot] === 0)
    addEvent(events, engineEvent.begun, slot, table.id[slot]!, nowNs, 0);
}

function addChunk<Pool>(engine: EngineState<Pool>, slot: number, budget: number): number {
  const { maxChunkTokens = budget } = engine.rules;
  const tokens = Math.min(budget, maxChunkTokens, engine.requests.targetTokens[slot]! - engine.requests.computed[slot]!);
  if (tokens <= 0) return 0;
  if (engine.chunkCount === engine.chunkSlots.length) widenChunks(engine);
  engine.chunkSlots[engine.chunkCount] = slot;
  engine.chunkTokens[engine.chunkCount++] = tokens;
  return tokens;
}

/** Reused for each mixed pass; never state. */
const shape: PassShape = createPassShape();

function startMixed<Pool>(engine: EngineState<Pool>, nowNs: number): void {
  const table = engine.requests;
  shape.decodeSequences = engine.decodeCount;
  shape.decodeContextTokens = engine.decodeTokens + engine.decodeCount;
  setPrompts(0, 0, 0, 0);
  for (let i = 0; i < engine.chunkCount; i++) {
    const slot = engine.chunkSlots[i]!;
    const tokens = engine.chunkTokens[i]!;
    const before = table.computed[slot]!;
    if (tokens === 1 && before > 0) {
      // One token on a context, as after a transfer, is a decode to the GPU.
      shape.decodeSequences++;
      shape.decodeContextTokens += before + 1;
      continue;
    }
    shape.prefillSequences++;
    shape.prefillTokens += tokens;
    shape.prefillPairs += tokens * (before + (tokens + 1) / 2);
    shape.prefillContextTokens += before + tokens;
    if (before + tokens === table.targetTokens[slot]!) shape.prefillSampled++;
  }
  const stallNs = isNewBatch(engine, shape.decodeSequences + shape.prefillSequences) ? engine.rules.newBatchStallNs! : 0;
  const ns = mixedPassNs(engine.timing, shape, engine.speedFactor);
  engine.passKind = passKind.mixed;
  engine.anchorNs = nowNs;
  engine.mixedDecodes = engine.decodeCount;
  engine.mixedEndNs = nowNs + ns + Math.round(stallNs / engine.speedFactor);
}

/** Whether a pass of this size is the first and so costs extra; notes it. */
function isNewBatch<Pool>(engine: EngineState<Pool>, sequences: number): boolean {
  if (engine.seenBatches.length === 0 || engine.seenBatches[sequences] === 1) return false;
  engine.seenBatches[sequences] = 1;
  return true;
}

function startStretch<Pool>(
  engine: EngineState<Pool>,
  blocks: BlockAccounting<Pool>,
  nowNs: number,
  changed: boolean,
  preempted: boolean,
  events: EngineEvents,
): void {
  if (changed || engine.passKind !== passKind.stretch || engine.passesDone === engine.curve.validPasses) {
    closeStretch(engine, events);
    engine.passKind = passKind.stretch;
    engine.anchorNs = nowNs;
    engine.passesDone = 0;
    engine.reportedPasses = 0;
    engine.mixedDecodes = engine.decodeCount;
    decodeCurve(engine.timing, engine.decodeCount, engine.decodeTokens + engine.decodeCount, engine.speedFactor, engine.curve);
  }
  // After a preemption nothing was admitted, so the next boundary must try.
  const retry = preempted && (engine.waiting.count > 0 || engine.ready.count > 0);
  const single = retry || engine.rules.stepwise || engine.rules.wakesEachPass === true;
  engine.passesLimit = engine.passesDone + (single ? 1 : stretchPasses(engine, blocks));
}

/** Passes until the scheduler has something to decide: a finish, a missing block, the end of the curve, a filled block that is reported. */
function stretchPasses<Pool>(engine: EngineState<Pool>, blocks: BlockAccounting<Pool>): number {
  const passes = Math.min(engine.nextFinishPass - engine.passCount, engine.curve.validPasses - engine.passesDone);
  const size = engine.rules.blockTokens;
  if (engine.rules.blockEvents) return Math.min(passes, passesToBlock(engine, passes));
  const { decodeCount, blockResidues, passCount } = engine;
  const most = Math.ceil(passes / size) * decodeCount;
  let free = blocksAhead(engine, blocks, most);
  if (free >= most) return passes;
  // Every `size` passes each request takes one.
  const rounds = Math.floor(free / decodeCount);
  free -= rounds * decodeCount;
  for (let ahead = rounds * size + 1; ahead < passes; ahead++) {
    free -= blockResidues[(passCount + ahead) % size]!;
    if (free < 0) return ahead;
  }
  return passes;
}

/** Blocks that growth can take before the scheduler has to look: at a preemption, or at an eviction that somebody hears of. Counted up to `limit`. */
function blocksAhead<Pool>(engine: EngineState<Pool>, blocks: BlockAccounting<Pool>, limit: number): number {
  const heard = engine.rules.exactEvictions;
  if (heard === undefined) return blocks.available(engine.pool);
  if (blocks.free === undefined)
    throw new Error('engine rules: exactEvictions needs block accounting that counts free blocks; give it `free`');
  return quietGrowth(blocks, engine.pool, heard, limit);
}

/** With block events, growth is decided at each of them, so no count ahead is needed: a block is needed exactly when one was filled. */
function passesToBlock<Pool>(engine: EngineState<Pool>, passes: number): number {
  const size = engine.rules.blockTokens;
  const end = Math.min(passes, size);
  for (let ahead = 1; ahead < end; ahead++) {
    if (engine.blockResidues[(engine.passCount + ahead) % size]! > 0) return ahead;
  }
  return end;
}
