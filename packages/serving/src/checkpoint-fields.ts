// The fields of a checkpoint's configuration, and what of them is refused before anything is made of them.

export type Config = Readonly<Record<string, unknown>>;

/** Reads a number of a shape, or `otherwise` where it is absent. @throws Error that names the field, its value and the limit. */
export type FieldReader = (key: string, otherwise?: number) => number;

/** Beyond every number of a shape; loops over layers end. */
const largestNumber = 1e9;

export function fieldReader(config: Config, place: string): FieldReader {
  return (key, otherwise) => {
    const value = config[key] ?? otherwise;
    if (value === undefined) {
      const advice = 'some configurations leave out what is the default of their class: write it into a copy';
      throw new Error(`${place}: ${key} is missing; ${advice}`);
    }
    if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 1 || value > largestNumber)
      throw new Error(`${place}: ${key} is ${JSON.stringify(value)}; must be an integer from 1 to ${largestNumber}`);
    return value;
  };
}

/** What an optional field may hold. */
interface FieldKind {
  readonly what: string;
  readonly fits: (value: unknown) => boolean;
}

const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0;
const isPositive = (value: unknown): boolean => isCount(value) && value !== 0;

const count: FieldKind = { what: 'an integer of at least 0', fits: isCount };
const positive: FieldKind = { what: 'an integer of at least 1', fits: isPositive };
const list: FieldKind = { what: 'a list', fits: Array.isArray };
const onOff: FieldKind = { what: 'true or false', fits: (value) => typeof value === 'boolean' };
const text: FieldKind = { what: 'a text', fits: (value) => typeof value === 'string' };

/** Fields that may be absent or null: a wrong type must not pass for that. */
const optionalFields: Readonly<Record<string, FieldKind>> = {
  sliding_window: count,
  attention_chunk_size: count,
  sliding_window_pattern: count,
  max_window_layers: count,
  first_k_dense_replace: count,
  num_kv_shared_layers: count,
  decoder_sparse_step: positive,
  interleave_moe_layer_step: positive,
  moe_layer_freq: { what: 'an integer of at least 1, or a list', fits: (value) => isPositive(value) || Array.isArray(value) },
  mlp_only_layers: list,
  layer_types: list,
  use_sliding_window: onOff,
  tie_word_embeddings: onOff,
  attn_output_gate: onOff,
  hidden_act: text,
  hidden_activation: text,
};

/** @throws Error with `place` for an optional field of a wrong type, or types of layers that are not as many as there are layers. */
export function checkOptionalFields(config: Config, place: string): void {
  for (const [key, { what, fits }] of Object.entries(optionalFields)) {
    const value = config[key];
    if (value != null && !fits(value)) throw new Error(`${place}: ${key} is ${JSON.stringify(value)}; must be ${what}, or left out`);
  }
  const types = layerTypes(config).length;
  if (types > 0 && typeof config.num_hidden_layers === 'number' && types !== config.num_hidden_layers)
    throw new Error(`${place}: layer_types names ${types} layers; num_hidden_layers is ${config.num_hidden_layers}`);
}

/** Fields of models whose layers are not all attention with KV of one size, and what they stand for. */
const otherKinds: Readonly<Record<string, string>> = {
  is_encoder_decoder: 'an encoder',
  layers_block_type: 'layers of several kinds',
  hybrid_override_pattern: 'layers of several kinds',
  block_configs: 'layers of several shapes',
  block_types: 'layers of several kinds',
  mamba_d_state: 'state-space layers',
  ssm_cfg: 'state-space layers',
  state_size: 'state-space layers',
  linear_attn_config: 'linear attention of another kind than the gated delta rule',
};

/** @throws Error with `place` for models with parts that cannot be emulated. */
export function refuseOtherKinds(config: Config, place: string): void {
  const kind = Object.keys(otherKinds).find((key) => config[key] != null && config[key] !== false);
  const types = layerTypes(config).filter((type) => !type.endsWith('attention') || (type.startsWith('linear') && !hasGatedDelta(config)));
  const lightning = Array.isArray(config.attn_type_list) && config.attn_type_list.includes(0);
  if (kind === undefined && types.length === 0 && !lightning) return;
  const what =
    kind !== undefined
      ? `${kind}: ${otherKinds[kind]}`
      : lightning
        ? 'attn_type_list: lightning attention'
        : `layer_types: ${types.length} layers of ${[...new Set(types)].join(', ')}`;
  throw new Error(
    `${place}: the model has ${what}, which cannot be emulated; layers may have full or windowed attention, or a gated delta rule`,
  );
}

/** Gated delta rule (Qwen3-Next and after); other kinds of linear attention have other fields. */
export function hasGatedDelta(config: Config): boolean {
  return config.linear_num_value_heads != null;
}

/** Kinds of the layers, one each; empty where the configuration does not list them. */
export function layerTypes(config: Config): string[] {
  return Array.isArray(config.layer_types) ? config.layer_types.map(String) : [];
}

export function typeOf(config: Config): string {
  return String(config.model_type ?? '');
}

export function numberOr(value: unknown, otherwise: number): number {
  return typeof value === 'number' ? value : otherwise;
}

export function isObject(value: unknown): value is Config {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}
