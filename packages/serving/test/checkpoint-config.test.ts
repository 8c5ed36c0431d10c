import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { addCatalogueEntries, kvBytesPerToken, loadCatalogue, type ModelSpec, modelNamed } from '@braess/serving';
import { describe, expect, it } from 'vitest';
import { totalParameters } from './support.js';

const dense = { model_type: 'llama', hidden_act: 'silu', max_position_embeddings: 32_768 };

/** Shapes from the published configurations, and the totals that the model cards and reports give. */
const published: Readonly<Record<string, { config: object; parameters: number; kvBytes: number }>> = {
  'Llama-3.2-1B': {
    // The head is the embedding.
    config: { ...dense, ...shape(16, 2048, 32, 8, 8192, 128_256), tie_word_embeddings: true },
    parameters: 1.24e9,
    kvBytes: 16 * 2 * 8 * 64 * 2,
  },
  'Qwen2.5-72B': {
    config: {
      ...dense,
      model_type: 'qwen2',
      ...shape(80, 8192, 64, 8, 29_568, 152_064),
      sliding_window: 131_072,
      use_sliding_window: false,
    },
    parameters: 72.7e9,
    kvBytes: 80 * 2 * 8 * 128 * 2,
  },
  'Mixtral-8x7B': {
    config: { ...dense, model_type: 'mixtral', ...shape(32, 4096, 32, 8, 14_336, 32_000), num_local_experts: 8, num_experts_per_tok: 2 },
    parameters: 46.7e9,
    kvBytes: 32 * 2 * 8 * 128 * 2,
  },
  'Qwen3-30B-A3B': {
    config: {
      ...dense,
      model_type: 'qwen3_moe',
      ...shape(48, 2048, 32, 4, 6144, 151_936),
      ...{
        head_dim: 128,
        num_experts: 128,
        num_experts_per_tok: 8,
        moe_intermediate_size: 768,
        decoder_sparse_step: 1,
        mlp_only_layers: [],
      },
    },
    parameters: 30.5e9,
    kvBytes: 48 * 2 * 4 * 128 * 2,
  },
  'DeepSeek-V2-Lite': {
    // Latent attention without compressed queries, two shared experts, one layer without experts.
    config: {
      ...dense,
      model_type: 'deepseek_v2',
      ...shape(27, 2048, 16, 16, 10_944, 102_400),
      ...{ kv_lora_rank: 512, q_lora_rank: null, qk_rope_head_dim: 64, qk_nope_head_dim: 128, v_head_dim: 128 },
      ...{ n_routed_experts: 64, num_experts_per_tok: 6, n_shared_experts: 2, moe_intermediate_size: 1408, first_k_dense_replace: 1 },
    },
    parameters: 15.7e9,
    kvBytes: 27 * (512 + 64) * 2,
  },
  'gpt-oss-120b': {
    config: {
      ...dense,
      model_type: 'gpt_oss',
      ...shape(36, 2880, 64, 8, 2880, 201_088),
      ...{ head_dim: 64, num_local_experts: 128, num_experts_per_tok: 4, sliding_window: 128 },
      layer_types: Array.from({ length: 36 }, (_, layer) => (layer % 2 === 0 ? 'sliding_attention' : 'full_attention')),
    },
    parameters: 116.8e9,
    // Of the layers that look back over the whole context.
    kvBytes: 18 * 2 * 8 * 64 * 2,
  },
  'Llama-4-Maverick': {
    // Experts in every second layer, one shared; the others have an MLP of another size. The language model stands one level down.
    config: {
      model_type: 'llama4',
      text_config: {
        ...{ ...dense, model_type: 'llama4_text' },
        ...shape(48, 5120, 40, 8, 8192, 202_048),
        attention_chunk_size: 8192,
        ...{ intermediate_size_mlp: 16_384, num_local_experts: 128, num_experts_per_tok: 1, interleave_moe_layer_step: 2 },
      },
    },
    parameters: 400e9,
    kvBytes: 12 * 2 * 8 * 128 * 2,
  },
  'Gemma-3-27B': {
    config: {
      model_type: 'gemma3',
      text_config: {
        ...shape(62, 5376, 32, 16, 21_504, 262_208),
        ...{ model_type: 'gemma3_text', hidden_activation: 'gelu_pytorch_tanh', head_dim: 128, max_position_embeddings: 131_072 },
        // The head is the embedding in Gemma's class: its files do not say so.
        sliding_window: 1024,
      },
    },
    parameters: 27.0e9,
    kvBytes: 10 * 2 * 16 * 128 * 2,
  },
  'Qwen3-Coder-Next': {
    // A gated delta rule in three layers of four, and a gate on the output of the others.
    config: {
      ...dense,
      model_type: 'qwen3_next',
      ...shape(48, 2048, 16, 2, 5120, 151_936),
      ...{ head_dim: 256, num_experts: 512, num_experts_per_tok: 10, moe_intermediate_size: 512, shared_expert_intermediate_size: 512 },
      ...{ linear_num_key_heads: 16, linear_num_value_heads: 32, linear_key_head_dim: 128, linear_value_head_dim: 128 },
      ...{ linear_conv_kernel_dim: 4, full_attention_interval: 4, max_position_embeddings: 262_144 },
    },
    parameters: 79.67e9,
    kvBytes: 12 * 2 * 2 * 256 * 2,
  },
  'Qwen3.6-35B-A3B': {
    config: {
      model_type: 'qwen3_5_moe',
      text_config: {
        ...dense,
        model_type: 'qwen3_5_moe_text',
        ...shape(40, 2048, 16, 2, 5120, 248_320),
        ...{ head_dim: 256, num_experts: 256, num_experts_per_tok: 8, moe_intermediate_size: 512, shared_expert_intermediate_size: 512 },
        ...{ linear_num_key_heads: 16, linear_num_value_heads: 32, linear_key_head_dim: 128, linear_value_head_dim: 128 },
        layer_types: Array.from({ length: 40 }, (_, layer) => (layer % 4 === 3 ? 'full_attention' : 'linear_attention')),
        attn_output_gate: true,
      },
    },
    parameters: 35e9,
    kvBytes: 10 * 2 * 2 * 256 * 2,
  },
  'StarCoder2-15B': {
    // Two matrices an MLP; head size from hidden / heads.
    config: { ...dense, model_type: 'starcoder2', hidden_act: 'gelu_pytorch_tanh', ...shape(40, 6144, 48, 4, 24_576, 49_152) },
    parameters: 16.0e9,
    kvBytes: 40 * 2 * 4 * 128 * 2,
  },
};

function shape(layers: number, hidden: number, heads: number, keyValueHeads: number, intermediate: number, vocabulary: number) {
  return {
    num_hidden_layers: layers,
    hidden_size: hidden,
    num_attention_heads: heads,
    num_key_value_heads: keyValueHeads,
    intermediate_size: intermediate,
    vocab_size: vocabulary,
  };
}

function modelOf(config: object, place = '/models/mine/config.json', name = 'mine'): ModelSpec {
  const catalogue = loadCatalogue();
  addCatalogueEntries(catalogue, JSON.stringify(config), place);
  return modelNamed(catalogue, name);
}

describe('the configuration of a checkpoint', () => {
  for (const [name, { config, parameters, kvBytes }] of Object.entries(published)) {
    it(`${name}: ${parameters / 1e9} billion parameters, ${kvBytes} bytes of KV a token`, () => {
      const model = modelOf(config);
      expect(Math.abs(totalParameters(model) / parameters - 1)).toBeLessThan(0.01);
      expect(kvBytesPerToken(model, 'bf16')).toBe(kvBytes);
    });
  }

  it('describes the models of the catalogue as the catalogue does', () => {
    const { name: _, sources: _sources, ...r1 } = modelNamed(loadCatalogue(), 'DeepSeek-R1');
    const config = {
      ...dense,
      model_type: 'deepseek_v3',
      ...shape(61, 7168, 128, 128, 18_432, 129_280),
      ...{ kv_lora_rank: 512, q_lora_rank: 1536, qk_rope_head_dim: 64, qk_nope_head_dim: 128, v_head_dim: 128 },
      ...{ n_routed_experts: 256, num_experts_per_tok: 8, n_shared_experts: 1, moe_intermediate_size: 2048, first_k_dense_replace: 3 },
      ...{ moe_layer_freq: 1, max_position_embeddings: 163_840 },
    };
    expect(modelOf(config)).toMatchObject(r1);
  });

  it('is named after the folder of the checkpoint, or after the file', () => {
    const { config } = published['Mixtral-8x7B'] as { config: object };
    expect(modelOf(config, '/models/Mixtral-8x7B/config.json', 'Mixtral-8x7B').name).toBe('Mixtral-8x7B');
    expect(modelOf(config, '/models/mixtral.json', 'mixtral').name).toBe('mixtral');
  });

  it('is refused where another one has its name', () => {
    const folder = mkdtempSync(join(tmpdir(), 'braess-checkpoints-'));
    try {
      const [one, other] = ['a', 'b'].map((place) => {
        const file = join(folder, place, 'Mixtral', 'config.json');
        mkdirSync(dirname(file), { recursive: true });
        writeFileSync(file, JSON.stringify(published['Mixtral-8x7B']?.config));
        return file;
      }) as [string, string];
      expect(loadCatalogue([one]).models.has('Mixtral')).toBe(true);
      expect(() => loadCatalogue([one, other])).toThrow(
        `${other}: a checkpoint is named after its folder, "Mixtral" like ${one}; copy one of them to NAME.json, and give that`,
      );
      // The same file twice is one model.
      expect(loadCatalogue([one, one]).models.has('Mixtral')).toBe(true);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });

  it('tells layers that look back over a window, or keep a state, from the others', () => {
    const model = (name: string) => modelOf(published[name]?.config as object);
    expect(model('gpt-oss-120b').window).toEqual({ tokens: 128, layers: 18 });
    expect(model('Gemma-3-27B').window).toEqual({ tokens: 1024, layers: 52 });
    expect(model('Llama-4-Maverick').window).toEqual({ tokens: 8192, layers: 36 });
    expect(model('Qwen2.5-72B').window).toBeNull();
    // In Qwen's class layers from max_window_layers on have the window.
    const lower = { use_sliding_window: true, max_window_layers: 64, sliding_window: 4096 };
    expect(modelOf({ ...published['Qwen2.5-72B']?.config, ...lower }).window).toEqual({ tokens: 4096, layers: 80 - 64 });
    expect(model('Qwen3.6-35B-A3B').window).toBeNull();
    expect(model('Qwen3.6-35B-A3B').linear).toMatchObject({ layers: 30, valueHeads: 32 });
    for (const name of ['gpt-oss-120b', 'Gemma-3-27B', 'Mixtral-8x7B']) {
      const { name: _, sources: _sources, ...shape } = modelNamed(loadCatalogue(), name);
      expect(model(name)).toMatchObject({ ...shape, contextTokens: expect.any(Number) });
    }
    const { name: _, sources: _sources, ...next } = modelNamed(loadCatalogue(), 'Qwen3-Next-80B-A3B');
    expect(model('Qwen3-Coder-Next')).toMatchObject(next);
  });

  it('says what it takes otherwise', () => {
    const { config: plain } = published['Llama-3.2-1B'] as { config: object };
    expect(modelOf({ ...plain, sliding_window: 4096 })).toMatchObject({
      window: null,
      notes: [expect.stringMatching(/^all layers look back 4096 tokens only/)],
    });
    expect(modelOf(plain).notes).toEqual([]);
    const { config } = published['Qwen3-30B-A3B'] as { config: object };
    expect(modelOf({ ...config, index_topk: 2048 }).notes).toEqual([expect.stringMatching(/sparse attention/)]);
    expect('quantised' in modelOf(plain)).toBe(false);
    expect(modelOf({ ...plain, quantization_config: { quant_method: 'awq', bits: 4 } }).quantised).toBe('awq, 4 bits');
    expect(modelOf({ ...plain, quantization_config: { quant_method: 'fp8' } }).quantised).toBe('fp8');
    expect(modelOf({ ...config, num_kv_shared_layers: 20 }).notes).toEqual([expect.stringMatching(/20 layers share the KV/)]);
  });

  it('refuses what cannot be emulated, and names the field of what is wrong', () => {
    const { config } = published['Mixtral-8x7B'] as { config: object };
    const read = (change: object) => () => modelOf({ ...config, ...change });
    expect(read({ hybrid_override_pattern: 'M-M*' })).toThrow(
      /config\.json: the model has hybrid_override_pattern: layers of several kinds/,
    );
    expect(read({ layer_types: ['linear_attention', 'full_attention'] })).toThrow(/layer_types: 1 layers of linear_attention/);
    expect(read({ layer_types: ['mamba', 'full_attention'] })).toThrow(/layer_types: 1 layers of mamba/);
    expect(read({ linear_attn_config: { kda_layers: [1] } })).toThrow(/linear_attn_config: linear attention of another kind/);
    expect(read({ attn_type_list: [0, 1] })).toThrow(/lightning attention/);
    expect(read({ attn_type_list: [1, 1] })).not.toThrow();
    expect(read({ is_encoder_decoder: true })).toThrow(/an encoder/);
    expect(read({ vocab_size: undefined })).toThrow(/config\.json: vocab_size is missing; .* write it into a copy/);
    expect(read({ num_hidden_layers: '32' })).toThrow(/num_hidden_layers is "32"; must be an integer/);
    expect(read({ num_key_value_heads: 5 })).toThrow(/num_key_value_heads 5 does not divide num_attention_heads 32/);
    expect(read({ hidden_size: 4100 })).toThrow(/hidden_size 4100 is no multiple of num_attention_heads 32/);
    expect(read({ num_experts_per_tok: 9 })).toThrow(/num_experts_per_tok is 9; there are 8 experts/);
    expect(read({ num_local_experts: 2.5 })).toThrow(/num_local_experts is 2\.5/);
    expect(read({ num_experts_per_tok: undefined })).toThrow(/num_experts_per_tok is missing/);
    expect(read({ num_local_experts: undefined, moe_num_experts: 64 })).toThrow(/num_experts_per_tok is 2, but num_experts is missing/);
    expect(read({ num_hidden_layers: 1e12 })).toThrow(/num_hidden_layers is 1000000000000; must be an integer from 1 to/);
    expect(read({ block_types: ['recurrent', 'attention'] })).toThrow(/block_types: layers of several kinds/);
    expect(read({ layer_types: ['full_attention'] })).toThrow(/layer_types names 1 layers; num_hidden_layers is 32/);
    const next = published['Qwen3-Coder-Next'] as { config: object };
    expect(() => modelOf({ ...next.config, full_attention_interval: 100 })).toThrow(/none of the 48 layers looks back over the whole/);
  });

  it('takes no value of a wrong type for one that is left out', () => {
    const { config } = published['Mixtral-8x7B'] as { config: object };
    const wrong = {
      ...{ sliding_window: '4096', attention_chunk_size: -1, first_k_dense_replace: '3', decoder_sparse_step: 0, moe_layer_freq: 0 },
      ...{ mlp_only_layers: 3, layer_types: 'full_attention', tie_word_embeddings: 'true', use_sliding_window: 1, hidden_act: 3 },
    };
    for (const [key, value] of Object.entries(wrong)) {
      expect(() => modelOf({ ...config, [key]: value })).toThrow(`${key} is ${JSON.stringify(value)}; must be `);
      expect(() => modelOf({ ...config, [key]: null })).not.toThrow();
    }
  });

  it('may begin with a byte order mark', () => {
    const catalogue = loadCatalogue();
    addCatalogueEntries(catalogue, `\uFEFF${JSON.stringify(published['Mixtral-8x7B']?.config)}`, 'marked.json');
    expect(modelNamed(catalogue, 'marked').layers).toBe(32);
  });
});
