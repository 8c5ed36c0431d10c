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

/** The items of a list a,b,c in YAML: a comma within quotes, [] or {} parts no items. */
export function listItems(text: string): string[] {
  const items = [''];
  let depth = 0;
  let quote = '';
  for (const character of text) {
    if (quote !== '') quote = character === quote ? '' : quote;
    else if (character === '"' || character === "'") quote = character;
    else if ('[{'.includes(character)) depth++;
    else if (']}'.includes(character)) depth--;
    if (character === ',' && depth <= 0 && quote === '') items.push('');
    else items[items.length - 1] += character;
  }
  return items.map((item) => item.trim());
}
