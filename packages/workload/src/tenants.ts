import type { Uniform } from './distributions.js';
import { checkPositive } from './lengths.js';
import type { RequestTable } from './requests.js';

/** A tenant: its share of the requests, its priority (larger is more urgent) and its latency objectives. */
export interface TenantSpec {
  name: string;
  /** Relative weight; shares need not add up to 1. */
  share: number;
  priority?: number;
  slo?: { ttftMs?: number; tpotMs?: number; itlMs?: number; e2eMs?: number };
}

/** Cumulative weights for choices by weight; the last entry is the total. */
export type WeightedChoice = Float64Array;

export function createWeightedChoice(weights: ArrayLike<number>, name: string): WeightedChoice {
  if (weights.length === 0) throw new RangeError(`${name}: no entries to choose from; expected at least one`);
  const cumulative = new Float64Array(weights.length);
  let sum = 0;
  for (let index = 0; index < weights.length; index++) {
    const weight = weights[index]!;
    if (!(weight >= 0 && Number.isFinite(weight)))
      throw new RangeError(`${name}[${index}]: weight ${weight}; must be a finite number, 0 or more`);
    sum += weight;
    cumulative[index] = sum;
  }
  if (!(sum > 0)) throw new RangeError(`${name}: all weights are 0; at least one must be above`);
  return cumulative;
}

/** An index with probability proportional to its weight; one draw, binary search. */
export function chooseWeighted(choice: WeightedChoice, uniform: Uniform): number {
  const target = uniform() * choice[choice.length - 1]!;
  let low = 0;
  let high = choice.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (choice[middle]! > target) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Weights of Zipf's law: 1 / rank^exponent. */
export function zipfWeights(count: number, exponent: number): Float64Array {
  const weights = new Float64Array(count);
  for (let rank = 1; rank <= count; rank++) weights[rank - 1] = Math.exp(-exponent * Math.log(rank));
  return weights;
}

/** Checks the tenants and prepares the choice among them. */
export function createTenantChoice(tenants: TenantSpec[]): WeightedChoice {
  const names = new Set<string>();
  for (const [index, tenant] of tenants.entries()) {
    if (tenant.name === '' || names.has(tenant.name))
      throw new RangeError(`tenants[${index}].name is "${tenant.name}"; must be new and not empty`);
    names.add(tenant.name);
    if (tenant.priority !== undefined && !Number.isFinite(tenant.priority)) {
      throw new RangeError(`tenants[${index}].priority is ${tenant.priority}; must be a finite number`);
    }
    for (const [name, limitMs] of Object.entries(tenant.slo ?? {})) checkPositive(limitMs, `tenants[${index}].slo.${name}`);
  }
  return createWeightedChoice(
    tenants.map((tenant) => tenant.share),
    'tenants',
  );
}

/** Gives each request of a trace without tenants one by share: one draw a request, one a session at its first request. */
export function assignTenants(table: RequestTable, tenants: TenantSpec[], uniform: Uniform): void {
  const choice = createTenantChoice(tenants);
  const bySession = new Map<number, number>();
  for (let row = 0; row < table.requestCount; row++) {
    const session = table.session[row]!;
    const known = session < 0 ? undefined : bySession.get(session);
    const tenant = known ?? chooseWeighted(choice, uniform);
    if (session >= 0) bySession.set(session, tenant);
    table.tenant[row] = tenant;
  }
  table.tenantNames = tenants.map((tenant) => tenant.name);
}
