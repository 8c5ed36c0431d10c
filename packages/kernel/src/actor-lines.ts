/**
 * What the engine keeps for each actor in a line of eight int32 words: kind and flag, cell, shard, first random stream, fingerprint lanes a and
 * b, then its sequence number (a double). Users take it apart into constants of their own, as with `slotLayout`.
 */
export const actorLayout = {
  actorWords: 8,
  cellWord: 1,
  shardWord: 2,
  streamWord: 3,
  laneAWord: 4,
  laneBWord: 5,
  sequenceDouble: 3,
  actorKindMask: 0xffff,
  promisedFlag: 1 << 16,
} as const;
