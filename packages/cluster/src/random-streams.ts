import { WORKLOAD_STREAMS, type WorkloadStreams } from '@braess/workload';

/**
 * Uniform numbers in [0, 1) for a workload drawn before the run: one stream a purpose, by name and seed, and in a mixture by part. The generator is sfc32
 * (C. Doty-Humphrey's small fast counting generator, public domain, passes PractRand), seeded by FNV-1a over the name.
 */
export function workloadStreams(seed: string | number, part?: string): WorkloadStreams {
  const place = part === undefined ? `${seed}/workload` : `${seed}/workload/${part}`;
  return Object.fromEntries(WORKLOAD_STREAMS.map((name) => [name, uniformStream(`${place}/${name}`)])) as unknown as WorkloadStreams;
}

/** One stream of uniform numbers in [0, 1), 32 bits each. */
export function uniformStream(name: string): () => number {
  let a = hashText(name, 0x811c9dc5);
  let b = hashText(name, 0x9e3779b9);
  let c = hashText(name, 0x85ebca6b);
  let counter = 1;
  const next = (): number => {
    const sum = (((a + b) | 0) + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (c << 21) | (c >>> 11);
    c = (c + sum) | 0;
    return (sum >>> 0) / 4294967296;
  };
  // The author's advice: mix the seed before use.
  for (let round = 0; round < 15; round++) next();
  return next;
}

function hashText(text: string, basis: number): number {
  let hash = basis;
  for (let index = 0; index < text.length; index++) hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  return hash | 0;
}
