import { WORKLOAD_STREAMS, type WorkloadStreams } from '@braess/workload';

/** Mulberry32-like uniform numbers for tests. */
export function uniformFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

export function streamsFrom(seed: number): WorkloadStreams {
  return Object.fromEntries(WORKLOAD_STREAMS.map((name, index) => [name, uniformFrom(seed * 1000 + index)])) as unknown as WorkloadStreams;
}
