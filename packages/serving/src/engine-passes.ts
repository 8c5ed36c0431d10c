import { engineRole } from '@braess/protocol';
import type { BlockAccounting } from './blocks.js';
import { computedTokens, type EngineState, freeSlot, heldBlocks, slotState } from './engine-state.js';
import { addEvent, addStretch, type EngineEvents, engineEvent } from './events.js';

/** Moves the decode state over `passes` passes; blocks for the passes after the first were not taken yet, `withNext` includes the one now starting. */
export function applyPasses<Pool>(engine: EngineState<Pool>, blocks: BlockAccounting<Pool>, passes: number, withNext: boolean): void {
  const size = engine.rules.blockTokens;
  const starts = withNext ? passes : passes - 1;
  let need = Math.floor(starts / size) * engine.decodeCount;
  for (let ahead = 1; ahead <= starts % size; ahead++) need += engine.blockResidues[(engine.passCount + ahead) % size]!;
  if (need > 0) blocks.grow(engine.pool, need);
  engine.passCount += passes;
  engine.passes += passes;
  engine.passesDone += passes;
  engine.decodeTokens += passes * engine.decodeCount;
}

/** What the decoding requests show at the end of a pass: filled blocks and finishes, in running order. True when one finished. */
export function endDecodes<Pool>(engine: EngineState<Pool>, blocks: BlockAccounting<Pool>, nowNs: number, events: EngineEvents): boolean {
  const { requests: table, rules, passCount: pass } = engine;
  const size = rules.blockTokens;
  const filling = rules.blockEvents && engine.blockResidues[pass % size]! > 0;
  if (pass < engine.nextFinishPass && !filling && !rules.stepwise) return false;
  let kept = 0;
  let nextFinish = Number.POSITIVE_INFINITY;
  for (let i = 0; i < engine.runningCount; i++) {
    const slot = engine.running[i]!;
    if (table.state[slot] === slotState.decoding) {
      if (filling) {
        const tokens = table.contextBase[slot]! + pass;
        if (tokens % size === 0) addEvent(events, engineEvent.blockFilled, slot, table.id[slot]!, nowNs, tokens / size - 1);
      }
      const finishPass = table.finishPass[slot]!;
      if (finishPass === pass) {
        finish(engine, blocks, slot, nowNs, events);
        continue;
      }
      if (finishPass < nextFinish) nextFinish = finishPass;
    }
    engine.running[kept++] = slot;
  }
  const finished = kept < engine.runningCount;
  engine.runningCount = kept;
  engine.nextFinishPass = nextFinish;
  return finished;
}

function finish<Pool>(engine: EngineState<Pool>, blocks: BlockAccounting<Pool>, slot: number, nowNs: number, events: EngineEvents): void {
  const table = engine.requests;
  const held = heldBlocks(engine, slot);
  const tokens = computedTokens(engine, slot);
  if (table.state[slot] === slotState.decoding) leaveDecode(engine, slot);
  blocks.release(engine.pool, table.id[slot]!, held, tokens);
  table.generated[slot] = table.outputTokens[slot]!;
  const kind = table.cancelled[slot] === 0 ? engineEvent.finished : engineEvent.left;
  addEvent(events, kind, slot, table.id[slot]!, nowNs, table.outputTokens[slot]!);
  freeSlot(table, slot);
}

/** The end of a mixed pass: decodes first, then the chunks, of which those that end their prompt put out a token. */
export function endMixed<Pool>(engine: EngineState<Pool>, blocks: BlockAccounting<Pool>, events: EngineEvents): void {
  const nowNs = engine.mixedEndNs;
  const table = engine.requests;
  engine.passCount++;
  engine.passes++;
  engine.busyNs += nowNs - engine.anchorNs;
  engine.decodeTokens += engine.decodeCount;
  if (engine.mixedDecodes > 0) {
    mixedGap.c0Ns = nowNs - engine.anchorNs;
    addStretch(events, engine.mixedDecodes, 0, 1, engine.anchorNs, mixedGap);
  }
  endDecodes(engine, blocks, nowNs, events);
  let left = false;
  for (let i = 0; i < engine.chunkCount; i++) {
    const slot = engine.chunkSlots[i]!;
    table.computed[slot] = table.computed[slot]! + engine.chunkTokens[i]!;
    engine.prefillTokensDone += engine.chunkTokens[i]!;
    blocks.computed?.(engine.pool, table.id[slot]!, table.computed[slot]!);
    if (table.computed[slot] === table.targetTokens[slot]) left = endPrompt(engine, blocks, slot, nowNs, events) || left;
  }
  if (left) compactRunning(engine);
}

/** The ends of prompts that are computed independently of each other, those due by `nowNs`. */
export function endPrompts<Pool>(engine: EngineState<Pool>, blocks: BlockAccounting<Pool>, nowNs: number, events: EngineEvents): void {
  const table = engine.requests;
  let left = false;
  for (let i = 0; i < engine.runningCount; i++) {
    const slot = engine.running[i]!;
    if (table.promptEndNs[slot]! > nowNs) continue;
    engine.prefillTokensDone += table.targetTokens[slot]! - table.computed[slot]!;
    table.computed[slot] = table.targetTokens[slot]!;
    blocks.computed?.(engine.pool, table.id[slot]!, table.computed[slot]!);
    left = endPrompt(engine, blocks, slot, nowNs, events) || left;
  }
  if (left) compactRunning(engine);
}

/** One pass as a curve. */
const mixedGap = { c0Ns: 0, c1Ns: 0, c2Ns: 0, validPasses: 1 };

/** The token after a prompt. True when the request has left the running list. */
function endPrompt<Pool>(
  engine: EngineState<Pool>,
  blocks: BlockAccounting<Pool>,
  slot: number,
  nowNs: number,
  events: EngineEvents,
): boolean {
  const table = engine.requests;
  // It goes at this boundary, and nothing more is to be seen of it.
  if (table.cancelled[slot] === 1) return false;
  const id = table.id[slot]!;
  if (table.generated[slot]! > 0) addEvent(events, engineEvent.resumed, slot, id, nowNs, nowNs - table.lastTokenNs[slot]!);
  else
    addEvent(
      events,
      engine.role === engineRole.prefill ? engineEvent.prefillDone : engineEvent.firstToken,
      slot,
      id,
      nowNs,
      table.admittedNs[slot]!,
    );
  table.generated[slot] = table.generated[slot]! + 1;
  if (engine.role === engineRole.prefill) {
    table.state[slot] = slotState.held;
    engine.heldCount++;
    return true;
  }
  if (table.generated[slot] === table.outputTokens[slot]) {
    finish(engine, blocks, slot, nowNs, events);
    return true;
  }
  const size = engine.rules.blockTokens;
  const base = table.computed[slot]! - engine.passCount;
  table.state[slot] = slotState.decoding;
  table.contextBase[slot] = base;
  const finishPass = engine.passCount + table.outputTokens[slot]! - table.generated[slot]!;
  table.finishPass[slot] = finishPass;
  if (finishPass < engine.nextFinishPass) engine.nextFinishPass = finishPass;
  const residue = residueOf(base, size);
  engine.blockResidues[residue] = engine.blockResidues[residue]! + 1;
  engine.decodeCount++;
  engine.decodeTokens += table.computed[slot]!;
  return false;
}

/** Pass count, modulo the block size, at which base + pass count is a whole number of blocks. */
function residueOf(base: number, size: number): number {
  return (size - (((base % size) + size) % size)) % size;
}

export function leaveDecode<Pool>(engine: EngineState<Pool>, slot: number): void {
  const table = engine.requests;
  const tokens = computedTokens(engine, slot);
  const residue = residueOf(table.contextBase[slot]!, engine.rules.blockTokens);
  engine.blockResidues[residue] = engine.blockResidues[residue]! - 1;
  engine.decodeCount--;
  engine.decodeTokens -= tokens;
  table.computed[slot] = tokens;
  table.state[slot] = slotState.prefilling;
}

function compactRunning<Pool>(engine: EngineState<Pool>): void {
  let kept = 0;
  for (let i = 0; i < engine.runningCount; i++) {
    const slot = engine.running[i]!;
    const state = engine.requests.state[slot];
    if (state === slotState.prefilling || state === slotState.decoding) engine.running[kept++] = slot;
  }
  engine.runningCount = kept;
}

/** Running requests that were cancelled leave at the pass boundary. */
export function dropCancelled<Pool>(engine: EngineState<Pool>, blocks: BlockAccounting<Pool>, nowNs: number, events: EngineEvents): void {
  const table = engine.requests;
  for (let i = 0; i < engine.runningCount; i++) {
    const slot = engine.running[i]!;
    if (table.cancelled[slot] === 0) continue;
    const held = heldBlocks(engine, slot);
    const tokens = computedTokens(engine, slot);
    if (table.state[slot] === slotState.decoding) leaveDecode(engine, slot);
    blocks.release(engine.pool, table.id[slot]!, held, tokens);
    addEvent(events, engineEvent.left, slot, table.id[slot]!, nowNs, 0);
    freeSlot(table, slot);
  }
  engine.cancelCount = 0;
  compactRunning(engine);
}
