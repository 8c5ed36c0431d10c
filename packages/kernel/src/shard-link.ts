/** A frame: its first `length` words count; `integers` is the same memory as int32. The first int32 is the length. */
export interface Frame {
  words: Float64Array<ArrayBuffer>;
  integers: Int32Array<ArrayBuffer>;
  length: number;
}

/**
 * Words of a frame before its vectors: (length in words, bytes of the batch), first event, (round, flags), (version, model digest), time reached,
 * first pending event (the first event of a live shard is no later than its floor, under which no input can enter).
 */
export const frameHeaderWords = 6;

/** Words of a frame before its batch of messages: the header, then for every shard what was sent to it and until when it hears nothing. */
export function frameFrontWords(shardCount: number): number {
  return frameHeaderWords + 2 * shardCount;
}

/** A frame of its own memory, holding a copy of the first `length` words. */
export function copyFrame(words: Float64Array<ArrayBuffer>, length: number): Frame {
  const copy = words.slice(0, length);
  return { words: copy, integers: new Int32Array(copy.buffer), length };
}

/**
 * The transport of one shard: frames to and from each other shard, in order, none lost. The shard loop knows nothing else of how shards are
 * connected; memory, shared rings, a delaying bridge and a network all stand behind this.
 */
export interface ShardLink {
  /** Hands over a frame: the first `wordCount` words (they are copied before the call returns). Holds the caller until there is room. */
  send(toShard: number, frame: Float64Array<ArrayBuffer>, wordCount: number): void;
  /** The next frame from a shard, or undefined when none has arrived. Valid until the next `receive` from that shard. */
  receive(fromShard: number): Frame | undefined;
  /** Holds the caller until something may have arrived. @throws KernelError `stopped` after an abort. */
  wait(): void;
  /** Sleeps until `untilMs` (of the wall clock), or until something wakes this shard: an abort, input, perhaps a frame. */
  pause(untilMs: number): void;
  /** True once the run is to end. */
  readonly aborted: boolean;
}

/** Connects shards that run interleaved on one thread. */
export function createMemoryLinks(shardCount: number): ShardLink[] {
  const queues = Array.from({ length: shardCount * shardCount }, () => [] as Frame[]);
  return Array.from({ length: shardCount }, (_, shard) => ({
    send: (to: number, frame: Float64Array<ArrayBuffer>, wordCount: number) => {
      (queues[shard * shardCount + to] as Frame[]).push(copyFrame(frame, wordCount));
    },
    receive: (from: number) => (queues[from * shardCount + shard] as Frame[]).shift(),
    wait: () => undefined,
    pause: () => undefined,
    aborted: false,
  }));
}
