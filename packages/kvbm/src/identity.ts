/**
 * Identity of a KV block: a chained hash, `identity = hash(parent identity, content id)`, so that equal identities mean equal prefixes up to and
 * including the block. An identity is an integer in 1..2^53-1 (exact in a double); 0 means "no block" and stands for the parent of a first block.
 *
 * Two 32-bit lanes are mixed and 21 + 32 bits kept. The chance that any two of n distinct blocks collide is about n^2 / 2^54 (birthday bound):
 * 6e-5 for a million blocks, 0.6 % for ten million. A collision shows as one false hit of one block, never as a broken structure.
 */

/** The parent of a first block, and the identity of a block that nobody can ever look up. */
export const NO_IDENTITY = 0;

/** Tokens that one hash id of a Mooncake trace stands for (Qin et al., Mooncake, FAST 2025, trace format). */
export const TRACE_BLOCK_TOKENS = 512;

const TWO_32 = 4294967296;

/** Finaliser of MurmurHash3 (Appleby, public domain): each input bit flips each output bit with probability close to 1/2. */
function finalise(lane: number): number {
  let h = lane;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return h ^ (h >>> 16);
}

/** Identity of the block with this content behind `parent` (0: first block). `content` is any integer in 0..2^53-1 that names the block's tokens. */
export function chainIdentity(parent: number, content: number): number {
  const parentLow = parent | 0;
  const parentHigh = (parent / TWO_32) | 0;
  const contentLow = content | 0;
  const contentHigh = (content / TWO_32) | 0;
  // Odd multipliers of xxHash32 (Collet, BSD) keep the four words apart before each lane is finalised with the other one folded in.
  const low = finalise(
    Math.imul(parentLow, 0x9e3779b1) + Math.imul(contentLow, 0x85ebca77) + Math.imul(contentHigh, 0x27d4eb2f) + parentHigh,
  );
  const high = finalise(
    low ^ (Math.imul(parentHigh, 0xc2b2ae3d) + Math.imul(parentLow, 0x165667b1) + contentLow + Math.imul(contentHigh, 0x9e3779b1)),
  );
  // A second round over the low lane: without it the two lanes would share the low lane's collisions.
  const mixed = finalise(low + Math.imul(high, 0x85ebca77) + 0x165667b1);
  const identity = (high >>> 11) * TWO_32 + (mixed >>> 0);
  return identity === 0 ? 1 : identity;
}

/** Full engine blocks of `tokens` tokens; the partial last block has no identity until it is filled. */
export function fullBlocks(tokens: number, blockTokens: number): number {
  return Math.floor(tokens / blockTokens);
}

/**
 * Expands a trace's hash ids (each for `traceBlockTokens` tokens, the last one partial) to the identities of the full engine blocks of the first
 * `inputTokens` tokens, written to `out` from index 0. Returns how many were written: floor(inputTokens / blockTokens).
 *
 * Throws a RangeError when the trace block is no multiple of the engine block, when the hash ids do not cover the tokens, or when `out` is too short.
 */
export function expandTraceBlocks(
  traceIds: ArrayLike<number>,
  inputTokens: number,
  blockTokens: number,
  out: Float64Array,
  traceBlockTokens: number = TRACE_BLOCK_TOKENS,
): number {
  checkExpansion(traceIds.length, inputTokens, blockTokens, out.length, traceBlockTokens);
  const blocks = fullBlocks(inputTokens, blockTokens);
  const perTraceBlock = traceBlockTokens / blockTokens;
  let parent = NO_IDENTITY;
  let written = 0;
  for (let index = 0; written < blocks; index++) {
    const firstContent = traceIds[index]! * perTraceBlock;
    for (let part = 0; part < perTraceBlock && written < blocks; part++) {
      parent = chainIdentity(parent, firstContent + part);
      out[written++] = parent;
    }
  }
  return written;
}

/**
 * Continues a chain with `count` blocks whose content only `owner` has (for example the output of request `owner`, which a later turn of the same
 * session may look up), written to `out` from index `from`; the block before is `out[from - 1]`. `owner` must lie in 0..2^32-1. Returns `from + count`.
 */
export function extendChain(out: Float64Array, from: number, count: number, owner: number): number {
  if (from + count > out.length) {
    throw new RangeError(
      `chain of ${out.length} blocks: cannot extend to ${from + count}; allocate the array for the input and output blocks`,
    );
  }
  // Bit 52 keeps these contents apart from those of trace blocks; 20 bits hold the index in the chain.
  let parent = from === 0 ? NO_IDENTITY : out[from - 1]!;
  for (let index = from; index < from + count; index++) {
    parent = chainIdentity(parent, 4503599627370496 + owner * 1048576 + (index & 0xfffff));
    out[index] = parent;
  }
  return from + count;
}

function checkExpansion(ids: number, inputTokens: number, blockTokens: number, room: number, traceBlockTokens: number): void {
  if (!(Number.isInteger(blockTokens) && blockTokens > 0 && traceBlockTokens % blockTokens === 0)) {
    throw new RangeError(`block of ${blockTokens} tokens: must divide the trace's block of ${traceBlockTokens} tokens; use 16, 32 or 64`);
  }
  if (!(Number.isInteger(inputTokens) && inputTokens >= 0)) {
    throw new RangeError(`input of ${inputTokens} tokens: must be an integer of 0 or more`);
  }
  if (ids * traceBlockTokens < inputTokens) {
    throw new RangeError(
      `${ids} hash ids of ${traceBlockTokens} tokens: cover only ${ids * traceBlockTokens} of ${inputTokens} input tokens; the trace row is short of ids`,
    );
  }
  if (room < fullBlocks(inputTokens, blockTokens)) {
    throw new RangeError(
      `chain of ${room} blocks: ${inputTokens} tokens need ${fullBlocks(inputTokens, blockTokens)}; allocate a longer array`,
    );
  }
}
