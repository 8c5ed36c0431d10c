import type { Model } from './model.js';

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
  /** Its kind says where it sends. */
  declaredFlag: 1 << 17,
} as const;

const { actorWords, cellWord, declaredFlag, laneAWord, laneBWord, shardWord, streamWord } = actorLayout;

/** Where the lanes of every fingerprint begin. */
const firstLaneA = 0x243f6a88;
const firstLaneB = 0x13198a2e;

/** The lines of all actors at the start of a run. */
export function actorLinesOf(model: Model, shardOfCell: Int32Array): Int32Array<ArrayBuffer> {
  const lines = new Int32Array(model.actorNames.length * actorWords);
  const flags = model.kinds.map(({ sendsTo }) => (sendsTo === undefined ? 0 : declaredFlag));
  for (let actor = 0; actor < model.actorNames.length; actor++) {
    const at = actor * actorWords;
    const cell = model.cellOfActor[actor] as number;
    const kind = model.kindOfActor[actor] as number;
    lines[at] = kind | (flags[kind] as number);
    lines[at + cellWord] = cell;
    lines[at + shardWord] = shardOfCell[cell] as number;
    lines[at + streamWord] = model.streamBase[actor] as number;
    lines[at + laneAWord] = firstLaneA;
    lines[at + laneBWord] = firstLaneB;
  }
  return lines;
}

/** Lanes a and b, then the count, of each actor's records at the start of a run. */
export function recordLinesOf(model: Model): Int32Array {
  const lines = new Int32Array(model.actorNames.length * 3);
  for (let at = 0; at < lines.length; at += 3) {
    lines[at] = firstLaneA;
    lines[at + 1] = firstLaneB;
  }
  return lines;
}

/** Kinds x classes: 1 for a class that a kind with `sendsTo` does not list. */
export function undeclaredClasses(model: Model): Uint8Array {
  return Uint8Array.from(
    model.kinds.flatMap(({ sendsTo }) => model.lookahead.classNames.map((name) => (sendsTo?.includes(name) === false ? 1 : 0))),
  );
}
