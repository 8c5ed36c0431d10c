import { netkvSuite } from './netkv/suite.js';
import { poaSuite } from './poa/suite.js';
import type { ReproductionSuite } from './suite.js';

const suites: readonly ReproductionSuite[] = [netkvSuite, poaSuite];

/** The suite of a paper, or undefined. */
export function reproductionSuite(name: string): ReproductionSuite | undefined {
  return suites.find((suite) => suite.name === name);
}

export function reproductionSuiteNames(): string[] {
  return suites.map(({ name }) => name);
}
