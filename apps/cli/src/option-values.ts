import { InvalidArgumentError } from 'commander';

/** Reads the name of a folder: '' is what a shell gives for a variable that is not set, and would be the folder where the command runs. */
export function folderName(text: string): string {
  if (text === '') throw new InvalidArgumentError('It must name a folder.');
  return text;
}

/** Reads the name of a file. */
export function fileName(text: string): string {
  if (text === '') throw new InvalidArgumentError('It must name a file.');
  return text;
}

/** Reads a whole number within a range. @throws InvalidArgumentError that names the range. */
export function wholeNumber(least: number, most: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (text.trim() !== '' && Number.isInteger(value) && value >= least && value <= most) return value;
    throw new InvalidArgumentError(`It must be a whole number from ${least} to ${most}.`);
  };
}

/** Reads a number within a range. @throws InvalidArgumentError that names the range. */
export function realNumber(least: number, most: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (text.trim() !== '' && value >= least && value <= most) return value;
    throw new InvalidArgumentError(`It must be a number from ${least} to ${most}.`);
  };
}

/** Reads a count of shards, or 'auto'. */
export function shardCount(text: string): number | 'auto' {
  if (text === 'auto') return text;
  const value = Number(text);
  if (text.trim() !== '' && Number.isInteger(value) && value >= 1 && value <= 64) return value;
  throw new InvalidArgumentError("It must be a whole number from 1 to 64, or 'auto'.");
}

/** Collects the values of an option that takes several. */
export function listOf<Value>(read: (text: string) => Value): (text: string, before: Value[] | undefined) => Value[] {
  return (text, before = []) => [...before, read(text)];
}

/** Reads a seed: any text but an empty one. */
export function seedText(text: string): string {
  if (text !== '') return text;
  throw new InvalidArgumentError('It must be a text of at least one character.');
}

/** Reads `path=value`; what stands there is for the scenario to judge. */
export function settingText(text: string): string {
  if (text.indexOf('=') > 0) return text;
  throw new InvalidArgumentError('It must have the form path=value, e.g. router.policy=kv or serving[0].count=4.');
}
