import { basename, dirname } from 'node:path';
import type { ExpertLayout, LatentAttention, LinearAttention, ModelSpec, WindowedAttention } from './catalogue.js';
import {
  type Config,
  checkOptionalFields,
  type FieldReader,
  fieldReader,
  hasGatedDelta,
  isObject,
  layerTypes,
  numberOr,
  refuseOtherKinds,
  typeOf,
} from './checkpoint-fields.js';

// The `config.json` that lies beside the weights of a checkpoint, with the names that Hugging Face's transformers gives its fields.

/** Whether a JSON object is the configuration of a checkpoint rather than a catalogue of ours. */
export function isCheckpointConfig(file: object): boolean {
  return 'model_type' in file || 'architectures' in file;
}

/** Checkpoints are folders named after the model: `Mixtral-8x7B/config.json`, else the file is, `Mixtral-8x7B.json`. */
export function checkpointName(place: string): string {
  const file = basename(place);
  return file === 'config.json' ? basename(dirname(place)) : file.replace(/\.json$/, '');
}

/**
 * The model that a checkpoint's configuration describes: grouped-query or latent attention in every layer, dense or with experts. What is left out
 * stands in its `notes`. @throws Error with `place` and the field for what is missing, wrong, or cannot be emulated.
 */
export function modelOfCheckpoint(file: object, name: string, place: string): ModelSpec {
  const whole = file as Config;
  // Models that see or hear keep their language model one level down.
  const config = isObject(whole.text_config) ? { model_type: whole.model_type, ...whole.text_config } : whole;
  refuseOtherKinds(config, place);
  checkOptionalFields(config, place);
  const read = fieldReader(config, place);
  const layers = read('num_hidden_layers');
  const hidden = read('hidden_size');
  const attentionHeads = read('num_attention_heads');
  const mla = config.kv_lora_rank == null ? null : latentOf(config, read);
  const moe = expertsOf(config, layers, read, place);
  const window = windowOf(config, layers);
  const linear = linearOf(config, layers, read);
  if (linear !== null && linear.layers + (window?.layers ?? 0) >= layers)
    throw new Error(
      `${place}: none of the ${layers} layers looks back over the whole context, which cannot be emulated; at least one must`,
    );
  const headSize = mla === null ? headSizeOf(config, hidden, attentionHeads, read, place) : read('qk_nope_head_dim');
  const keyValueHeads = mla === null ? keyValueHeadsOf(config, attentionHeads, read, place) : attentionHeads;
  return {
    name,
    attention: mla === null ? 'gqa' : 'mla',
    layers,
    hidden,
    attentionHeads,
    keyValueHeads,
    headSize,
    // Llama 4 gives its experts the plain name, and its other layers this one.
    intermediate: read('intermediate_size_mlp', read('intermediate_size')),
    mlpMatrices: isGated(config) ? 3 : 2,
    vocabulary: read('vocab_size'),
    contextTokens: read('max_position_embeddings'),
    tiedEmbeddings: (config.tie_word_embeddings ?? whole.tie_word_embeddings ?? tiesByDefault(config)) === true,
    mla,
    moe,
    // Blocks of KV are for what grows with the context.
    window: window?.layers === layers ? null : window,
    linear,
    gatedAttention: config.attn_output_gate === undefined ? linear !== null : config.attn_output_gate === true,
    ...quantisationOf(config.quantization_config ?? whole.quantization_config),
    notes: notesOf(config, layers, window),
    sources: { [place]: 'configuration of a checkpoint' },
  };
}

function headSizeOf(config: Config, hidden: number, attentionHeads: number, read: FieldReader, place: string): number {
  const headSize = read('head_dim', Math.ceil(hidden / attentionHeads));
  if (config.head_dim == null && hidden % attentionHeads !== 0)
    throw new Error(`${place}: head_dim is missing, and hidden_size ${hidden} is no multiple of num_attention_heads ${attentionHeads}`);
  return headSize;
}

function keyValueHeadsOf(config: Config, attentionHeads: number, read: FieldReader, place: string): number {
  const keyValueHeads = read('num_key_value_heads', config.multi_query === true ? 1 : attentionHeads);
  if (attentionHeads % keyValueHeads !== 0)
    throw new Error(`${place}: num_key_value_heads ${keyValueHeads} does not divide num_attention_heads ${attentionHeads}`);
  return keyValueHeads;
}

function latentOf(config: Config, read: FieldReader): LatentAttention {
  return {
    keyValueRank: read('kv_lora_rank'),
    // Small models do not compress their queries.
    queryRank: config.q_lora_rank == null ? 0 : read('q_lora_rank'),
    ropeHeadSize: read('qk_rope_head_dim'),
    valueHeadSize: read('v_head_dim'),
  };
}

function expertsOf(config: Config, layers: number, read: FieldReader, place: string): ExpertLayout | null {
  const key = ['num_local_experts', 'num_experts', 'n_routed_experts'].find((name) => config[name] != null);
  if (key === undefined) {
    const other = Object.keys(config).find((name) => /experts/.test(name) && numberOr(config[name], 0) > 1);
    if (other !== undefined)
      throw new Error(
        `${place}: ${other} is ${config[other]}, but num_experts is missing; write the experts into a copy as Qwen3's MoE does`,
      );
    return null;
  }
  if (config[key] === 0 || config[key] === 1) return null;
  const expertIntermediate = read('moe_intermediate_size', read('intermediate_size'));
  const layout = {
    experts: read(key),
    expertsPerToken: read('num_experts_per_tok'),
    sharedExperts: sharedExperts(config, read, expertIntermediate),
    expertIntermediate,
    denseLayers: denseLayers(config, layers),
  };
  if (layout.expertsPerToken > layout.experts)
    throw new Error(`${place}: num_experts_per_tok is ${layout.expertsPerToken}; there are ${layout.experts} experts`);
  return layout;
}

function sharedExperts(config: Config, read: FieldReader, expertIntermediate: number): number {
  const count = config.n_shared_experts ?? config.num_shared_experts;
  if (count === 0) return 0;
  if (count != null) return read(config.n_shared_experts == null ? 'num_shared_experts' : 'n_shared_experts');
  // Llama 4 always has one, and does not say so.
  if (typeOf(config).startsWith('llama4')) return 1;
  return config.shared_expert_intermediate_size == null ? 0 : Math.ceil(read('shared_expert_intermediate_size') / expertIntermediate);
}

/** Layers with an ordinary MLP among those of a mixture of experts; where they stand changes nothing. */
function denseLayers(config: Config, layers: number): number {
  const first = numberOr(config.first_k_dense_replace, 0);
  const step = numberOr(config.decoder_sparse_step ?? config.interleave_moe_layer_step, 1);
  const frequency = config.moe_layer_freq;
  const named = Array.isArray(config.mlp_only_layers) ? (config.mlp_only_layers as unknown[]) : [];
  let dense = 0;
  for (let layer = 0; layer < layers; layer++) {
    const listed = Array.isArray(frequency) ? frequency[layer] === 0 : layer % numberOr(frequency, 1) !== 0;
    if (layer < first || (layer + 1) % step !== 0 || listed || named.includes(layer)) dense++;
  }
  return dense;
}

/** Classes whose head is the embedding unless their configuration says otherwise; the published ones leave it out. */
function tiesByDefault(config: Config): boolean {
  return /^(gemma|cohere)/.test(typeOf(config));
}

/** Gated MLPs (SwiGLU, GeGLU) have a third matrix: those with SiLU, and Gemma's. */
function isGated(config: Config): boolean {
  const activation = config.hidden_act ?? config.hidden_activation ?? 'silu';
  return activation === 'silu' || activation === 'swish' || typeOf(config).startsWith('gemma');
}

/** Layers that look back over a window only; null where none does. */
function windowOf(config: Config, layers: number): WindowedAttention | null {
  const tokens = numberOr(config.sliding_window ?? config.attention_chunk_size, 0);
  const isShort = tokens > 0 && tokens < numberOr(config.max_position_embeddings, 0);
  const windowed = isShort ? windowedLayers(config, layers) : 0;
  return windowed === 0 ? null : { tokens, layers: windowed };
}

function linearOf(config: Config, layers: number, read: FieldReader): LinearAttention | null {
  if (!hasGatedDelta(config)) return null;
  const types = layerTypes(config);
  const interval = read('full_attention_interval', 4);
  const linearLayers =
    types.length > 0 ? types.filter((type) => type === 'linear_attention').length : layers - Math.floor(layers / interval);
  return {
    layers: linearLayers,
    keyHeads: read('linear_num_key_heads'),
    valueHeads: read('linear_num_value_heads'),
    keyHeadSize: read('linear_key_head_dim'),
    valueHeadSize: read('linear_value_head_dim'),
    convolutionTokens: read('linear_conv_kernel_dim', 4),
  };
}

/** Method and bits, as far as they are given. */
function quantisationOf(settings: unknown): { quantised: string } | undefined {
  if (!isObject(settings)) return undefined;
  const { quant_method: method, bits } = settings;
  return { quantised: `${typeof method === 'string' ? method : 'quantization_config'}${typeof bits === 'number' ? `, ${bits} bits` : ''}` };
}

/** What the emulation takes otherwise than the model, one sentence each. */
function notesOf(config: Config, layers: number, window: WindowedAttention | null): string[] {
  const notes: string[] = [];
  if (window !== null && window.layers === layers)
    notes.push(
      `all layers look back ${window.tokens} tokens only and count as full attention here: take it as it is for shorter sequences alone`,
    );
  if (config.index_topk != null)
    notes.push('its sparse attention (index_topk) counts as full attention here, so attention over long contexts takes too long');
  if (numberOr(config.num_kv_shared_layers, 0) > 0)
    notes.push(`${config.num_kv_shared_layers} layers share the KV of others and count as having their own here, so KV is too large`);
  return notes;
}

function windowedLayers(config: Config, layers: number): number {
  const types = layerTypes(config);
  if (types.length > 0) return types.filter((type) => type !== 'full_attention' && type !== 'linear_attention').length;
  if (config.use_sliding_window === false) return 0;
  // Qwen's lower layers look back over everything.
  if (config.use_sliding_window === true) return Math.max(0, layers - numberOr(config.max_window_layers, 0));
  const pattern = numberOr(config.sliding_window_pattern, patternOf(typeOf(config)));
  return pattern > 0 ? layers - Math.floor(layers / pattern) : layers;
}

/** Every how many layers one looks back over the whole context, where a configuration leaves that to its class; 0: none does. */
function patternOf(type: string): number {
  if (type.startsWith('gemma2')) return 2;
  if (type.startsWith('gemma3')) return 6;
  return type.startsWith('llama4') ? 4 : 0;
}
