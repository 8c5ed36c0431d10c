/**
 * The transport of one shard: frames to and from each other shard, in order, none lost. The shard loop knows nothing else of how shards are
 * connected; memory, shared rings, a delaying bridge and a network all stand behind this.
 */
export interface ShardLink {
  /** Hands over a frame: the first `wordCount` words (they are copied before the call returns). Holds the caller until there is room. */
  send(toShard: number, frame: Float64Array<ArrayBuffer>, wordCount: number): void;
  /** The next frame from a shard, or undefined when none has arrived. Valid until the next `receive` from that shard. */
  receive(fromShard: number): Float64Array<ArrayBuffer> | undefined;
  /** Holds the caller until something may have arrived, or `deadlineMs` (of the wall clock) has passed. @throws KernelError `stopped` after an abort. */
  wait(deadlineMs: number): void;
  /** True once the run is to end. */
  readonly aborted: boolean;
}

/** Connects shards that run interleaved on one thread. */
export function createMemoryLinks(shardCount: number): ShardLink[] {
  const queues = Array.from({ length: shardCount * shardCount }, () => [] as Float64Array<ArrayBuffer>[]);
  return Array.from({ length: shardCount }, (_, shard) => ({
    send: (to: number, frame: Float64Array<ArrayBuffer>, wordCount: number) => {
      (queues[shard * shardCount + to] as Float64Array<ArrayBuffer>[]).push(frame.slice(0, wordCount));
    },
    receive: (from: number) => (queues[from * shardCount + shard] as Float64Array<ArrayBuffer>[]).shift(),
    wait: () => undefined,
    aborted: false,
  }));
}
