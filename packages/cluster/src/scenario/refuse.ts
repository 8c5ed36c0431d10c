import { dirname, resolve } from 'node:path';
import { didYouMean, placeOf } from './document.js';
import { pathText, ScenarioError } from './problem.js';
import type { ReadScenario } from './read-scenario.js';

/** A file named in a scenario, looked for beside the file that names it (a setting: where the command runs). */
export function besideScenario(read: ReadScenario, path: readonly PropertyKey[], file: string): string {
  const place = placeOf(read.document, path);
  return place.line === 0 ? resolve(file) : resolve(dirname(place.file), file);
}

/** Refuses a value of a scenario: the message follows its path. @throws ScenarioError with the value's place. */
export function refuse(read: ReadScenario, path: readonly PropertyKey[], message: string): never {
  throw new ScenarioError([{ place: placeOf(read.document, path), path: pathText(path), message }]);
}

/** The entry of a name. @throws ScenarioError that lists the names there are. */
export function named<T>(read: ReadScenario, entries: ReadonlyMap<string, T>, path: readonly PropertyKey[], name: string, what: string): T {
  const entry = entries.get(name);
  if (entry !== undefined) return entry;
  const names = [...entries.keys()];
  refuse(read, path, `is "${name}", no known ${what}; known are ${names.join(', ')}${didYouMean(name, names)}`);
}
