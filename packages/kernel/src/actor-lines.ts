/** int32 words of an actor's line: kind and flag, cell, shard, first random stream, fingerprint lanes a and b, then its sequence number (a double). */
export const actorWords = 8;
export const cellWord = 1;
export const shardWord = 2;
export const streamWord = 3;
export const laneAWord = 4;
export const laneBWord = 5;
export const sequenceDouble = 3;
export const actorKindMask = 0xffff;
export const promisedFlag = 1 << 16;
