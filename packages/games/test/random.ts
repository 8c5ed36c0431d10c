/** A small repeatable stream in [0, 1) for tests: the minimal standard generator of S. K. Park and K. W. Miller, 1988. */
export function testStream(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 48271) % 2147483647;
    return state / 2147483647;
  };
}
