import { updateCompletion } from './completion-heap.js';
import type { FlowAllocator } from './flow-state.js';
import { CAPPED, NEW_FLOW } from './flow-state.js';
import type { SolverScratch } from './solver-scratch.js';
import { prepareScratch } from './solver-scratch.js';

/**
 * Bottleneck-local water-filling. An allocation is the max-min fair one exactly when every flow has a bottleneck: a full link
 * on which no flow has a higher level, level = rate / weight (Bertsekas and Gallager, Data Networks, 6.5.2), or sits at its cap.
 * So after a change only the flows that lose their bottleneck need new rates. Start with those next to the change,
 * fill them with all others held still, add every held flow whose bottleneck is gone or that now has more than a flow it
 * shares a full link with, repeat until there is none. The set only grows, so this ends, at worst with the connected component.
 */
export function resolveRates(allocator: FlowAllocator): void {
  const scratch = prepareScratch(allocator);
  seed(allocator, scratch);
  let filledCount = 0;
  while (scratch.affectedCount > filledCount) {
    filledCount = scratch.affectedCount;
    allocator.fillCount++;
    fill(allocator, scratch);
    widen(allocator, scratch);
  }
  apply(allocator, scratch);
  for (let i = 0; i < allocator.dirtyCount; i++) allocator.linkDirty[allocator.dirtyLinks[i]!] = 0;
  allocator.dirtyCount = 0;
  allocator.newCount = 0;
  allocator.solveCount++;
  allocator.solvedFlowCount += scratch.affectedCount;
}

/** Less than this share of a link is rounding, not room. */
const ROUNDING = 1e-12;
/** A rate that moves less than this keeps its old course, so that rounding does not move completions. */
const UNCHANGED = 1e-12;

function seed(allocator: FlowAllocator, scratch: SolverScratch): void {
  for (let i = 0; i < allocator.newCount; i++) include(allocator, scratch, allocator.newSlots[i]!);
  for (let i = 0; i < allocator.dirtyCount; i++) {
    const link = allocator.dirtyLinks[i]!;
    const wholeLink = allocator.linkDirty[link] === 2;
    if (!wholeLink && allocator.linkBottleneckCount[link] === 0) continue;
    for (let entry = allocator.linkHead[link]!; entry !== -1; entry = allocator.nextEntry[entry]!) {
      const slot = entry >> allocator.hopShift;
      if (wholeLink || allocator.bottlenecks[slot] === link) include(allocator, scratch, slot);
    }
  }
}

/** Moves a flow from the held to the affected ones and gives its rate back to its links. */
function include(allocator: FlowAllocator, scratch: SolverScratch, slot: number): void {
  if (scratch.affectedStamp[slot] === scratch.epoch) return;
  scratch.affectedStamp[slot] = scratch.epoch;
  scratch.affected[scratch.affectedCount++] = slot;
  const before = allocator.bottlenecks[slot]!;
  if (before >= 0) allocator.linkBottleneckCount[before]!--;
  // A new flow counts as moved in its first filling whatever it gets.
  scratch.newRate[slot] = allocator.rates[slot]!;
  scratch.newLevel[slot] = allocator.levels[slot]!;
  scratch.newBottleneck[slot] = before;
  const rate = allocator.rates[slot]!;
  const weight = allocator.weights[slot]!;
  const start = slot << allocator.hopShift;
  const end = start + allocator.hops[slot]!;
  const { dominators, freeBytesPerSecond } = allocator;
  let openEnd = start;
  let ownLevel = allocator.capBytesPerSecond[slot]! / weight;
  let ownBottleneck = CAPPED;
  for (let entry = start; entry < end; entry++) {
    const link = allocator.pathLinks[entry]!;
    if (allocator.linkFlowCount[link] === 1) {
      // A link with no other flow on it is a cap by another name.
      const level = freeBytesPerSecond[link]! / weight;
      if (level < ownLevel) {
        ownLevel = level;
        ownBottleneck = link;
      }
      continue;
    }
    const dominator = dominators[link]!;
    if (dominator !== -1 && freeBytesPerSecond[dominator]! <= freeBytesPerSecond[link]!) continue;
    if (scratch.linkStamp[link] !== scratch.epoch) openLink(allocator, scratch, link);
    scratch.free[link]! += rate;
    scratch.weight[link]! += weight;
    scratch.count[link]!++;
    scratch.openPath[openEnd++] = link;
  }
  scratch.openEnd[slot] = openEnd;
  scratch.ownLevel[slot] = ownLevel;
  scratch.ownBottleneck[slot] = ownBottleneck;
}

function openLink(allocator: FlowAllocator, scratch: SolverScratch, link: number): void {
  const { hopShift, linkHead, nextEntry, rates } = allocator;
  scratch.linkStamp[link] = scratch.epoch;
  scratch.openLinks[scratch.openCount++] = link;
  let free = allocator.freeBytesPerSecond[link]!;
  for (let entry = linkHead[link]!; entry !== -1; entry = nextEntry[entry]!) free -= rates[entry >> hopShift]!;
  scratch.free[link] = free;
  scratch.weight[link] = 0;
  scratch.count[link] = 0;
}

/**
 * Fills the affected flows over what the held ones leave. The level at which a link would fill up only rises while other flows
 * are fixed, so every link that is the lowest one for all its flows can be settled at once, not only the lowest of all:
 * a few passes over the flows instead of one step a bottleneck.
 */
function fill(allocator: FlowAllocator, scratch: SolverScratch): void {
  startLinks(allocator, scratch);
  startFlows(allocator, scratch);
  while (scratch.unfixedFlows > 0) {
    levelLinks(scratch);
    findLowest(allocator, scratch);
    fixSettled(allocator, scratch);
  }
}

function startLinks(allocator: FlowAllocator, scratch: SolverScratch): void {
  const { freeBytesPerSecond, linkFlowCount } = allocator;
  const { openLinks, free, weight, count, residual, weightLeft, unfixedCount, filledLevel, activeLinks } = scratch;
  scratch.fillEpoch++;
  scratch.movedCount = 0;
  let active = 0;
  for (let i = 0; i < scratch.openCount; i++) {
    const link = openLinks[i]!;
    const whole = freeBytesPerSecond[link]!;
    const affected = count[link]!;
    residual[link] = affected === linkFlowCount[link] ? whole : free[link]! > whole * ROUNDING ? free[link]! : 0;
    filledLevel[link] = -1;
    if (affected === 1) continue;
    weightLeft[link] = weight[link]!;
    unfixedCount[link] = affected;
    activeLinks[active++] = link;
  }
  scratch.activeCount = active;
}

/** A link with one affected flow is a limit of its own for it: only links with several take part in the passes. */
function startFlows(allocator: FlowAllocator, scratch: SolverScratch): void {
  const { hopShift, weights } = allocator;
  const { affected, count, residual, openPath, openEnd, sharedPath, sharedEnd, ownLevel, ownBottleneck, fillLevel, fillBottleneck } =
    scratch;
  let unfixed = 0;
  for (let i = 0; i < scratch.affectedCount; i++) {
    const slot = affected[i]!;
    const start = slot << hopShift;
    const end = openEnd[slot]!;
    let level = ownLevel[slot]!;
    let bottleneck = ownBottleneck[slot]!;
    let shared = start;
    for (let entry = start; entry < end; entry++) {
      const link = openPath[entry]!;
      if (count[link]! > 1) {
        sharedPath[shared++] = link;
        continue;
      }
      const other = residual[link]! / weights[slot]!;
      if (other >= level) continue;
      level = other;
      bottleneck = link;
    }
    sharedEnd[slot] = shared;
    fillLevel[slot] = level;
    fillBottleneck[slot] = bottleneck;
    if (shared === start) fix(allocator, scratch, slot, level, bottleneck);
    else scratch.unfixed[unfixed++] = slot;
  }
  scratch.unfixedFlows = unfixed;
}

function levelLinks(scratch: SolverScratch): void {
  const { activeLinks, unfixedCount, residual, weightLeft, linkLevel, lowestFor } = scratch;
  let kept = 0;
  for (let i = 0; i < scratch.activeCount; i++) {
    const link = activeLinks[i]!;
    if (unfixedCount[link] === 0) continue;
    activeLinks[kept++] = link;
    linkLevel[link] = residual[link]! / weightLeft[link]!;
    lowestFor[link] = unfixedCount[link]!;
  }
  scratch.activeCount = kept;
}

/** Finds each flow's lowest level, and takes a vote from every link of it that lies higher. */
function findLowest(allocator: FlowAllocator, scratch: SolverScratch): void {
  const { hopShift } = allocator;
  const { unfixed, linkLevel, lowestFor, flowLevel, sharedPath, sharedEnd, fillLevel } = scratch;
  for (let i = 0; i < scratch.unfixedFlows; i++) {
    const slot = unfixed[i]!;
    const start = slot << hopShift;
    const end = sharedEnd[slot]!;
    let level = fillLevel[slot]!;
    for (let entry = start; entry < end; entry++) {
      const other = linkLevel[sharedPath[entry]!]!;
      if (other < level) level = other;
    }
    flowLevel[slot] = level;
    for (let entry = start; entry < end; entry++) {
      const link = sharedPath[entry]!;
      if (linkLevel[link]! > level) lowestFor[link]!--;
    }
  }
}

/** Fixes the flows at their own limit and those on a link that is the lowest for all its flows; keeps the rest. */
function fixSettled(allocator: FlowAllocator, scratch: SolverScratch): void {
  const { hopShift } = allocator;
  const { unfixed, linkLevel, lowestFor, flowLevel, settledAt, sharedPath, sharedEnd, fillLevel } = scratch;
  for (let i = 0; i < scratch.activeCount; i++) {
    const link = scratch.activeLinks[i]!;
    settledAt[link] = lowestFor[link] === scratch.unfixedCount[link] ? linkLevel[link]! : -1;
  }
  let kept = 0;
  for (let i = 0; i < scratch.unfixedFlows; i++) {
    const slot = unfixed[i]!;
    const level = flowLevel[slot]!;
    const end = sharedEnd[slot]!;
    let entry = slot << hopShift;
    while (entry < end && settledAt[sharedPath[entry]!] !== level) entry++;
    if (entry < end) fix(allocator, scratch, slot, level, sharedPath[entry]!);
    else if (level === fillLevel[slot]) fix(allocator, scratch, slot, level, scratch.fillBottleneck[slot]!);
    else unfixed[kept++] = slot;
  }
  scratch.unfixedFlows = kept;
}

function fix(allocator: FlowAllocator, scratch: SolverScratch, slot: number, level: number, bottleneck: number): void {
  const { residual, weightLeft, unfixedCount, fillEpoch, newRate, sharedPath, sharedEnd } = scratch;
  const weight = allocator.weights[slot]!;
  const rate = bottleneck === CAPPED ? allocator.capBytesPerSecond[slot]! : level * weight;
  const before = newRate[slot]!;
  const moved = scratch.newBottleneck[slot] !== bottleneck || Math.abs(rate - before) > before * UNCHANGED;
  scratch.fixedStamp[slot] = fillEpoch;
  newRate[slot] = rate;
  scratch.newLevel[slot] = level;
  scratch.newBottleneck[slot] = bottleneck;
  if (bottleneck >= 0) scratch.filledLevel[bottleneck] = level;
  const start = slot << allocator.hopShift;
  for (let entry = start, end = sharedEnd[slot]!; entry < end; entry++) {
    const link = sharedPath[entry]!;
    residual[link] = Math.max(residual[link]! - rate, 0);
    weightLeft[link]! -= weight;
    unfixedCount[link]!--;
  }
  if (moved) markMoved(scratch, start, scratch.openEnd[slot]!);
}

function markMoved(scratch: SolverScratch, start: number, end: number): void {
  const { movedStamp, movedLinks, fillEpoch, openPath } = scratch;
  for (let entry = start; entry < end; entry++) {
    const link = openPath[entry]!;
    if (movedStamp[link] === fillEpoch) continue;
    movedStamp[link] = fillEpoch;
    movedLinks[scratch.movedCount++] = link;
  }
}

/** Adds the held flows that the filling has robbed of their bottleneck, or that hold more than their due, where anything moved. */
function widen(allocator: FlowAllocator, scratch: SolverScratch): void {
  for (let i = 0; i < scratch.movedCount; i++) {
    const link = scratch.movedLinks[i]!;
    if (allocator.linkFlowCount[link] === scratch.count[link]) continue;
    if (allocator.linkBottleneckCount[link]! > 0 || scratch.filledLevel[link]! >= 0) widenAt(allocator, scratch, link);
  }
}

function widenAt(allocator: FlowAllocator, scratch: SolverScratch, link: number): void {
  const { hopShift, linkHead, nextEntry, rates, levels, bottlenecks, tolerance } = allocator;
  const { fixedStamp, fillEpoch } = scratch;
  const filledLevel = scratch.filledLevel[link]!;
  const due = filledLevel >= 0 ? filledLevel * (1 + tolerance) : Number.POSITIVE_INFINITY;
  let load = 0;
  let highest = 0;
  let concerned = false;
  for (let entry = linkHead[link]!; entry !== -1; entry = nextEntry[entry]!) {
    const slot = entry >> hopShift;
    if (fixedStamp[slot] === fillEpoch) {
      load += scratch.newRate[slot]!;
      if (scratch.newLevel[slot]! > highest) highest = scratch.newLevel[slot]!;
      continue;
    }
    const level = levels[slot]!;
    load += rates[slot]!;
    if (level > highest) highest = level;
    if (bottlenecks[slot] === link || level > due) concerned = true;
  }
  if (!concerned) return;
  const full = load >= allocator.freeBytesPerSecond[link]! * (1 - tolerance);
  for (let entry = linkHead[link]!; entry !== -1; entry = nextEntry[entry]!) {
    const slot = entry >> hopShift;
    if (fixedStamp[slot] === fillEpoch) continue;
    const level = levels[slot]!;
    const lostBottleneck = bottlenecks[slot] === link && (!full || level < highest * (1 - tolerance));
    if (lostBottleneck || level > due) include(allocator, scratch, slot);
  }
}

/** Gives the affected flows their new rates; bytes done so far are fixed at the present time. */
function apply(allocator: FlowAllocator, scratch: SolverScratch): void {
  const { nowNs, rates, levels, bottlenecks, linkBottleneckCount, anchorNs, doneBytes, sizeBytes } = allocator;
  for (let i = 0; i < scratch.affectedCount; i++) {
    const slot = scratch.affected[i]!;
    const rate = scratch.newRate[slot]!;
    const before = rates[slot]!;
    const isNew = bottlenecks[slot] === NEW_FLOW;
    const bottleneck = scratch.newBottleneck[slot]!;
    bottlenecks[slot] = bottleneck;
    if (bottleneck >= 0) linkBottleneckCount[bottleneck]!++;
    if (!isNew && Math.abs(rate - before) <= before * UNCHANGED) continue;
    const done = doneBytes[slot]! + (before * (nowNs - anchorNs[slot]!)) / 1e9;
    doneBytes[slot] = Math.min(done, sizeBytes[slot]!);
    anchorNs[slot] = nowNs;
    rates[slot] = rate;
    levels[slot] = scratch.newLevel[slot]!;
    updateCompletion(allocator, slot, completionAt(nowNs, sizeBytes[slot]! - doneBytes[slot]!, rate));
  }
}

function completionAt(nowNs: number, leftBytes: number, rate: number): number {
  if (leftBytes <= 0) return nowNs;
  if (rate === 0 || leftBytes === Number.POSITIVE_INFINITY) return Number.POSITIVE_INFINITY;
  // A millionth of a ns is rounding, not a further ns.
  return nowNs + Math.max(0, Math.ceil((leftBytes * 1e9) / rate - 1e-6));
}
