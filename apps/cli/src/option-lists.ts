import { InvalidArgumentError } from 'commander';
import { wholeNumber } from './option-values.js';

/** Reads `a,b,c`. @throws InvalidArgumentError for an empty item. */
export function commaList(text: string): string[] {
  const items = text.split(',').map((item) => item.trim());
  if (items.includes('')) throw new InvalidArgumentError('It must be one or more values joined by commas.');
  return [...new Set(items)];
}

/** Reads `1,2,3`, whole numbers as request ids are. @throws InvalidArgumentError. */
export function commaNumbers(text: string): number[] {
  return commaList(text).map(wholeNumber(0, 2 ** 31 - 1));
}
