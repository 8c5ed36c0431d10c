/**
 * Goal: on a real trace (Mooncake conversation, FAST 2025) caches hit as often as they must. Method: published LRU hit shares of the trace; a trie over the trace's
 * own hash ids; and the router's index against what each worker's pool really holds.
 */
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import {
  applyKvEvents,
  checkBlockPool,
  clearKvEvents,
  createBlockPool,
  createKvEventBuffer,
  createPrefixIndex,
  createTierStore,
  expandTraceBlocks,
  matchPrefix,
  openSequence,
  overlapBlocks,
  releaseSequence,
  sequenceHitTokens,
  storeInTier,
  tierHolds,
} from '@braess/kvbm';
import { describe, expect, it } from 'vitest';

interface Row {
  input_length: number;
  hash_ids: number[];
}

const file = fileURLToPath(new URL('../../../../shared/traces/mooncake_conversation.jsonl.gz', import.meta.url));
const present = existsSync(file);
const lines = present ? gunzipSync(readFileSync(file)).toString('utf8').trim().split('\n') : [];
const rows = lines.map((line) => JSON.parse(line) as Row);

interface TrieNode {
  children: Map<number, TrieNode>;
}

/** Leading full blocks of the row, of at most 512 tokens, that an unlimited cache of all rows before holds; adds the row. */
function trieHits(root: TrieNode, row: Row, blockTokens: number): number {
  const perId = 512 / blockTokens;
  const full = Math.floor(row.input_length / blockTokens);
  let node = root;
  let hits = 0;
  let unbroken = true;
  for (let block = 0; block < full; block++) {
    const content = row.hash_ids[Math.floor(block / perId)]! * perId + (block % perId);
    let child = node.children.get(content);
    if (child && unbroken) hits++;
    else unbroken = false;
    if (!child) node.children.set(content, (child = { children: new Map() }));
    node = child;
  }
  return Math.min(hits, Math.floor((row.input_length - 1) / blockTokens));
}

describe(`Mooncake conversation trace${present ? '' : ' (trace file absent: nothing checked)'}`, () => {
  it('has the known LRU hit shares', () => {
    if (!present) return;
    const known = [
      [1000, 0.0445],
      [5000, 0.1104],
      [10_000, 0.2112],
      [30_000, 0.3257],
      [100_000, 0.3637],
      [1_000_000, 0.3664],
    ] as const;
    for (const [capacityBlocks, share] of known) {
      const store = createTierStore({ name: 'G2', capacityBlocks });
      let [hits, blocks] = [0, 0];
      for (const row of rows) {
        for (const id of row.hash_ids) {
          if (tierHolds(store, id + 1)) hits++;
          blocks++;
          storeInTier(store, id + 1, 0, null);
        }
      }
      expect(hits / blocks).toBeCloseTo(share, 4);
    }
  });

  it('is hit by an unlimited pool as by a trie, request by request', () => {
    if (!present) return;
    const pool = createBlockPool({ capacityBlocks: 2_500_000, blockTokens: 64 });
    const root: TrieNode = { children: new Map() };
    const chain = new Float64Array(4096);
    for (const row of rows.slice(0, 6000)) {
      const length = expandTraceBlocks(row.hash_ids, row.input_length, 64, chain);
      const sequence = openSequence(pool, chain, length, row.input_length, Number.POSITIVE_INFINITY, null);
      expect(sequenceHitTokens(pool, sequence)).toBe(trieHits(root, row, 64) * 64);
      releaseSequence(pool, sequence, null);
    }
    expect(checkBlockPool(pool)).toEqual([]);
  });

  it('gives the router, once events have arrived, exactly what each worker holds', () => {
    if (!present) return;
    const workers = 6;
    const index = createPrefixIndex(workers);
    const pools = Array.from({ length: workers }, () => createBlockPool({ capacityBlocks: 8000, blockTokens: 64 }));
    const counts = new Int32Array(workers);
    const events = createKvEventBuffer();
    const chain = new Float64Array(4096);
    for (const [number, row] of rows.slice(0, 5000).entries()) {
      const length = expandTraceBlocks(row.hash_ids, row.input_length, 64, chain);
      overlapBlocks(index, chain, length, counts);
      const held = pools.map((pool) => matchPrefix(pool, chain, length));
      expect([...counts]).toEqual(held);
      const most = Math.max(...held);
      const chosen = most > 16 ? held.indexOf(most) : number % workers;
      const pool = pools[chosen]!;
      clearKvEvents(events);
      releaseSequence(pool, openSequence(pool, chain, length, row.input_length, Number.POSITIVE_INFINITY, events), events);
      applyKvEvents(index, chosen, events);
    }
    expect(index.idleEvents).toBe(0);
    for (const pool of pools) expect(checkBlockPool(pool)).toEqual([]);
  });
});
