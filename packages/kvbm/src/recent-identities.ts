import { widenFloat64, widenInt32 } from './columns.js';
import { createIdentityTable, type IdentityTable, tableGet, tableInsert, tableRemove } from './identity-table.js';

/**
 * The last `capacity` distinct identities noted, first in first out, with how often each was noted: the ghost queue of s3-fifo and the frequency
 * filter before a tier. Its memory is bounded, so an identity noted long ago counts from 1 again.
 */
export interface RecentIdentities {
  capacity: number;
  /** Position in the ring by identity. */
  table: IdentityTable;
  ring: Float64Array;
  counts: Int32Array;
  /** Rows ever filled, at most `capacity`, and the row to write next. */
  length: number;
  next: number;
}

export function createRecentIdentities(capacity: number): RecentIdentities {
  const rows = Math.max(1, Math.min(64, capacity));
  return {
    capacity: Math.max(1, capacity),
    table: createIdentityTable(),
    ring: new Float64Array(rows),
    counts: new Int32Array(rows),
    length: 0,
    next: 0,
  };
}

/** Notes `identity` once more; returns how often it was noted within the memory, this time included. */
export function noteIdentity(recent: RecentIdentities, identity: number): number {
  const known = tableGet(recent.table, recent.ring, identity);
  if (known >= 0) return ++recent.counts[known]!;
  if (recent.next === recent.ring.length && recent.ring.length < recent.capacity) widenRing(recent);
  if (recent.next === recent.capacity) recent.next = 0;
  const row = recent.next++;
  if (row === recent.length) recent.length++;
  else dropRow(recent, row);
  recent.ring[row] = identity;
  recent.counts[row] = 1;
  tableInsert(recent.table, identity, row);
  return 1;
}

export function isRecent(recent: RecentIdentities, identity: number): boolean {
  return tableGet(recent.table, recent.ring, identity) >= 0;
}

/** Forgets `identity`; returns whether it was known. */
export function forgetIdentity(recent: RecentIdentities, identity: number): boolean {
  const row = tableGet(recent.table, recent.ring, identity);
  if (row < 0) return false;
  tableRemove(recent.table, row);
  // Not in the table, the row no longer counts as one of its identity.
  recent.ring[row] = 0;
  return true;
}

function dropRow(recent: RecentIdentities, row: number): void {
  if (recent.ring[row]! > 0) tableRemove(recent.table, row);
}

function widenRing(recent: RecentIdentities): void {
  const rows = Math.min(recent.capacity, recent.ring.length * 2);
  recent.ring = widenFloat64(recent.ring, rows);
  recent.counts = widenInt32(recent.counts, rows);
}
