import type { ExpertLayout, GpuSpec, ModelSpec } from './catalogue.js';

/** Where a fitted constant comes from: calibrated on measurements, or assumed from a mechanism. */
export type Basis = 'fit' | 'assumed';

/**
 * Constants of one engine build on one GPU (and, where `model` is set, one model) that the roofline cannot derive.
 * Efficiencies are shares of the datasheet rate that are reached.
 */
export interface EngineProfile {
  name: string;
  gpu: string | null;
  model: string | null;
  /** Matrix products of the linear layers, weights of 8 bits or fewer. */
  gemmEfficiency: number;
  /** The same with 16-bit weights (or weights the GPU has to widen). */
  gemm16Efficiency: number;
  /** Score and value products of prefill attention (16 bit). */
  attentionEfficiency: number;
  /** Reading weights from HBM. */
  memoryEfficiency: number;
  /** Reading KV entries from HBM in decode attention. */
  kvEfficiency: number;
  /** Share of the NVLink (or PCIe) rate a collective reaches. */
  collectiveEfficiency: number;
  /** Fixed time of one all-reduce. */
  collectiveLatencyUs: number;
  /** Host and launch time of any pass. */
  hostPassUs: number;
  /** Host time of each sequence in a pass (sampling, detokenising, block tables). */
  hostSequenceUs: number;
  /** Time the host takes to launch the kernels of a pass one by one (eager mode); the GPU works meanwhile, so no pass is shorter. 0 or absent: captured graphs. */
  launchPassUs: number;
  /** Further time of a pass that holds a prefill chunk: it leaves the captured graph. */
  prefillPassUs: number;
  /** Time of a request before its engine: HTTP, tokenising, hand-over between processes. Occupies no GPU; the frontend adds it. */
  requestUs: number;
  /** Rows a matrix product is padded to, above 128 rows; 1 turns padding off. */
  gemmTileTokens: number;
  sources: Record<string, string>;
  bases: Record<string, Basis>;
}

type Fields = Record<string, unknown>;
type Sources = Record<string, string>;

export function parseGpu(entry: unknown, place: string): GpuSpec {
  const fields = objectOf(entry, place);
  const keys = ['name', 'denseFlops', 'hbmBytes', 'hbmBytesPerSecond', 'nvlinkBytesPerSecond', 'nicBytesPerSecond', 'pcieBytesPerSecond'];
  const name = nameOf(fields, place);
  const where = `${place} (${name})`;
  refuseUnknown(fields, keys, where);
  const sources: Sources = {};
  const flops = objectOf(fields.denseFlops, `${where}.denseFlops`);
  refuseUnknown(flops, ['bf16', 'fp8', 'int8', 'fp4'], `${where}.denseFlops`);
  const denseFlops: GpuSpec['denseFlops'] = { bf16: sourced(flops, 'bf16', `${where}.denseFlops`, sources, 1) };
  for (const precision of ['fp8', 'int8', 'fp4'] as const) {
    if (flops[precision] !== undefined) denseFlops[precision] = sourced(flops, precision, `${where}.denseFlops`, sources, 1);
  }
  return {
    name,
    denseFlops,
    hbmBytes: sourced(fields, 'hbmBytes', where, sources, 1),
    hbmBytesPerSecond: sourced(fields, 'hbmBytesPerSecond', where, sources, 1),
    nvlinkBytesPerSecond: sourced(fields, 'nvlinkBytesPerSecond', where, sources, 0),
    nicBytesPerSecond: sourced(fields, 'nicBytesPerSecond', where, sources, 1),
    pcieBytesPerSecond: sourced(fields, 'pcieBytesPerSecond', where, sources, 1),
    sources,
  };
}

const modelIntegers = [
  'layers',
  'hidden',
  'attentionHeads',
  'keyValueHeads',
  'headSize',
  'intermediate',
  'mlpMatrices',
  'vocabulary',
  'contextTokens',
] as const;

const latentIntegers = ['keyValueRank', 'ropeHeadSize', 'valueHeadSize', 'queryRank'] as const;
const windowIntegers = ['tokens', 'layers'] as const;
const linearIntegers = ['layers', 'keyHeads', 'valueHeads', 'keyHeadSize', 'valueHeadSize', 'convolutionTokens'] as const;

export function parseModel(entry: unknown, place: string): ModelSpec {
  const fields = objectOf(entry, place);
  const name = nameOf(fields, place);
  const where = `${place} (${name})`;
  refuseUnknown(
    fields,
    ['name', 'source', 'attention', 'tiedEmbeddings', 'mla', 'moe', 'window', 'linear', 'gatedAttention', ...modelIntegers],
    where,
  );
  const attention = fields.attention;
  if (attention !== 'gqa' && attention !== 'mla') {
    throw new Error(`${where}.attention: is ${JSON.stringify(attention)}; allowed are "gqa" and "mla"`);
  }
  const source = textOf(fields, 'source', where);
  const sources: Sources = {};
  const numbers = integersOf(fields, modelIntegers, where, source, sources);
  const part = <K extends string>(key: string, keys: readonly K[], mayBeZero: readonly K[] = []): Record<K, number> | null =>
    fields[key] === undefined ? null : integersIn(fields[key], keys, `${where}.${key}`, source, sources, mayBeZero);
  const mla = part('mla', latentIntegers, ['queryRank']);
  const moe = fields.moe === undefined ? null : parseExperts(fields.moe, `${where}.moe`, source, sources);
  if ((attention === 'mla') !== (mla !== null)) throw new Error(`${where}: attention "mla" and the object "mla" must come together`);
  if (numbers.attentionHeads % numbers.keyValueHeads !== 0) {
    throw new Error(`${where}.keyValueHeads: ${numbers.keyValueHeads} does not divide attentionHeads ${numbers.attentionHeads}`);
  }
  const window = part('window', windowIntegers);
  const linear = part('linear', linearIntegers);
  const others = (window?.layers ?? 0) + (linear?.layers ?? 0);
  if (others >= numbers.layers)
    throw new Error(
      `${where}: windows and linear attention have ${others} of ${numbers.layers} layers; at least one must look back over the whole context`,
    );
  const tiedEmbeddings = switchOf(fields, 'tiedEmbeddings', where);
  const gatedAttention = switchOf(fields, 'gatedAttention', where);
  return { name, attention, ...numbers, tiedEmbeddings, mla, moe, window, linear, gatedAttention, notes: [], sources };
}

function switchOf(fields: Fields, key: string, where: string): boolean {
  const value = fields[key] ?? false;
  if (typeof value !== 'boolean') throw new Error(`${where}.${key}: is ${JSON.stringify(value)}; must be true or false`);
  return value;
}

function parseExperts(entry: unknown, where: string, source: string, sources: Sources): ExpertLayout {
  const keys = ['experts', 'expertsPerToken', 'sharedExperts', 'expertIntermediate', 'denseLayers'] as const;
  const layout = integersIn(entry, keys, where, source, sources, keys);
  if (layout.expertsPerToken < 1 || layout.expertsPerToken > layout.experts) {
    throw new Error(`${where}.expertsPerToken: ${layout.expertsPerToken} must lie in 1..${layout.experts} (experts)`);
  }
  return layout;
}

const profileShares = [
  'gemmEfficiency',
  'gemm16Efficiency',
  'attentionEfficiency',
  'memoryEfficiency',
  'kvEfficiency',
  'collectiveEfficiency',
] as const;
const profileNumbers = ['collectiveLatencyUs', 'hostPassUs', 'hostSequenceUs', 'prefillPassUs', 'requestUs', 'gemmTileTokens'] as const;

export function parseProfile(entry: unknown, place: string): EngineProfile {
  const fields = objectOf(entry, place);
  const name = nameOf(fields, place);
  const where = `${place} (${name})`;
  refuseUnknown(fields, ['name', 'gpu', 'model', ...profileShares, ...profileNumbers, 'launchPassUs'], where);
  const sources: Sources = {};
  const bases: Record<string, Basis> = {};
  const values = { launchPassUs: 0 } as Record<(typeof profileShares)[number] | (typeof profileNumbers)[number] | 'launchPassUs', number>;
  const optional = fields.launchPassUs === undefined ? [] : (['launchPassUs'] as const);
  for (const key of [...profileShares, ...profileNumbers, ...optional]) {
    values[key] = sourced(fields, key, where, sources, 0);
    const basis = (fields[key] as Fields).basis;
    if (basis !== 'fit' && basis !== 'assumed')
      throw new Error(`${where}.${key}.basis: is ${JSON.stringify(basis)}; allowed are "fit" and "assumed"`);
    bases[`${where}.${key}`] = basis;
  }
  for (const key of profileShares) {
    if (!(values[key] > 0 && values[key] <= 1)) throw new Error(`${where}.${key}: ${values[key]} must be above 0 and at most 1`);
  }
  if (!(values.gemmTileTokens >= 1)) throw new Error(`${where}.gemmTileTokens: ${values.gemmTileTokens} must be at least 1`);
  if (!(values.hostPassUs >= 1)) throw new Error(`${where}.hostPassUs: ${values.hostPassUs} must be at least 1, or time could stand still`);
  return { name, gpu: optionalText(fields, 'gpu', where), model: optionalText(fields, 'model', where), ...values, sources, bases };
}

function objectOf(value: unknown, place: string): Fields {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) throw new Error(`${place}: must be an object`);
  return value as Fields;
}

function nameOf(fields: Fields, place: string): string {
  return textOf(fields, 'name', place);
}

function textOf(fields: Fields, key: string, place: string): string {
  const value = fields[key];
  if (typeof value !== 'string' || value === '') throw new Error(`${place}.${key}: must be a non-empty text`);
  return value;
}

function optionalText(fields: Fields, key: string, place: string): string | null {
  return fields[key] === undefined || fields[key] === null ? null : textOf(fields, key, place);
}

function refuseUnknown(fields: Fields, allowed: readonly string[], place: string): void {
  for (const key of Object.keys(fields)) {
    if (!allowed.includes(key)) throw new Error(`${place}: unknown field "${key}"; allowed are ${allowed.join(', ')}`);
  }
}

/** A number written as {value, source}; its source is kept under its path. */
function sourced(fields: Fields, key: string, place: string, sources: Sources, minimum: number): number {
  const where = `${place}.${key}`;
  const field = objectOf(fields[key] ?? null, where);
  refuseUnknown(field, ['value', 'source', 'basis'], where);
  const value = field.value;
  if (typeof value !== 'number' || !Number.isFinite(value) || value < minimum) {
    throw new Error(`${where}.value: is ${JSON.stringify(value)}; must be a number of at least ${minimum}`);
  }
  sources[where] = textOf(field, 'source', where);
  return value;
}

/** An object of these whole numbers alone, at least 1 where they may not be 0. */
function integersIn<K extends string>(
  entry: unknown,
  keys: readonly K[],
  where: string,
  source: string,
  sources: Sources,
  mayBeZero: readonly K[] = [],
): Record<K, number> {
  const fields = objectOf(entry, where);
  refuseUnknown(fields, keys, where);
  return integersOf(fields, keys, where, source, sources, mayBeZero);
}

function integersOf<K extends string>(
  fields: Fields,
  keys: readonly K[],
  place: string,
  source: string,
  sources: Sources,
  mayBeZero: readonly K[] = [],
): Record<K, number> {
  const numbers = {} as Record<K, number>;
  for (const key of keys) {
    const value = fields[key];
    const minimum = mayBeZero.includes(key) ? 0 : 1;
    if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < minimum) {
      throw new Error(`${place}.${key}: is ${JSON.stringify(value)}; must be an integer of at least ${minimum}`);
    }
    numbers[key] = value;
    sources[`${place}.${key}`] = source;
  }
  return numbers;
}
