import { insertCompletion, removeCompletion, updateCompletion } from './completion-heap.js';
import { resolveRates } from './flow-solver.js';
import type { FlowAllocator } from './flow-state.js';
import { growSlots, NEW_FLOW, UNCONSTRAINED } from './flow-state.js';

/**
 * Flow fidelity: every flow has a rate, the weighted max-min fair one over the links of its path, changed whenever a flow
 * comes or goes or a link changes. Changes at one instant are collected and solved once, when time moves on or a completion
 * is asked for; a solve touches only the flows whose bottleneck moves (see flow-solver.ts).
 *
 * Time: every call takes the present in ns; it may not lie before the last call, nor beyond a completion that `advance` has not
 * handed out. One actor owns an allocator: it sets a timer at `nextCompletionNs` after each batch of calls.
 */

/**
 * Starts a flow of `sizeBytes` (whole; Infinity for an open-ended one) over `hopCount` links of `path` (distinct ids).
 * A flow without links and cap, or of size 0, completes at `nowNs`. Throws on a living flow id, a bad size, weight or cap,
 * an unknown link, a path over the hop limit, and beyond the flow limit. Returns the flow's slot.
 */
export function addFlow(
  allocator: FlowAllocator,
  nowNs: number,
  flowId: number,
  path: Int32Array,
  hopCount: number,
  sizeBytes: number,
  weight = 1,
  capBytesPerSecond: number = Number.POSITIVE_INFINITY,
): number {
  moveTo(allocator, nowNs);
  checkFlow(allocator, flowId, path, hopCount, sizeBytes, weight, capBytesPerSecond);
  const slot = takeSlot(allocator);
  allocator.slotOfFlow.set(flowId, slot);
  allocator.flowIds[slot] = flowId;
  allocator.weights[slot] = weight;
  allocator.capBytesPerSecond[slot] = capBytesPerSecond;
  allocator.sizeBytes[slot] = sizeBytes;
  allocator.doneBytes[slot] = 0;
  allocator.countedBytes[slot] = 0;
  allocator.sequence[slot] = allocator.nextSequence++;
  allocator.flowCount++;
  if (sizeBytes !== Number.POSITIVE_INFINITY) allocator.admittedBytes += sizeBytes;
  allocator.completionNs[slot] = attach(allocator, slot, path, hopCount);
  insertCompletion(allocator, slot);
  return slot;
}

/** Ends a flow before its completion. Returns the whole bytes it has moved. Throws when there is no such flow. */
export function removeFlow(allocator: FlowAllocator, nowNs: number, flowId: number): number {
  moveTo(allocator, nowNs);
  const slot = slotOf(allocator, flowId);
  countBytes(allocator, slot, doneAt(allocator, slot, nowNs));
  const movedBytes = allocator.countedBytes[slot]!;
  const sizeBytes = allocator.sizeBytes[slot]!;
  if (sizeBytes === Number.POSITIVE_INFINITY) allocator.admittedBytes += movedBytes;
  else allocator.abandonedBytes += sizeBytes - movedBytes;
  allocator.deliveredBytes += movedBytes;
  freeSlot(allocator, slot);
  return movedBytes;
}

/** Moves a living flow to another path; what it has moved stays moved. */
export function rerouteFlow(allocator: FlowAllocator, nowNs: number, flowId: number, path: Int32Array, hopCount: number): void {
  moveTo(allocator, nowNs);
  const slot = slotOf(allocator, flowId);
  checkPath(allocator, flowId, path, hopCount);
  const doneBytes = doneAt(allocator, slot, nowNs);
  countBytes(allocator, slot, doneBytes);
  detach(allocator, slot);
  allocator.doneBytes[slot] = doneBytes;
  updateCompletion(allocator, slot, attach(allocator, slot, path, hopCount));
}

/** Sets a link's capacity (0: dead; its flows stand still) and its constant background share (0..1). */
export function setLinkCapacity(
  allocator: FlowAllocator,
  nowNs: number,
  link: number,
  bytesPerSecond: number,
  backgroundShare = allocator.backgroundShare[link]!,
): void {
  moveTo(allocator, nowNs);
  if (!(link >= 0 && link < allocator.linkCount)) throw new Error(`link ${link} does not exist; ids are 0..${allocator.linkCount - 1}`);
  if (!(bytesPerSecond >= 0 && bytesPerSecond < Number.POSITIVE_INFINITY)) {
    throw new Error(`capacity of link ${link} is ${bytesPerSecond}; it must be finite and not negative`);
  }
  if (!(backgroundShare >= 0 && backgroundShare <= 1)) {
    throw new Error(`background share of link ${link} is ${backgroundShare}; it must lie in 0..1`);
  }
  integrateOffered(allocator, link, nowNs);
  allocator.linkBytesPerSecond[link] = bytesPerSecond;
  allocator.backgroundShare[link] = backgroundShare;
  allocator.freeBytesPerSecond[link] = bytesPerSecond * (1 - backgroundShare);
  markDirty(allocator, link, 2);
}

/** Time of the next completion, Infinity when nothing is going to complete. */
export function nextCompletionNs(allocator: FlowAllocator): number {
  settle(allocator);
  return allocator.heapSize === 0 ? Number.POSITIVE_INFINITY : allocator.completionNs[allocator.heap[0]!]!;
}

/**
 * Moves time to `nowNs` and completes what ends on the way, in order of (time, start). Returns their number; the ids and times
 * are in `completedFlowIds` and `completedAtNs` until the next call.
 */
export function advance(allocator: FlowAllocator, nowNs: number): number {
  if (!(nowNs >= allocator.nowNs)) throw new Error(`advance to ${nowNs} ns, but the allocator is at ${allocator.nowNs} ns already`);
  allocator.completedFlowIds.length = 0;
  allocator.completedAtNs.length = 0;
  for (;;) {
    const timeNs = nextCompletionNs(allocator);
    if (timeNs > nowNs) break;
    if (timeNs > allocator.nowNs) allocator.nowNs = timeNs;
    while (allocator.heapSize > 0 && allocator.completionNs[allocator.heap[0]!]! <= timeNs) complete(allocator, allocator.heap[0]!);
  }
  allocator.nowNs = nowNs;
  return allocator.completedFlowIds.length;
}

/** Present rate of a flow, bytes per second. Throws when there is no such flow. */
export function flowRate(allocator: FlowAllocator, flowId: number): number {
  const slot = slotOf(allocator, flowId);
  settle(allocator);
  return allocator.rates[slot]!;
}

/** Bytes a flow has moved by `nowNs` (whole). Reading changes nothing. */
export function flowMovedBytes(allocator: FlowAllocator, nowNs: number, flowId: number): number {
  settle(allocator);
  return Math.floor(doneAt(allocator, slotOf(allocator, flowId), nowNs));
}

/**
 * A time before which a flow cannot complete whatever other flows do, as long as no link grows: what is left at the speed of
 * the slowest link of its path. Good for a promise of silence.
 */
export function earliestCompletionNs(allocator: FlowAllocator, nowNs: number, flowId: number): number {
  settle(allocator);
  const slot = slotOf(allocator, flowId);
  let best = allocator.capBytesPerSecond[slot]!;
  const base = slot << allocator.hopShift;
  for (let hop = 0; hop < allocator.hops[slot]!; hop++) {
    const free = allocator.freeBytesPerSecond[allocator.pathLinks[base + hop]!]!;
    if (free < best) best = free;
  }
  const leftBytes = allocator.sizeBytes[slot]! - doneAt(allocator, slot, nowNs);
  if (leftBytes <= 0) return nowNs;
  // One ns less than the sum in case rounding of the rates runs ahead of exact arithmetic.
  return best === 0 ? Number.POSITIVE_INFINITY : nowNs + Math.max(0, Math.floor((leftBytes * 1e9) / best) - 1);
}

/** Brings rates up to date with all changes at the present time. */
export function settle(allocator: FlowAllocator): void {
  if (allocator.dirtyCount > 0 || allocator.newCount > 0) resolveRates(allocator);
}

/** Bytes done by `nowNs`, not whole. */
export function doneAt(allocator: FlowAllocator, slot: number, nowNs: number): number {
  const rate = allocator.rates[slot]!;
  const sizeBytes = allocator.sizeBytes[slot]!;
  if (rate === Number.POSITIVE_INFINITY) return sizeBytes;
  const done = allocator.doneBytes[slot]! + (rate * (nowNs - allocator.anchorNs[slot]!)) / 1e9;
  return Math.min(done, sizeBytes);
}

/** Books the whole bytes done so far on the links of the path. Leaves the flow's own course alone, so reading never changes a run. */
export function countBytes(allocator: FlowAllocator, slot: number, doneBytes: number): void {
  const newBytes = Math.floor(doneBytes) - allocator.countedBytes[slot]!;
  if (newBytes <= 0) return;
  allocator.countedBytes[slot]! += newBytes;
  const base = slot << allocator.hopShift;
  for (let hop = 0; hop < allocator.hops[slot]!; hop++) allocator.linkMovedBytes[allocator.pathLinks[base + hop]!]! += newBytes;
}

/** Brings the integrals of capacity and background over time up to `nowNs`. */
function integrateOffered(allocator: FlowAllocator, link: number, nowNs: number): void {
  const offered = (allocator.linkBytesPerSecond[link]! * (nowNs - allocator.offeredSinceNs[link]!)) / 1e9;
  allocator.offeredBytes[link]! += offered;
  allocator.backgroundBytes[link]! += offered * allocator.backgroundShare[link]!;
  allocator.offeredSinceNs[link] = nowNs;
}

function moveTo(allocator: FlowAllocator, nowNs: number): void {
  if (nowNs === allocator.nowNs) return;
  if (!(nowNs > allocator.nowNs)) throw new Error(`a call at ${nowNs} ns, but the allocator is at ${allocator.nowNs} ns already`);
  const dueNs = nextCompletionNs(allocator);
  if (dueNs < nowNs) throw new Error(`a call at ${nowNs} ns passes over a completion at ${dueNs} ns; call advance first`);
  allocator.nowNs = nowNs;
}

function complete(allocator: FlowAllocator, slot: number): void {
  const sizeBytes = allocator.sizeBytes[slot]!;
  countBytes(allocator, slot, sizeBytes);
  allocator.deliveredBytes += sizeBytes;
  allocator.completedFlowIds.push(allocator.flowIds[slot]!);
  allocator.completedAtNs.push(allocator.nowNs);
  freeSlot(allocator, slot);
}

/** Hangs a flow into its links; returns its completion as far as it is known before the next solve. */
function attach(allocator: FlowAllocator, slot: number, path: Int32Array, hopCount: number): number {
  const { hopShift, linkHead, linkFlowCount, nowNs } = allocator;
  const base = slot << hopShift;
  allocator.hops[slot] = hopCount;
  allocator.anchorNs[slot] = nowNs;
  const leftBytes = allocator.sizeBytes[slot]! - allocator.doneBytes[slot]!;
  if (hopCount === 0) {
    const rate = allocator.capBytesPerSecond[slot]!;
    allocator.rates[slot] = rate;
    allocator.levels[slot] = rate / allocator.weights[slot]!;
    allocator.bottlenecks[slot] = UNCONSTRAINED;
    return leftBytes <= 0 || rate === Number.POSITIVE_INFINITY ? nowNs : nowNs + Math.ceil((leftBytes * 1e9) / rate);
  }
  allocator.rates[slot] = 0;
  allocator.levels[slot] = 0;
  allocator.bottlenecks[slot] = NEW_FLOW;
  allocator.newSlots[allocator.newCount++] = slot;
  for (let hop = 0; hop < hopCount; hop++) {
    const link = path[hop]!;
    const entry = base + hop;
    allocator.pathLinks[entry] = link;
    allocator.previousEntry[entry] = -1;
    allocator.nextEntry[entry] = linkHead[link]!;
    if (linkHead[link] !== -1) allocator.previousEntry[linkHead[link]!] = entry;
    linkHead[link] = entry;
    if (linkFlowCount[link]!++ === 0) allocator.busySinceNs[link] = nowNs;
    markDirty(allocator, link, 1);
  }
  return leftBytes <= 0 ? nowNs : Number.POSITIVE_INFINITY;
}

function detach(allocator: FlowAllocator, slot: number): void {
  const base = slot << allocator.hopShift;
  for (let hop = 0; hop < allocator.hops[slot]!; hop++) {
    const entry = base + hop;
    const link = allocator.pathLinks[entry]!;
    const next = allocator.nextEntry[entry]!;
    const previous = allocator.previousEntry[entry]!;
    if (previous === -1) allocator.linkHead[link] = next;
    else allocator.nextEntry[previous] = next;
    if (next !== -1) allocator.previousEntry[next] = previous;
    if (--allocator.linkFlowCount[link]! === 0) allocator.busyNs[link]! += allocator.nowNs - allocator.busySinceNs[link]!;
    markDirty(allocator, link, 1);
  }
  const bottleneck = allocator.bottlenecks[slot]!;
  if (bottleneck === NEW_FLOW) forgetNew(allocator, slot);
  else if (bottleneck >= 0) allocator.linkBottleneckCount[bottleneck]!--;
  allocator.hops[slot] = 0;
}

function forgetNew(allocator: FlowAllocator, slot: number): void {
  const at = allocator.newSlots.subarray(0, allocator.newCount).indexOf(slot);
  if (at !== -1) allocator.newSlots[at] = allocator.newSlots[--allocator.newCount]!;
}

function markDirty(allocator: FlowAllocator, link: number, depth: number): void {
  if (allocator.linkDirty[link] === 0) allocator.dirtyLinks[allocator.dirtyCount++] = link;
  if (allocator.linkDirty[link]! < depth) allocator.linkDirty[link] = depth;
}

function takeSlot(allocator: FlowAllocator): number {
  if (allocator.freeSlotCount === 0) growSlots(allocator);
  return allocator.freeSlots[--allocator.freeSlotCount]!;
}

function freeSlot(allocator: FlowAllocator, slot: number): void {
  removeCompletion(allocator, slot);
  detach(allocator, slot);
  allocator.slotOfFlow.delete(allocator.flowIds[slot]!);
  allocator.freeSlots[allocator.freeSlotCount++] = slot;
  allocator.flowCount--;
}

function slotOf(allocator: FlowAllocator, flowId: number): number {
  const slot = allocator.slotOfFlow.get(flowId);
  if (slot === undefined)
    throw new Error(`flow ${flowId} is not alive (never added, completed or removed); ${allocator.flowCount} flows are`);
  return slot;
}

function checkPath(allocator: FlowAllocator, flowId: number, path: Int32Array, hopCount: number): void {
  if (!(hopCount >= 0 && hopCount <= allocator.hopLimit && hopCount <= path.length)) {
    throw new Error(`path of flow ${flowId} has ${hopCount} links; the limit is ${Math.min(allocator.hopLimit, path.length)}`);
  }
  for (let hop = 0; hop < hopCount; hop++) {
    const link = path[hop]!;
    if (!(link >= 0 && link < allocator.linkCount)) {
      throw new Error(`path of flow ${flowId} names link ${link}; ids are 0..${allocator.linkCount - 1}`);
    }
    for (let other = 0; other < hop; other++) {
      if (path[other] === link) throw new Error(`path of flow ${flowId} uses link ${link} twice; a path may not loop`);
    }
  }
}

function checkFlow(
  allocator: FlowAllocator,
  flowId: number,
  path: Int32Array,
  hopCount: number,
  sizeBytes: number,
  weight: number,
  capBytesPerSecond: number,
): void {
  if (allocator.slotOfFlow.has(flowId)) throw new Error(`flow ${flowId} is alive already; give each living flow an id of its own`);
  if (sizeBytes !== Number.POSITIVE_INFINITY && !(Number.isSafeInteger(sizeBytes) && sizeBytes >= 0)) {
    throw new Error(`size of flow ${flowId} is ${sizeBytes} bytes; it must be a whole number from 0 to 2^53 - 1, or Infinity`);
  }
  if (!(weight > 0 && weight < Number.POSITIVE_INFINITY)) throw new Error(`weight of flow ${flowId} is ${weight}; it must be above 0`);
  if (!(capBytesPerSecond > 0)) throw new Error(`cap of flow ${flowId} is ${capBytesPerSecond} bytes/s; it must be above 0`);
  if (hopCount === 0 && sizeBytes === Number.POSITIVE_INFINITY) throw new Error(`flow ${flowId} has neither links nor an end; give one`);
  checkPath(allocator, flowId, path, hopCount);
}
