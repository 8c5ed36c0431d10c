import { body, message } from '@braess/kernel';

/** Blocks named by identity, with the parents that make them findable; empty for blocks that nobody can find again. */
export interface BlockList {
  readonly identities: Float64Array;
  readonly parents: Float64Array;
}

/** engine -> tier actor: copy these blocks down (write-through or on eviction). */
export const offload = message('offload', ['blocks', 'transferBytes'], body<BlockList>());

/** The same for evicted blocks of which few are named (0 where there are fewer): without a body, as an engine with a full cache evicts in most of its passes. */
export const offloadFew = message('offloadFew', ['blocks', 'transferBytes', 'block0', 'block1', 'block2', 'block3']);

/** engine -> tier actor: which leading blocks of a chain from `from` on do you hold? `question` names the answer. */
export const lookup = message('lookup', ['question', 'from'], body<{ readonly chain: Float64Array }>());

/** tier actor -> engine: `held` leading blocks are there and pinned until fetched or dropped; a fetch would take about `estimateNs`. */
export const lookupAnswer = message('lookupAnswer', ['question', 'tier', 'held', 'estimateNs']);

/** engine -> tier actor: bring blocks up (0 blocks: only unpin). */
export const fetch = message('fetch', ['question', 'blocks', 'transferBytes']);

/** tier actor -> engine: the blocks have arrived in HBM; `blocks` is 0 when they could not be brought. */
export const fetched = message('fetched', ['question', 'tier', 'blocks']);
