import type { OverlapIndex } from '@braess/control';
import { applyKvEvents, clearWorker, createPrefixIndex, overlapBlocks, type PrefixIndex, removeBlock } from '@braess/kvbm';

/** The router's view of which engine holds which prompt blocks, backed by kvbm's prefix index. */
export const prefixOverlap: OverlapIndex<PrefixIndex> = {
  createState: (engines) => createPrefixIndex(engines),
  apply(index, engine, events) {
    // Columns of a message are exactly as long as they have rows.
    applyKvEvents(index, engine, { length: events.kinds.length, limit: events.kinds.length, namedOnly: true, ...events });
  },
  remove: (index, engine, identity) => removeBlock(index, engine, identity),
  overlap(index, chain, counts) {
    overlapBlocks(index, chain, chain.length, counts);
  },
  clear: (index, engine) => clearWorker(index, engine),
};
