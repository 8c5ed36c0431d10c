/** Values of `bottlenecks` that are not a link id. */
export const UNCONSTRAINED = -1;
export const CAPPED = -2;
export const NEW_FLOW = -3;

/**
 * State of the incremental allocator: plain data, one column per quantity, flows in reused slots. Rates in bytes per second.
 * Create with `createFlowAllocator`, use through flow-allocator.ts.
 */
export interface FlowAllocator {
  nowNs: number;
  linkCount: number;
  hopLimit: number;
  /** A slot has 2^hopShift entries, at least hopLimit: entries and slots turn into each other without a division. */
  hopShift: number;
  flowLimit: number;
  /** Relative difference up to which a level or a load counts as unchanged. */
  tolerance: number;
  flowCount: number;
  nextSequence: number;
  // Per link.
  linkBytesPerSecond: Float64Array;
  backgroundShare: Float64Array;
  /** What background leaves: capacity x (1 - share). */
  freeBytesPerSecond: Float64Array;
  /** A link that carries all flows of this one too, -1 for none: while it is no faster, this one can be left out of solving. */
  dominators: Int32Array;
  /** First of the list of (slot, hop) entries on the link, -1 when none; entry = (slot << hopShift) + hop. */
  linkHead: Int32Array;
  linkFlowCount: Int32Array;
  /** Flows whose bottleneck the link is: without any, most of what happens on a link concerns nobody. */
  linkBottleneckCount: Int32Array;
  linkMovedBytes: Float64Array;
  /** Time with at least one flow, up to the start of the present busy stretch. */
  busyNs: Float64Array;
  busySinceNs: Float64Array;
  /** Integrals of capacity and of background over time, up to `offeredSinceNs`. */
  offeredBytes: Float64Array;
  backgroundBytes: Float64Array;
  offeredSinceNs: Float64Array;
  // Per slot and hop.
  pathLinks: Int32Array;
  nextEntry: Int32Array;
  previousEntry: Int32Array;
  // Per slot.
  slotOfFlow: Map<number, number>;
  flowIds: Float64Array;
  hops: Uint8Array;
  weights: Float64Array;
  capBytesPerSecond: Float64Array;
  sizeBytes: Float64Array;
  /** Bytes done at `anchorNs`; from there on the flow goes at `rates`. */
  doneBytes: Float64Array;
  anchorNs: Float64Array;
  rates: Float64Array;
  /** rate / weight. */
  levels: Float64Array;
  /** Link on which the flow has the highest level and which is full, or one of the values above. */
  bottlenecks: Int32Array;
  /** Whole bytes already booked on the links. */
  countedBytes: Float64Array;
  completionNs: Float64Array;
  sequence: Float64Array;
  freeSlots: Int32Array;
  freeSlotCount: number;
  /** Binary heap of slots by (completion, start) and each slot's place in it. */
  heap: Int32Array;
  heapPlace: Int32Array;
  heapSize: number;
  // Changes not solved yet: links (1: flows came or went, 2: the link itself changed) and new or rerouted flows.
  dirtyLinks: Int32Array;
  linkDirty: Uint8Array;
  dirtyCount: number;
  newSlots: Int32Array;
  newCount: number;
  // Results of the last `advance`.
  completedFlowIds: number[];
  completedAtNs: number[];
  // Conservation: admitted = delivered + abandoned + sizes of living flows (open-ended flows enter when they end).
  admittedBytes: number;
  deliveredBytes: number;
  abandonedBytes: number;
  /** Solves done and flows they touched, to judge cost. */
  solveCount: number;
  fillCount: number;
  solvedFlowCount: number;
}

/** Limits of an allocator; defaults are generous bounds, not model constants. */
export interface FlowAllocatorLimits {
  /** Longest path, 1..255 links. */
  hopLimit?: number;
  /** Most flows alive at once. */
  flowLimit?: number;
  tolerance?: number;
}

const FIRST_SLOTS = 64;

/** An empty allocator over links of the given capacities (bytes per second, finite, not negative). */
export function createFlowAllocator(linkBytesPerSecond: ArrayLike<number>, limits: FlowAllocatorLimits = {}): FlowAllocator {
  const hopLimit = limits.hopLimit ?? 24;
  const flowLimit = limits.flowLimit ?? 1_000_000;
  if (!(Number.isInteger(hopLimit) && hopLimit >= 1 && hopLimit <= 255))
    throw new Error(`hopLimit is ${hopLimit}; it must be whole, 1..255`);
  if (!(Number.isInteger(flowLimit) && flowLimit >= 1)) throw new Error(`flowLimit is ${flowLimit}; it must be whole, at least 1`);
  const capacities = Float64Array.from(linkBytesPerSecond);
  capacities.forEach((capacity, link) => {
    if (!(capacity >= 0 && capacity < Number.POSITIVE_INFINITY)) {
      throw new Error(`capacity of link ${link} is ${capacity}; it must be finite and not negative`);
    }
  });
  const linkCount = capacities.length;
  const allocator: FlowAllocator = {
    nowNs: 0,
    linkCount,
    hopLimit,
    hopShift: Math.ceil(Math.log2(hopLimit)),
    flowLimit,
    tolerance: limits.tolerance ?? 1e-9,
    flowCount: 0,
    nextSequence: 0,
    linkBytesPerSecond: capacities,
    backgroundShare: new Float64Array(linkCount),
    freeBytesPerSecond: capacities.slice(),
    dominators: new Int32Array(linkCount).fill(-1),
    linkHead: new Int32Array(linkCount).fill(-1),
    linkFlowCount: new Int32Array(linkCount),
    linkBottleneckCount: new Int32Array(linkCount),
    linkMovedBytes: new Float64Array(linkCount),
    busyNs: new Float64Array(linkCount),
    busySinceNs: new Float64Array(linkCount),
    offeredBytes: new Float64Array(linkCount),
    backgroundBytes: new Float64Array(linkCount),
    offeredSinceNs: new Float64Array(linkCount),
    pathLinks: new Int32Array(0),
    nextEntry: new Int32Array(0),
    previousEntry: new Int32Array(0),
    slotOfFlow: new Map(),
    flowIds: new Float64Array(0),
    hops: new Uint8Array(0),
    weights: new Float64Array(0),
    capBytesPerSecond: new Float64Array(0),
    sizeBytes: new Float64Array(0),
    doneBytes: new Float64Array(0),
    anchorNs: new Float64Array(0),
    rates: new Float64Array(0),
    levels: new Float64Array(0),
    bottlenecks: new Int32Array(0),
    countedBytes: new Float64Array(0),
    completionNs: new Float64Array(0),
    sequence: new Float64Array(0),
    freeSlots: new Int32Array(0),
    freeSlotCount: 0,
    heap: new Int32Array(0),
    heapPlace: new Int32Array(0),
    heapSize: 0,
    dirtyLinks: new Int32Array(linkCount),
    linkDirty: new Uint8Array(linkCount),
    dirtyCount: 0,
    newSlots: new Int32Array(0),
    newCount: 0,
    completedFlowIds: [],
    completedAtNs: [],
    admittedBytes: 0,
    deliveredBytes: 0,
    abandonedBytes: 0,
    solveCount: 0,
    fillCount: 0,
    solvedFlowCount: 0,
  };
  return allocator;
}

/** Doubles the slots. Throws at the flow limit. */
export function growSlots(allocator: FlowAllocator): void {
  const before = allocator.flowIds.length;
  const after = Math.min(allocator.flowLimit, Math.max(FIRST_SLOTS, before * 2));
  if (after <= before) throw new Error(`${before} flows are alive, the limit of this allocator; raise flowLimit or start fewer at once`);
  const entries = after << allocator.hopShift;
  allocator.pathLinks = grownInt32(allocator.pathLinks, entries);
  allocator.nextEntry = grownInt32(allocator.nextEntry, entries);
  allocator.previousEntry = grownInt32(allocator.previousEntry, entries);
  allocator.bottlenecks = grownInt32(allocator.bottlenecks, after);
  allocator.freeSlots = grownInt32(allocator.freeSlots, after);
  allocator.heap = grownInt32(allocator.heap, after);
  allocator.heapPlace = grownInt32(allocator.heapPlace, after);
  allocator.newSlots = grownInt32(allocator.newSlots, after);
  allocator.flowIds = grownFloat64(allocator.flowIds, after);
  allocator.weights = grownFloat64(allocator.weights, after);
  allocator.capBytesPerSecond = grownFloat64(allocator.capBytesPerSecond, after);
  allocator.sizeBytes = grownFloat64(allocator.sizeBytes, after);
  allocator.doneBytes = grownFloat64(allocator.doneBytes, after);
  allocator.anchorNs = grownFloat64(allocator.anchorNs, after);
  allocator.rates = grownFloat64(allocator.rates, after);
  allocator.levels = grownFloat64(allocator.levels, after);
  allocator.countedBytes = grownFloat64(allocator.countedBytes, after);
  allocator.completionNs = grownFloat64(allocator.completionNs, after);
  allocator.sequence = grownFloat64(allocator.sequence, after);
  const hops = new Uint8Array(after);
  hops.set(allocator.hops);
  allocator.hops = hops;
  for (let slot = after - 1; slot >= before; slot--) allocator.freeSlots[allocator.freeSlotCount++] = slot;
}

function grownInt32(from: Int32Array, length: number): Int32Array {
  const to = new Int32Array(length);
  to.set(from);
  return to;
}

function grownFloat64(from: Float64Array, length: number): Float64Array {
  const to = new Float64Array(length);
  to.set(from);
  return to;
}
