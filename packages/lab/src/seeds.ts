/**
 * Seed of one of several runs that differ in nothing else. The first has the scenario's own; after a whole number come the next ones (1, 2, 3, ...), after another
 * text the text with a number (a, a-2, a-3, ...). So runs of two scenarios with the same seed have the same seeds, one by one.
 */
export function seedAt(own: number | string, index: number): string {
  const number = Number(own);
  const isWhole = String(number) === String(own) && Number.isSafeInteger(number + index) && number >= 0;
  if (isWhole) return String(number + index);
  return index === 0 ? String(own) : `${own}-${index + 1}`;
}
