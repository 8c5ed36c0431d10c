/** Small seeded generator for tests (mulberry32, public domain), uniform in [0, 1). */
export function seededUniform(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** `count` distinct whole numbers below `limit`. */
export function distinctBelow(uniform: () => number, limit: number, count: number): number[] {
  const all = Array.from({ length: limit }, (_unused, index) => index);
  for (let i = 0; i < count; i++) {
    const j = i + Math.floor(uniform() * (limit - i));
    [all[i], all[j]] = [all[j]!, all[i]!];
  }
  return all.slice(0, count);
}
