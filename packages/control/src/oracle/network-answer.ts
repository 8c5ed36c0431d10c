import type { OracleAnswer, OracleQuestion } from '../policy/control-policies.js';
import type { ReadonlyColumn } from '../policy/policy.js';
import type { CostColumns, NetworkView, TierRows } from '../policy/router-policy.js';
import { networkTiers } from './site.js';

type Columns = { readonly [Column in 'tier' | 'bytesPerSecond' | 'latencyNs' | 'transferNs' | 'congestion']: Float64Array };
type Rows = { -readonly [Row in Exclude<keyof TierRows, 'tier'>]: Float64Array } & { tier: ReadonlyColumn };

/** Most that may be said; the least is 0. */
const limits = {
  congestion: 1,
  bytesPerSecond: Number.MAX_VALUE,
  latencyNs: Number.MAX_VALUE,
  transferNs: Number.POSITIVE_INFINITY,
} as const;
const costNames = ['computeCost', 'cacheCost', 'networkCost'] as const;
const limited = Object.keys(limits) as (keyof typeof limits)[];

const column = (count: number, value: number): Float64Array => new Float64Array(count).fill(value);

/**
 * What an oracle says of each engine, kept by tier where that is all it knows: a handful of numbers instead of five columns. Whoever asks for a column gets it
 * filled then, and from then on the columns hold. One object, reused for every decision.
 */
export class NetworkAnswer implements OracleAnswer, NetworkView {
  readonly pathCongestion: Float64Array;
  readonly #costs: { readonly [Cost in keyof CostColumns]: Float64Array };
  /** Whether anybody has asked for a column of costs, as who tells some must. */
  #costsTold = false;
  readonly #columns: Columns;
  readonly #rows: Rows = {
    tier: [],
    bytesPerSecond: column(networkTiers + 1, Number.NaN),
    latencyNs: column(networkTiers + 1, Number.NaN),
    transferNs: column(networkTiers + 1, Number.NaN),
    congestion: column(networkTiers + 1, Number.NaN),
  };
  #byTier = false;
  #candidates: ReadonlyColumn = [];
  #count = 0;

  constructor(count: number) {
    const unknown = (): Float64Array => column(count, Number.NaN);
    this.pathCongestion = unknown();
    this.#costs = { computeCost: unknown(), cacheCost: unknown(), networkCost: unknown() };
    this.#columns = {
      tier: column(count, -1),
      bytesPerSecond: unknown(),
      latencyNs: unknown(),
      transferNs: unknown(),
      congestion: unknown(),
    };
  }

  get tier(): Float64Array {
    return this.#spread().tier;
  }

  get bytesPerSecond(): Float64Array {
    return this.#spread().bytesPerSecond;
  }

  get latencyNs(): Float64Array {
    return this.#spread().latencyNs;
  }

  get transferNs(): Float64Array {
    return this.#spread().transferNs;
  }

  get congestion(): Float64Array {
    return this.#spread().congestion;
  }

  get computeCost(): Float64Array {
    return this.#tellCosts().computeCost;
  }

  get cacheCost(): Float64Array {
    return this.#tellCosts().cacheCost;
  }

  get networkCost(): Float64Array {
    return this.#tellCosts().networkCost;
  }

  get costs(): CostColumns | null {
    return this.#costsTold ? this.#costs : null;
  }

  get byTier(): TierRows | null {
    return this.#byTier ? this.#rows : null;
  }

  /** The distance, and the time of the whole transfer, of one engine, without filling columns for it. */
  tierOf(engine: number): number {
    return (this.#byTier ? this.#rows.tier : this.#columns.tier)[engine]!;
  }

  transferNsOf(engine: number): number {
    return this.#byTier ? this.#rows.transferNs[this.#rows.tier[engine]! + 1]! : this.#columns.transferNs[engine]!;
  }

  /** Latency of the way to an engine, 0 where it is unknown. */
  latencyNsOf(engine: number): number {
    const { latencyNs } = this.#byTier ? this.#rows : this.#columns;
    const told = latencyNs[this.#byTier ? this.#rows.tier[engine]! + 1 : engine]!;
    return Number.isNaN(told) ? 0 : told;
  }

  answerByTier(
    question: Pick<OracleQuestion, 'candidates' | 'count' | 'transferBytes'>,
    tiers: ReadonlyColumn,
    congestion: ReadonlyColumn,
    bytesPerSecond: ReadonlyColumn,
    latencyNs: ReadonlyColumn,
  ): void {
    const rows = this.#rows;
    rows.tier = tiers;
    for (let tier = 0; tier < networkTiers; tier++) {
      rows.bytesPerSecond[tier + 1] = bytesPerSecond[tier]!;
      rows.latencyNs[tier + 1] = latencyNs[tier]!;
      rows.congestion[tier + 1] = congestion[tier]!;
      rows.transferNs[tier + 1] = (question.transferBytes / (bytesPerSecond[tier]! * (1 - congestion[tier]!))) * 1e9 + latencyNs[tier]!;
    }
    this.#candidates = question.candidates;
    this.#count = question.count;
    this.#byTier = true;
  }

  /**
   * Whether what was said can be: a distance, bandwidth, time, load and cost within their limits, or unknown.
   * @throws RangeError naming the engine or tier, the value and the limit.
   */
  check({ candidates, count, paths = true }: Pick<OracleQuestion, 'candidates' | 'count'> & { readonly paths?: boolean }): void {
    if (paths) checkColumn(this.pathCongestion, candidates, count, 'pathCongestion', 1);
    if (this.#costsTold) for (const name of costNames) checkColumn(this.#costs[name], candidates, count, name, Number.MAX_VALUE);
    if (this.#byTier) {
      // In a handful of numbers: a distance that cannot be is the router's to find, as a cost that is no number.
      for (let row = 1; row <= networkTiers; row++) this.#checkNumbers(this.#rows, row, () => `tier ${row - 1}`);
      return;
    }
    for (let place = 0; place < count; place++) {
      const engine = candidates[place]!;
      const tier = this.#columns.tier[engine]!;
      if (!(Number.isInteger(tier) && tier >= -1 && tier < networkTiers)) throw tierFault(engine, tier);
      this.#checkNumbers(this.#columns, engine, () => `engine ${engine}`);
    }
  }

  #checkNumbers(values: { readonly [name in keyof typeof limits]: Float64Array }, at: number, where: () => string): void {
    for (const name of limited) {
      const value = values[name][at]!;
      if (value < 0 || value > limits[name]) throw numberFault(value, name, limits[name], where());
    }
  }

  /** Nothing is known of the network. */
  forget(): void {
    this.#byTier = false;
    const { tier, ...numbers } = this.#columns;
    tier.fill(-1);
    for (const values of [...Object.values(numbers), this.pathCongestion]) values.fill(Number.NaN);
    if (this.#costsTold) for (const name of costNames) this.#costs[name].fill(Number.NaN);
    this.#costsTold = false;
  }

  /** A copy, to tell later by `difference` what was written in between. */
  twin(): NetworkAnswer {
    const twin = new NetworkAnswer(this.pathCongestion.length);
    twin.#rows.tier = Array.from(this.#rows.tier);
    const copies = twin.#stores();
    for (const [place, [, values]] of this.#stores().entries()) (copies[place]![1] as Float64Array).set(values);
    twin.#byTier = this.#byTier;
    twin.#candidates = this.#candidates;
    twin.#count = this.#count;
    return twin;
  }

  /** The first number that is not what it was when the twin was made: where, what it was and is. Columns that were asked for since are no difference. */
  difference(twin: NetworkAnswer): { readonly place: string; readonly was: number; readonly is: number } | undefined {
    if (twin.#byTier && !this.#byTier) twin.#spread();
    const stores = (answer: NetworkAnswer): (readonly [string, ReadonlyColumn])[] => [
      ...answer.#stores(),
      ['byTier.tier', answer.#rows.tier],
    ];
    const before = stores(twin);
    for (const [place, [name, values]] of stores(this).entries()) {
      const was = before[place]![1];
      for (let at = 0; at < was.length; at++)
        if (!Object.is(values[at], was[at])) return { place: `${name}[${at}]`, was: was[at]!, is: values[at]! };
    }
    return undefined;
  }

  #stores(): (readonly [string, Float64Array])[] {
    const { tier: _, ...rows } = this.#rows;
    return [
      ['pathCongestion', this.pathCongestion],
      ...Object.entries(this.#columns),
      ...Object.entries(this.#costs),
      ...Object.entries(rows).map(([name, values]) => [`byTier.${name}`, values] as const),
    ];
  }

  #tellCosts(): { readonly [Cost in keyof CostColumns]: Float64Array } {
    this.#costsTold = true;
    return this.#costs;
  }

  #spread(): Columns {
    const columns = this.#columns;
    if (!this.#byTier) return columns;
    this.#byTier = false;
    const rows = this.#rows;
    for (let place = 0; place < this.#count; place++) {
      const engine = this.#candidates[place]!;
      const row = rows.tier[engine]! + 1;
      columns.tier[engine] = row - 1;
      columns.bytesPerSecond[engine] = rows.bytesPerSecond[row]!;
      columns.latencyNs[engine] = rows.latencyNs[row]!;
      columns.transferNs[engine] = rows.transferNs[row]!;
      columns.congestion[engine] = rows.congestion[row]!;
    }
    return columns;
  }
}

function checkColumn(values: Float64Array, candidates: ReadonlyColumn, count: number, name: string, most: number): void {
  for (let place = 0; place < count; place++) {
    const value = values[candidates[place]!]!;
    if (value < 0 || value > most) throw numberFault(value, name, most, `engine ${candidates[place]}`);
  }
}

function numberFault(value: number, name: string, most: number, where: string): RangeError {
  const allowed = most === 1 ? 'from 0 to 1' : most === Number.MAX_VALUE ? 'of 0 or more, and finite' : 'of 0 or more';
  return new RangeError(`says ${name} of ${where} is ${value}; it must be a number ${allowed}, or NaN where it is unknown`);
}

function tierFault(engine: number, tier: number): RangeError {
  const allowed = `a whole number from 0 to ${networkTiers - 1}, or -1 where it is unknown`;
  return new RangeError(`says engine ${engine} is in tier ${tier}; it must be ${allowed}`);
}
