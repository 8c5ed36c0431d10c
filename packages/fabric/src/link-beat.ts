import type { FlowAllocator } from './flow-state.js';
import { type LinkReading, linkUtilisation, readLinks } from './link-counters.js';

/** One rhythm of reading the counters of all links, and what was last told of each. Plain data. */
export interface LinkBeat {
  ticking: boolean;
  /** Something moved in the last period, or may have. */
  lively: boolean;
  reading: LinkReading | null;
  /** The one before, to be filled again. */
  spare: LinkReading | null;
  readonly lastUtilisation: Float64Array;
  readonly lastFlows: Int32Array;
}

export function createLinkBeat(linkCount: number): LinkBeat {
  return {
    ticking: false,
    lively: false,
    reading: null,
    spare: null,
    lastUtilisation: new Float64Array(linkCount).fill(-1),
    lastFlows: new Int32Array(linkCount),
  };
}

/** Begins a rhythm that rests; false when it goes on already. */
export function startBeat(beat: LinkBeat, allocator: FlowAllocator, nowNs: number): boolean {
  if (beat.ticking) return false;
  beat.ticking = true;
  beat.reading = readLinks(allocator, nowNs, beat.reading ?? undefined);
  return true;
}

/** Reads the counters and tells of those links whose period differs from what was last told. */
export function beatChanges(
  beat: LinkBeat,
  allocator: FlowAllocator,
  nowNs: number,
  links: Int32Array,
  tell: (link: number, utilisation: number, movedBytes: number, flows: number) => void,
): void {
  const before = beat.reading as LinkReading;
  const after = readLinks(allocator, nowNs, beat.spare ?? undefined);
  beat.reading = after;
  beat.spare = before;
  for (const link of links) {
    const utilisation = linkUtilisation(before, after, link);
    const flows = after.flowCounts[link]!;
    if (utilisation === beat.lastUtilisation[link] && flows === beat.lastFlows[link]) continue;
    beat.lastUtilisation[link] = utilisation;
    beat.lastFlows[link] = flows;
    tell(link, utilisation, after.movedBytes[link]! - before.movedBytes[link]!, flows);
  }
}
