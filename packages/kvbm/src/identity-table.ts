import { widenInt32 } from './columns.js';

/**
 * Finds the row of an identity in a column of identities that its owner keeps: hash chains through the rows, with Fibonacci hashing of the low 32 bits
 * (Knuth, The Art of Computer Programming 3, section 6.4). Twelve bytes a row and no probing: what comes and goes by the million costs few misses of
 * the processor's caches. A chain is in the order of insertion, so the oldest of it, which goes first under lru and fifo, is found at its head.
 */
export interface IdentityTable {
  /** First row of each chain + 1, 0 where empty. The length is a power of two. */
  heads: Int32Array;
  /** Of row r: the low 32 bits of its identity at 2r, so that most others of the chain are passed without a look at theirs; the next row + 1 at 2r + 1. */
  links: Int32Array;
  /** 32 minus the binary logarithm of the number of chains. */
  shift: number;
  count: number;
}

/** 2^32 divided by the golden ratio, made odd. */
const GOLDEN = 0x9e3779b1;
const fewestChains = 16;

export function createIdentityTable(): IdentityTable {
  return {
    heads: new Int32Array(fewestChains),
    links: new Int32Array(fewestChains),
    shift: Math.clz32(fewestChains) + 1,
    count: 0,
  };
}

/** Row of `identity` (above 0) in the column, or -1. */
export function tableGet(table: IdentityTable, identities: Float64Array, identity: number): number {
  const { heads, links, shift } = table;
  const low = identity | 0;
  let row = heads[Math.imul(low, GOLDEN) >>> shift]! - 1;
  while (row >= 0) {
    if (links[2 * row] === low && identities[row] === identity) return row;
    row = links[2 * row + 1]! - 1;
  }
  return -1;
}

/** Puts in a row under an identity that no other row in the table has. */
export function tableInsert(table: IdentityTable, identity: number, row: number): void {
  if (table.count >= table.heads.length) growTable(table);
  if (2 * row >= table.links.length) table.links = widenInt32(table.links, Math.max(2 * (row + 1), 2 * table.links.length));
  table.count++;
  const low = identity | 0;
  table.links[2 * row] = low;
  append(table.heads, table.links, Math.imul(low, GOLDEN) >>> table.shift, row);
}

function append(heads: Int32Array, links: Int32Array, chain: number, row: number): void {
  links[2 * row + 1] = 0;
  let last = heads[chain]! - 1;
  if (last < 0) {
    heads[chain] = row + 1;
    return;
  }
  for (let next = links[2 * last + 1]!; next > 0; next = links[2 * last + 1]!) last = next - 1;
  links[2 * last + 1] = row + 1;
}

/** Takes out a row that is in. */
export function tableRemove(table: IdentityTable, row: number): void {
  const { heads, links, shift } = table;
  const chain = Math.imul(links[2 * row]!, GOLDEN) >>> shift;
  table.count--;
  let at = heads[chain]! - 1;
  if (at === row) {
    heads[chain] = links[2 * row + 1]!;
    return;
  }
  for (let next = links[2 * at + 1]! - 1; next !== row; next = links[2 * at + 1]! - 1) at = next;
  links[2 * at + 1] = links[2 * row + 1]!;
}

/** Where `warmTable` leaves what it read, so that no compiler takes its loads for dead. */
const read = new Int32Array(1);

/**
 * Reads where look-ups of identities[from..to-1] begin, all at once: the reads do not wait for each other, while changes of a table larger than the
 * processor's nearer caches one by one would wait for memory each time. Changes nothing.
 */
export function warmTable(table: IdentityTable, identities: Float64Array, from: number, to: number): void {
  const { heads, links, shift } = table;
  let mixed = 0;
  for (let index = from; index < to; index++) {
    const head = heads[Math.imul(identities[index]!, GOLDEN) >>> shift]!;
    if (head > 0) mixed ^= links[2 * head - 1]!;
  }
  read[0] = mixed;
}

function growTable(table: IdentityTable): void {
  const { heads, links } = table;
  const wider = new Int32Array(heads.length * 2);
  const shift = table.shift - 1;
  for (const head of heads) {
    for (let row = head - 1; row >= 0; ) {
      const next = links[2 * row + 1]! - 1;
      append(wider, links, Math.imul(links[2 * row]!, GOLDEN) >>> shift, row);
      row = next;
    }
  }
  table.heads = wider;
  table.shift = shift;
}
