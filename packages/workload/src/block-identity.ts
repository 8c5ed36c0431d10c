import type { RequestTable } from './requests.js';

const TWO_32 = 4294967296;
/** Keeps ids of partial blocks apart from those of full blocks; above any index inside a trace block. */
const PARTIAL_BLOCK_SALT = 2 ** 40;
/** Keeps the blocks nobody else has apart from chained ones. */
const UNSHARED_SALT = 2 ** 41;

/**
 * The identity of content `value` behind the prefix `parent`: a 53-bit hash, so a safe integer. Both arguments are safe integers, 0 or more.
 * Two 32-bit lanes with the multipliers and finaliser of MurmurHash3 (A. Appleby, public domain).
 */
export function chainHash(parent: number, value: number): number {
  let low = Math.imul((parent | 0) ^ 0x2f0b4a27, 0xcc9e2d51);
  let high = Math.imul(((parent / TWO_32) | 0) ^ 0x6a09e667, 0x1b873593);
  low = Math.imul((low ^ (low >>> 15)) + high, 0x85ebca6b) ^ (value | 0);
  high = Math.imul((high ^ (high >>> 13)) + low, 0xc2b2ae35) ^ ((value / TWO_32) | 0);
  low = Math.imul(low ^ (low >>> 16), 0x85ebca6b) + high;
  high = Math.imul(high ^ (high >>> 16), 0xc2b2ae35) ^ low;
  low = Math.imul(low ^ (low >>> 13), 0xc2b2ae35) ^ (high >>> 7);
  high = Math.imul(high ^ (high >>> 15), 0x85ebca6b) + low;
  low = Math.imul(low ^ (low >>> 16) ^ high, 0xcc9e2d51);
  low ^= low >>> 15;
  high ^= high >>> 14;
  return (high & 0x1fffff) * TWO_32 + (low >>> 0);
}

/** A number for a name (a prefix group, say), independent of the order in which names are met. */
export function hashName(name: string): number {
  let hash = name.length;
  for (let index = 0; index < name.length; index++) hash = chainHash(hash, name.charCodeAt(index));
  return hash;
}

/**
 * A hash of up to 64 bits (as JSON.parse rounds it) folded into a safe integer. The rounding keeps the leading 53 bits, so for n hashes
 * the chance of one false match is about n^2 / 2^54.
 */
export function foldHash(hash: number): number {
  return hash <= Number.MAX_SAFE_INTEGER ? hash : chainHash(Math.floor(hash / TWO_32), hash % TWO_32);
}

/** Refuses an engine block size that fits the table's blocks neither way. */
export function checkBlockTokens(traceBlockTokens: number, engineBlockTokens: number): void {
  if (!Number.isInteger(engineBlockTokens) || engineBlockTokens < 1) {
    throw new RangeError(`engine block size ${engineBlockTokens}: must be a whole number of tokens, 1 or more`);
  }
  if (traceBlockTokens === 0 || traceBlockTokens % engineBlockTokens === 0 || engineBlockTokens % traceBlockTokens === 0) return;
  throw new RangeError(
    `engine block size ${engineBlockTokens} does not fit the trace's blocks of ${traceBlockTokens} tokens; choose a divisor or a multiple of ${traceBlockTokens}`,
  );
}

/**
 * Writes the engine's chained block ids of one request to `out` (from `outOffset`) and returns their number, ceil(inputTokens /
 * engineBlockTokens). The first floor(inputTokens / engineBlockTokens) are full; a partial last block gets an id that depends on its length,
 * so it never equals a full one. Each id covers the whole prefix: it chains over all trace blocks before. An engine block of several
 * trace blocks is shared only when all of it is; blocks behind the listed hashes get ids of their own, from the request's number.
 * Call `checkBlockTokens` once before.
 */
export function expandBlocks(table: RequestTable, row: number, engineBlockTokens: number, out: Float64Array, outOffset = 0): number {
  const first = table.blockOffsets[row]!;
  const listed = table.blockOffsets[row + 1]! - first;
  const inputTokens = table.inputTokens[row]!;
  const count = Math.ceil(inputTokens / engineBlockTokens);
  if (outOffset + count > out.length) {
    throw new RangeError(`expandBlocks: request ${row} needs ${count} blocks from ${outOffset}, the array has ${out.length}`);
  }
  const written = listed === 0 ? 0 : expandListed(table, first, listed, inputTokens, engineBlockTokens, out, outOffset);
  let previous = chainHash(UNSHARED_SALT, table.firstRequest + row);
  for (let block = written; block < count; block++) out[outOffset + block] = previous = chainHash(previous, UNSHARED_SALT);
  return count;
}

/** The blocks that lie wholly within the listed trace blocks; returns how many. */
function expandListed(
  table: RequestTable,
  first: number,
  listed: number,
  inputTokens: number,
  engineBlockTokens: number,
  out: Float64Array,
  outOffset: number,
): number {
  const traceTokens = table.blockTokens;
  const hashes = table.blockHashes;
  const coveredTokens = Math.min(inputTokens, listed * traceTokens);
  let anchor = 0;
  let anchored = 0;
  let block = 0;
  for (let start = 0; start < coveredTokens; start += engineBlockTokens) {
    const end = Math.min(start + engineBlockTokens, inputTokens);
    if (end > coveredTokens) break;
    while (anchored * traceTokens < end) anchor = chainHash(anchor, hashes[first + anchored++]!);
    const tokens = end - start;
    const place = start % traceTokens;
    out[outOffset + block++] = chainHash(anchor, tokens === engineBlockTokens ? place : PARTIAL_BLOCK_SALT + tokens);
  }
  return block;
}
