/** Edit distance of two words: insertions, deletions, replacements and swaps of neighbours (optimal string alignment), letter case apart. */
export function editDistance(left: string, right: string): number {
  const a = left.toLowerCase();
  const b = right.toLowerCase();
  let before: number[] = [];
  let above = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let column = 1; column <= b.length; column++) {
      const same = a[row - 1] === b[column - 1];
      let least = Math.min(
        (above[column] as number) + 1,
        (current[column - 1] as number) + 1,
        (above[column - 1] as number) + (same ? 0 : 1),
      );
      const swapped = row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      if (swapped) least = Math.min(least, (before[column - 2] as number) + 1);
      current.push(least);
    }
    before = above;
    above = current;
  }
  return above[b.length] as number;
}

/** The candidate nearest to a word, when it is near enough to be what was meant: within a third of its length, or one begins with the other. */
export function nearestName(word: string, candidates: readonly string[]): string | undefined {
  let best: string | undefined;
  let least = Number.POSITIVE_INFINITY;
  for (const candidate of candidates) {
    const distance = editDistance(word, candidate);
    if (distance >= least) continue;
    least = distance;
    best = candidate;
  }
  if (best === undefined) return undefined;
  const near = least <= Math.max(1, Math.floor(Math.max(word.length, best.length) / 3));
  if (near) return best;
  return candidates.find((candidate) => word.length >= 3 && candidate.toLowerCase().startsWith(word.toLowerCase()));
}
