import { type DecodeCurve, maximumStretchPasses, type PassShape } from './timing.js';

/**
 * Measured prefill times by input length, and decode times on rows of equal context, each with its own grid of KV use; between them linear
 * interpolation. Outside the grid the nearest edge holds, and the lookup is counted.
 */
export interface TableTiming {
  kind: 'table';
  capacityTokens: number;
  prefillTokens: Float64Array;
  prefillMs: Float64Array;
  /** Contexts of the rows, ascending. */
  contexts: Float64Array;
  /** Row r spans the points rowStarts[r]..rowStarts[r + 1] - 1. */
  rowStarts: Int32Array;
  uses: Float64Array;
  decodeMs: Float64Array;
  lookups: number;
  clampedPrefillLookups: number;
  clampedDecodeLookups: number;
  /** The last lookup outside: prefill tokens, or KV use and context. */
  lastClampedPrefillTokens: number;
  lastClampedUse: number;
  lastClampedContext: number;
}

/** Raw data of NVIDIA Dynamo's planner profiles, field names as in its interpolation files. */
export interface DynamoProfile {
  prefill_isl: readonly number[];
  prefill_ttft: readonly number[];
  x_kv_usage: readonly number[];
  y_context_length: readonly number[];
  z_itl: readonly number[];
  max_kv_tokens: number | readonly number[];
}

/** Builds a table from a Dynamo profile. Throws with field, index and value on lists of unequal length, numbers out of range or too few points. */
export function importDynamoProfile(profile: DynamoProfile, place: string): TableTiming {
  const isl = numbersOf(profile.prefill_isl, `${place}: prefill_isl`);
  const ttft = numbersOf(profile.prefill_ttft, `${place}: prefill_ttft`);
  const use = numbersOf(profile.x_kv_usage, `${place}: x_kv_usage`);
  const context = numbersOf(profile.y_context_length, `${place}: y_context_length`);
  const itl = numbersOf(profile.z_itl, `${place}: z_itl`);
  const capacity: unknown = Array.isArray(profile.max_kv_tokens) ? profile.max_kv_tokens[0] : profile.max_kv_tokens;
  if (isl.length !== ttft.length)
    throw new Error(`${place}: prefill_isl has ${isl.length} values, prefill_ttft ${ttft.length}; they must pair up`);
  if (use.length !== context.length || use.length !== itl.length) {
    throw new Error(
      `${place}: x_kv_usage, y_context_length, z_itl have ${use.length}, ${context.length}, ${itl.length} values; they must match`,
    );
  }
  if (typeof capacity !== 'number' || !Number.isFinite(capacity) || capacity < 1)
    throw new Error(`${place}: max_kv_tokens is ${shown(capacity)}; must be a finite number of at least 1`);
  const prefillOrder = isl.map((_, index) => index).sort((a, b) => isl[a]! - isl[b]!);
  const decodeOrder = use.map((_, index) => index).sort((a, b) => context[a]! - context[b]! || use[a]! - use[b]!);
  for (let i = 1; i < prefillOrder.length; i++) {
    if (isl[prefillOrder[i]!] === isl[prefillOrder[i - 1]!]) throw new Error(`${place}: prefill_isl has ${isl[prefillOrder[i]!]} twice`);
  }
  const contexts: number[] = [];
  const rowStarts: number[] = [];
  for (const [position, index] of decodeOrder.entries()) {
    const before = position > 0 ? decodeOrder[position - 1]! : -1;
    if (before < 0 || context[before] !== context[index]) {
      contexts.push(context[index]!);
      rowStarts.push(position);
    } else if (use[before] === use[index]) {
      throw new Error(`${place}: KV use ${use[index]} at context ${context[index]} is given twice`);
    }
  }
  rowStarts.push(decodeOrder.length);
  return {
    kind: 'table',
    capacityTokens: capacity,
    prefillTokens: Float64Array.from(prefillOrder, (index) => isl[index]!),
    prefillMs: Float64Array.from(prefillOrder, (index) => ttft[index]!),
    contexts: Float64Array.from(contexts),
    rowStarts: Int32Array.from(rowStarts),
    uses: Float64Array.from(decodeOrder, (index) => use[index]!),
    decodeMs: Float64Array.from(decodeOrder, (index) => itl[index]!),
    lookups: 0,
    clampedPrefillLookups: 0,
    clampedDecodeLookups: 0,
    lastClampedPrefillTokens: -1,
    lastClampedUse: -1,
    lastClampedContext: -1,
  };
}

/** Forgets what was looked up: counts are those of one engine, whoever asked the table before. */
export function forgetLookups(timing: TableTiming): void {
  timing.lookups = 0;
  timing.clampedPrefillLookups = 0;
  timing.clampedDecodeLookups = 0;
}

/** One sentence for each kind of lookup that fell outside the table; none when all fell inside. */
export function tableWarnings(timing: TableTiming): string[] {
  const warnings: string[] = [];
  const grid = timing.prefillTokens;
  if (timing.clampedPrefillLookups > 0) {
    const range = `${grid[0]}..${grid[grid.length - 1]}`;
    warnings.push(
      `timing table: ${timing.clampedPrefillLookups} of ${timing.lookups} lookups had a prefill length outside ${range} (last ${timing.lastClampedPrefillTokens}); the edge value was used`,
    );
  }
  if (timing.clampedDecodeLookups > 0) {
    warnings.push(
      `timing table: ${timing.clampedDecodeLookups} of ${timing.lookups} lookups had a KV use or context outside the grid (last use ${timing.lastClampedUse}, context ${timing.lastClampedContext}); the edge value was used`,
    );
  }
  return warnings;
}

/** A line over the pass number: value at pass 0, step per pass, and the passes for which it holds. Reused, never state. */
const lowLine = { value: 0, step: 0, valid: 0, clamped: false };
const highLine = { value: 0, step: 0, valid: 0, clamped: false };

/**
 * With mean context and KV use both linear in the pass number, a row is linear and the blend of two rows quadratic, until a grid line is crossed.
 */
export function tableCurve(timing: TableTiming, sequences: number, contextTokens: number, curve: DecodeCurve): void {
  const context = contextTokens / sequences;
  const use = contextTokens / timing.capacityTokens;
  const useStep = sequences / timing.capacityTokens;
  const last = timing.contexts.length - 1;
  const row = rowBelow(timing.contexts, context);
  const low = Math.max(0, row);
  const high = row < 0 || row === last ? low : row + 1;
  rowLine(timing, low, use, useStep, lowLine);
  rowLine(timing, high, use, useStep, highLine);
  let weight = 0;
  let weightStep = 0;
  let valid = Math.min(lowLine.valid, highLine.valid);
  if (high !== low) {
    weightStep = 1 / (timing.contexts[high]! - timing.contexts[low]!);
    weight = (context - timing.contexts[low]!) * weightStep;
    valid = Math.min(valid, passesTo(context, 1, timing.contexts[high]!));
  } else if (row < 0) {
    valid = Math.min(valid, passesTo(context, 1, timing.contexts[0]!));
  }
  timing.lookups++;
  if (lowLine.clamped || highLine.clamped || context < timing.contexts[0]! || context > timing.contexts[last]!) {
    timing.clampedDecodeLookups++;
    timing.lastClampedUse = use;
    timing.lastClampedContext = context;
  }
  const gap = highLine.value - lowLine.value;
  const gapStep = highLine.step - lowLine.step;
  curve.c0Ns = (lowLine.value + weight * gap) * 1e6;
  curve.c1Ns = (lowLine.step + weight * gapStep + weightStep * gap) * 1e6;
  curve.c2Ns = weightStep * gapStep * 1e6;
  curve.validPasses = valid;
}

/** Chunks take the difference of the prefill times at their end and their start; decodes of the same pass come on top. */
export function tableMixedNs(timing: TableTiming, shape: PassShape): number {
  let ms = 0;
  if (shape.prefillTokens > 0) {
    const start = (shape.prefillContextTokens - shape.prefillTokens) / shape.prefillSequences;
    ms += prefillMsAt(timing, start + shape.prefillTokens);
    if (start > 0) ms -= prefillMsAt(timing, start);
  }
  if (shape.decodeSequences > 0) {
    tableCurve(timing, shape.decodeSequences, shape.decodeContextTokens, scratchCurve);
    ms += scratchCurve.c0Ns / 1e6;
  }
  return ms * 1e6;
}

const scratchCurve: DecodeCurve = { c0Ns: 0, c1Ns: 0, c2Ns: 0, validPasses: 0 };

function prefillMsAt(timing: TableTiming, tokens: number): number {
  const grid = timing.prefillTokens;
  const last = grid.length - 1;
  timing.lookups++;
  if (tokens < grid[0]! || tokens > grid[last]!) {
    timing.clampedPrefillLookups++;
    timing.lastClampedPrefillTokens = tokens;
    return timing.prefillMs[tokens < grid[0]! ? 0 : last]!;
  }
  const point = Math.min(rowBelow(grid, tokens), last - 1);
  const share = (tokens - grid[point]!) / (grid[point + 1]! - grid[point]!);
  return timing.prefillMs[point]! + share * (timing.prefillMs[point + 1]! - timing.prefillMs[point]!);
}

/** The line a row follows from KV use `use` on, and how far. */
function rowLine(timing: TableTiming, row: number, use: number, useStep: number, line: typeof lowLine): void {
  const first = timing.rowStarts[row]!;
  const last = timing.rowStarts[row + 1]! - 1;
  const uses = timing.uses;
  line.step = 0;
  line.clamped = use < uses[first]! || use > uses[last]!;
  if (use < uses[first]!) {
    line.value = timing.decodeMs[first]!;
    line.valid = passesTo(use, useStep, uses[first]!);
    return;
  }
  if (use >= uses[last]!) {
    line.value = timing.decodeMs[last]!;
    line.valid = maximumStretchPasses;
    return;
  }
  let point = first;
  while (uses[point + 1]! <= use) point++;
  const slope = (timing.decodeMs[point + 1]! - timing.decodeMs[point]!) / (uses[point + 1]! - uses[point]!);
  line.value = timing.decodeMs[point]! + slope * (use - uses[point]!);
  line.step = slope * useStep;
  line.valid = passesTo(use, useStep, uses[point + 1]!);
}

/** Passes, at least 1, until a value that grows by `step` reaches `limit`. */
function passesTo(value: number, step: number, limit: number): number {
  return Math.max(1, Math.min(maximumStretchPasses, Math.ceil((limit - value) / step)));
}

/** Index of the last grid value at or below, or -1. */
function rowBelow(grid: Float64Array, value: number): number {
  let low = -1;
  let high = grid.length;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (grid[middle]! <= value) low = middle;
    else high = middle;
  }
  return low;
}

function numbersOf(values: readonly number[] | undefined, place: string): number[] {
  if (!Array.isArray(values)) throw new Error(`${place}: must be a list of numbers`);
  if (values.length < 2) throw new Error(`${place}: has ${values.length} values; a table needs at least 2`);
  for (const [index, value] of values.entries()) {
    if (typeof value !== 'number' || !Number.isFinite(value) || value < 0) {
      throw new Error(`${place}[${index}]: is ${shown(value)}; must be a finite number of at least 0`);
    }
  }
  return values as number[];
}

/** As JSON, but with the numbers that it has not. */
function shown(value: unknown): string {
  return typeof value === 'number' ? String(value) : String(JSON.stringify(value));
}
