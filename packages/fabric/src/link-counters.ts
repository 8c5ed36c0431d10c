import { countBytes, doneAt, settle } from './flow-allocator.js';
import type { FlowAllocator } from './flow-state.js';
import { LINK_CLASSES, type LinkClass, type Topology } from './topology.js';

/** Counters of all links at one moment, as a switch would export them; differences of two readings give a window. */
export interface LinkReading {
  atNs: number;
  /** Whole bytes of flows carried so far. */
  movedBytes: Float64Array;
  /** Bytes taken by constant background so far. */
  backgroundBytes: Float64Array;
  /** Bytes the link could have carried so far (capacity over time, faults included). */
  offeredBytes: Float64Array;
  /** Time with at least one flow so far. */
  busyNs: Float64Array;
  /** Flows on the link now. */
  flowCounts: Int32Array;
}

/** Reads the counters at `nowNs`, which may not lie beyond the next completion, into a reading that nobody needs any more. Changes no flow's course. */
export function readLinks(allocator: FlowAllocator, nowNs: number, reading = createLinkReading(allocator.linkCount)): LinkReading {
  if (!(nowNs >= allocator.nowNs)) throw new Error(`reading at ${nowNs} ns, but the allocator is at ${allocator.nowNs} ns already`);
  settle(allocator);
  for (let i = 0; i < allocator.heapSize; i++) countBytes(allocator, allocator.heap[i]!, doneAt(allocator, allocator.heap[i]!, nowNs));
  reading.atNs = nowNs;
  reading.movedBytes.set(allocator.linkMovedBytes);
  reading.backgroundBytes.set(allocator.backgroundBytes);
  reading.offeredBytes.set(allocator.offeredBytes);
  reading.busyNs.set(allocator.busyNs);
  reading.flowCounts.set(allocator.linkFlowCount);
  for (let link = 0; link < allocator.linkCount; link++) {
    const offered = (allocator.linkBytesPerSecond[link]! * (nowNs - allocator.offeredSinceNs[link]!)) / 1e9;
    reading.offeredBytes[link]! += offered;
    reading.backgroundBytes[link]! += offered * allocator.backgroundShare[link]!;
    if (allocator.linkFlowCount[link]! > 0) reading.busyNs[link]! += nowNs - allocator.busySinceNs[link]!;
  }
  return reading;
}

function createLinkReading(linkCount: number): LinkReading {
  return {
    atNs: 0,
    movedBytes: new Float64Array(linkCount),
    backgroundBytes: new Float64Array(linkCount),
    offeredBytes: new Float64Array(linkCount),
    busyNs: new Float64Array(linkCount),
    flowCounts: new Int32Array(linkCount),
  };
}

/** Share of a link's capacity used between two readings, background included; 1 for a link that was dead all the time. */
export function linkUtilisation(before: LinkReading, after: LinkReading, link: number): number {
  const offered = after.offeredBytes[link]! - before.offeredBytes[link]!;
  if (offered === 0) return 1;
  const moved = after.movedBytes[link]! - before.movedBytes[link]!;
  return (moved + after.backgroundBytes[link]! - before.backgroundBytes[link]!) / offered;
}

/** Share of each link's capacity in use at this moment, background included; 1 for a dead link. The array is used again by the next call. */
export function linkRates(allocator: FlowAllocator): Float64Array {
  const { linkCount, linkBytesPerSecond, backgroundShare, heap, heapSize, hops, hopShift, pathLinks, rates } = allocator;
  settle(allocator);
  if (usedRates.length < linkCount) usedRates = new Float64Array(linkCount);
  usedRates.fill(0);
  for (let place = 0; place < heapSize; place++) {
    const slot = heap[place]!;
    const first = slot << hopShift;
    for (let hop = 0; hop < hops[slot]!; hop++) usedRates[pathLinks[first + hop]!]! += rates[slot]!;
  }
  for (let link = 0; link < linkCount; link++) {
    const capacity = linkBytesPerSecond[link]!;
    usedRates[link] = capacity === 0 ? 1 : Math.min(1, usedRates[link]! / capacity + backgroundShare[link]!);
  }
  return usedRates;
}

// Filled and read within one report; never state.
let usedRates = new Float64Array(0);

/** Mean utilisation of the links of a class between two readings: the one number per tier that NetKV's oracle has (arXiv 2606.03910). */
export function classUtilisation(topology: Topology, before: LinkReading, after: LinkReading, linkClass: LinkClass): number {
  const code = LINK_CLASSES.indexOf(linkClass);
  let sum = 0;
  let count = 0;
  for (let link = 0; link < topology.linkCount; link++) {
    if (topology.linkClasses[link] !== code) continue;
    sum += linkUtilisation(before, after, link);
    count++;
  }
  return count === 0 ? 0 : sum / count;
}
