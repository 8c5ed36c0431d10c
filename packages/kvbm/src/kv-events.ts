import { widenFloat64, widenInt32, widenUint8 } from './columns.js';

/** A block can now be looked up at the place that reports (Dynamo's `stored`). */
export const KV_STORED = 1;
/** A block can no longer be looked up there (Dynamo's `removed`). */
export const KV_REMOVED = 2;
/** Everything there is gone (Dynamo's `cleared`). */
export const KV_CLEARED = 3;

/**
 * What changed in a cache, in order; filled by the pool and the tier stores, read and emptied by the caller. Row i is
 * (kinds[i], identities[i], parents[i], blocks[i]). Identity 0 stands for `blocks[i]` blocks that nobody can look up: they matter to an offload
 * tier's capacity and bandwidth, never to a router. `parents` is set for `stored` only.
 */
export interface KvEventBuffer {
  length: number;
  /** Rows at most; a full buffer is an error of the caller, who has to drain it after each step. */
  limit: number;
  /** Rows of blocks that nobody can look up are left out. */
  namedOnly: boolean;
  kinds: Uint8Array;
  identities: Float64Array;
  parents: Float64Array;
  blocks: Int32Array;
}

export function createKvEventBuffer(limit: number = 1 << 22, namedOnly = false): KvEventBuffer {
  const rows = Math.min(64, limit);
  return {
    length: 0,
    limit,
    namedOnly,
    kinds: new Uint8Array(rows),
    identities: new Float64Array(rows),
    parents: new Float64Array(rows),
    blocks: new Int32Array(rows),
  };
}

/** Appends one row, unless the buffer leaves such rows out. Throws a RangeError when the buffer is at its limit. */
export function pushKvEvent(events: KvEventBuffer, kind: number, identity: number, parent: number, blocks: number): void {
  if (events.namedOnly && identity <= 0 && kind !== KV_CLEARED) return;
  const row = events.length;
  if (row === events.kinds.length) widenEvents(events);
  events.kinds[row] = kind;
  events.identities[row] = identity;
  events.parents[row] = parent;
  events.blocks[row] = blocks;
  events.length = row + 1;
}

export function clearKvEvents(events: KvEventBuffer): void {
  events.length = 0;
}

function widenEvents(events: KvEventBuffer): void {
  if (events.length >= events.limit) {
    throw new RangeError(
      `KV event buffer: ${events.length} events at a limit of ${events.limit}; drain it after each engine step or raise the limit`,
    );
  }
  const rows = Math.min(events.limit, events.length * 2);
  events.kinds = widenUint8(events.kinds, rows);
  events.identities = widenFloat64(events.identities, rows);
  events.parents = widenFloat64(events.parents, rows);
  events.blocks = widenInt32(events.blocks, rows);
}
