import type { FlowAllocator } from './flow-state.js';

/**
 * Working memory of one solve. Not state: nothing in it outlives a call to `resolveRates`, and stamps make stale content
 * invisible, so all allocators of a thread share one.
 */
export interface SolverScratch {
  epoch: number;
  fillEpoch: number;
  affected: Int32Array;
  affectedCount: number;
  affectedStamp: Float64Array;
  fixedStamp: Float64Array;
  newRate: Float64Array;
  newLevel: Float64Array;
  newBottleneck: Int32Array;
  openLinks: Int32Array;
  openCount: number;
  linkStamp: Float64Array;
  /** What the held flows leave of an open link, and weight and number of its affected flows. */
  free: Float64Array;
  weight: Float64Array;
  count: Int32Array;
  /** The same while a filling goes on, over the flows not fixed yet. */
  residual: Float64Array;
  weightLeft: Float64Array;
  unfixedCount: Int32Array;
  /** Links on which a flow's rate or bottleneck moved in the present filling. */
  movedLinks: Int32Array;
  movedCount: number;
  movedStamp: Float64Array;
  /** Level of the flows whose bottleneck the link has become in this filling, -1 when there are none. */
  filledLevel: Float64Array;
  /** Open links that still have unfixed flows, flows that are unfixed. */
  activeLinks: Int32Array;
  activeCount: number;
  unfixed: Int32Array;
  unfixedFlows: number;
  /** Of one pass: level of each link, number of its unfixed flows that have no lower one, level if that is all of them (else -1). */
  linkLevel: Float64Array;
  lowestFor: Int32Array;
  settledAt: Float64Array;
  flowLevel: Float64Array;
  /** Links of each affected flow that others use as well, from slot << hopShift up to `openEnd`; its limit by cap and links of its own. */
  openPath: Int32Array;
  openEnd: Int32Array;
  ownLevel: Float64Array;
  ownBottleneck: Int32Array;
  /** The same in one filling: links with several affected flows, and the limit by all others. */
  sharedPath: Int32Array;
  sharedEnd: Int32Array;
  fillLevel: Float64Array;
  fillBottleneck: Int32Array;
}

let shared: SolverScratch = createScratch(64, 64, 24);

export function prepareScratch(allocator: FlowAllocator): SolverScratch {
  const slots = Math.max(allocator.flowIds.length, shared.affected.length);
  const links = Math.max(allocator.linkCount, shared.openLinks.length);
  const entries = allocator.pathLinks.length;
  if (slots > shared.affected.length || links > shared.openLinks.length || entries > shared.openPath.length) {
    const { epoch, fillEpoch, openPath } = shared;
    shared = createScratch(slots, links, Math.ceil(Math.max(entries, openPath.length) / slots));
    shared.epoch = epoch;
    shared.fillEpoch = fillEpoch;
  }
  shared.epoch++;
  shared.affectedCount = 0;
  shared.openCount = 0;
  return shared;
}

function createScratch(slots: number, links: number, hopLimit: number): SolverScratch {
  return {
    epoch: 0,
    fillEpoch: 0,
    affected: new Int32Array(slots),
    affectedCount: 0,
    affectedStamp: new Float64Array(slots),
    fixedStamp: new Float64Array(slots),
    newRate: new Float64Array(slots),
    newLevel: new Float64Array(slots),
    newBottleneck: new Int32Array(slots),
    openLinks: new Int32Array(links),
    openCount: 0,
    linkStamp: new Float64Array(links),
    residual: new Float64Array(links),
    weightLeft: new Float64Array(links),
    unfixedCount: new Int32Array(links),
    free: new Float64Array(links),
    weight: new Float64Array(links),
    count: new Int32Array(links),
    movedLinks: new Int32Array(links),
    movedCount: 0,
    movedStamp: new Float64Array(links),
    filledLevel: new Float64Array(links),
    activeLinks: new Int32Array(links),
    activeCount: 0,
    unfixed: new Int32Array(slots),
    unfixedFlows: 0,
    linkLevel: new Float64Array(links),
    lowestFor: new Int32Array(links),
    settledAt: new Float64Array(links),
    flowLevel: new Float64Array(slots),
    openPath: new Int32Array(slots * hopLimit),
    openEnd: new Int32Array(slots),
    ownLevel: new Float64Array(slots),
    ownBottleneck: new Int32Array(slots),
    sharedPath: new Int32Array(slots * hopLimit),
    sharedEnd: new Int32Array(slots),
    fillLevel: new Float64Array(slots),
    fillBottleneck: new Int32Array(slots),
  };
}
