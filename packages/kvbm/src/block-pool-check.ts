import type { BlockCache } from './block-cache.js';
import { type BlockPool, freeBlocks, SEQUENCE_ACTIVE, SEQUENCE_SUSPENDED, sequenceBlocks } from './block-pool-state.js';
import type { LruState } from './eviction/lru.js';
import { tableGet } from './identity-table.js';

/**
 * Checks every invariant of a pool by walking all of it: each block counted once, references equal to the sequences that hold a block, lists and tables
 * consistent. Returns what is wrong, one sentence each; empty when all holds. Takes time in proportion to the pool: for tests and ends of runs.
 */
export function checkBlockPool(pool: BlockPool): string[] {
  const faults: string[] = [];
  const expected = (holds: boolean, fault: string) => {
    if (!holds) faults.push(`block pool: ${fault}`);
  };
  const holders = new Int32Array(pool.cache.nodeLimit);
  const counted = { active: 0, suspended: 0, privates: 0 };
  for (let sequence = 0; sequence < pool.sequences; sequence++) {
    if (pool.states[sequence] === SEQUENCE_SUSPENDED) counted.suspended++;
    if (pool.states[sequence] !== SEQUENCE_ACTIVE) continue;
    counted.active++;
    counted.privates += pool.privates[sequence]!;
    const blocks = sequenceBlocks(pool, sequence);
    const room = blocks * pool.blockTokens;
    expected(pool.privates[sequence]! >= 0, `sequence ${sequence} holds ${pool.privates[sequence]} private blocks`);
    expected(pool.tokens[sequence]! <= room, `sequence ${sequence} has ${pool.tokens[sequence]} tokens in ${blocks} blocks`);
    let node = pool.tails[sequence]!;
    let length = 0;
    for (; node >= 0 && length <= pool.capacityBlocks; length++, node = pool.cache.parent[node]!) holders[node]!++;
    expected(length === pool.identified[sequence], `sequence ${sequence} has a chain of ${length}, counted ${pool.identified[sequence]}`);
  }
  expected(counted.active === pool.activeSequences, `${counted.active} active sequences, counted ${pool.activeSequences}`);
  expected(counted.suspended === pool.suspendedSequences, `${counted.suspended} suspended sequences, counted ${pool.suspendedSequences}`);
  expected(counted.privates === pool.privateBlocks, `${counted.privates} private blocks, counted ${pool.privateBlocks}`);
  expected(freeBlocks(pool) >= 0, `${freeBlocks(pool)} free blocks`);
  for (let node = 0; node < pool.cache.nodeLimit; node++) {
    expected(holders[node] === pool.cache.refs[node], `node ${node} has ${pool.cache.refs[node]} references, ${holders[node]} holders`);
  }
  return faults.concat(checkBlockCache(pool.cache));
}

/** The same for a cache alone (a tier store): counts, table and, for lru, the list of evictable nodes. */
export function checkBlockCache(cache: BlockCache): string[] {
  const faults: string[] = [];
  const expected = (holds: boolean, fault: string) => {
    if (!holds) faults.push(`block cache: ${fault}`);
  };
  const counted = { used: 0, evictable: 0, evictableNodes: 0, nodes: 0, identified: 0, children: 0 };
  for (let node = 0; node < cache.nodeLimit; node++) {
    const blocks = cache.blocks[node]!;
    if (blocks === 0) continue;
    counted.nodes++;
    counted.used += blocks;
    if (cache.refs[node] === 0) {
      counted.evictable += blocks;
      counted.evictableNodes++;
    }
    const identity = cache.identity[node]!;
    if (identity <= 0) continue;
    counted.identified++;
    const parent = cache.parent[node]!;
    if (parent >= 0 && cache.child[parent] === node + 1) {
      counted.children++;
      expected(cache.blocks[parent]! > 0, `node ${node} follows node ${parent}, which is free`);
    } else
      expected(
        tableGet(cache.table, cache.identity, identity) === node,
        `block ${identity} of node ${node} is not found under its identity`,
      );
    expected(blocks === 1, `node ${node} of one identity counts ${blocks} blocks`);
  }
  expected(counted.nodes === cache.nodes, `${counted.nodes} nodes, counted ${cache.nodes}`);
  expected(counted.used === cache.usedBlocks, `${counted.used} used blocks, counted ${cache.usedBlocks}`);
  expected(counted.used <= cache.capacityBlocks, `${counted.used} used blocks of ${cache.capacityBlocks}`);
  expected(counted.evictable === cache.evictableBlocks, `${counted.evictable} evictable blocks, counted ${cache.evictableBlocks}`);
  const known = cache.table.count + counted.children;
  expected(counted.identified === known, `${counted.identified} identified blocks, ${known} in the table or behind others`);
  if (cache.isLru)
    expected(lruListLength(cache) === counted.evictableNodes, `lru list of ${lruListLength(cache)}, not ${counted.evictableNodes} nodes`);
  return faults;
}

/** Nodes in the lru list, or -1 when the list is broken or holds a referenced node. */
function lruListLength(cache: BlockCache): number {
  const state = cache.policyState as LruState;
  let length = 0;
  let previous = -1;
  for (let node = state.oldest; node >= 0; node = state.next[node]!) {
    if (state.previous[node] !== previous || cache.refs[node] !== 0 || ++length > cache.nodes) return -1;
    previous = node;
  }
  return state.newest === previous ? length : -1;
}
