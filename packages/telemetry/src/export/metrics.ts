/** Kinds of Prometheus metrics. */
export type PrometheusType = 'counter' | 'gauge' | 'histogram';

/**
 * One quantity of the emulator and the names it has elsewhere. `series` is its name in series.parquet, `prometheus` the name to expose it under:
 * NVIDIA Dynamo's where Dynamo has one, else vLLM's, else DCGM's, else our own `braess_` name. `alias` is a second name that dashboards may look for.
 */
export interface MetricName {
  series: string | null;
  unit: 'requests' | 'sequences' | 'share' | 'tokens' | 'seconds' | 'bytes' | 'blocks' | 'engines' | 'ratio' | 'per second' | 'chunks';
  /** Who has it: the cluster as a whole, an engine, a GPU, a link or a host. */
  of: 'cluster' | 'frontend' | 'engine' | 'gpu' | 'link' | 'host' | 'router';
  prometheus: string;
  alias: string | null;
  type: PrometheusType;
  help: string;
}

const metric = (
  series: string | null,
  unit: MetricName['unit'],
  of: MetricName['of'],
  prometheus: string,
  alias: string | null,
  type: PrometheusType,
  help: string,
): MetricName => ({ series, unit, of, prometheus, alias, type, help });

/**
 * The mapping. Sources of the names: Dynamo, lib/runtime/src/metrics/prometheus_names.rs (prefixes dynamo_frontend, dynamo_component, kvbm); vLLM v1, vllm/v1/metrics/loggers.py;
 * NVIDIA DCGM exporter, default counters.
 */
export const METRIC_NAMES: readonly MetricName[] = [
  metric('queue_depth', 'requests', 'engine', 'vllm:num_requests_waiting', null, 'gauge', 'Requests waiting in the engine'),
  metric('batch_size', 'sequences', 'engine', 'vllm:num_requests_running', null, 'gauge', 'Sequences in the running batch'),
  metric(
    'kv_use_g1',
    'share',
    'engine',
    'dynamo_component_gpu_cache_usage_percent',
    'vllm:kv_cache_usage_perc',
    'gauge',
    'HBM KV blocks in use, 0 to 1',
  ),
  metric('kv_use_g2', 'share', 'host', 'braess_host_cache_usage_ratio', null, 'gauge', 'Host DRAM KV blocks in use, 0 to 1'),
  metric('kv_use_g3', 'share', 'host', 'braess_disk_cache_usage_ratio', null, 'gauge', 'NVMe KV blocks in use, 0 to 1'),
  metric('kv_use_g4', 'share', 'cluster', 'braess_object_cache_usage_ratio', null, 'gauge', 'Network storage KV blocks in use, 0 to 1'),
  metric('gpu_use', 'share', 'gpu', 'DCGM_FI_PROF_GR_ENGINE_ACTIVE', 'DCGM_FI_DEV_GPU_UTIL', 'gauge', 'Share of time the GPU was busy'),
  metric('flop_use', 'share', 'gpu', 'DCGM_FI_PROF_PIPE_TENSOR_ACTIVE', null, 'gauge', 'Share of the tensor FLOPs in use'),
  metric('hbm_bandwidth_use', 'share', 'gpu', 'DCGM_FI_PROF_DRAM_ACTIVE', null, 'gauge', 'Share of the HBM bandwidth in use'),
  metric('link_use', 'share', 'link', 'braess_link_utilization_ratio', null, 'gauge', 'Share of the link bandwidth in use'),
  metric('link_marks', 'chunks', 'link', 'braess_link_ecn_marked_chunks', null, 'gauge', 'Chunks marked in the period (chunk fidelity)'),
  metric(
    'link_paused_seconds',
    'seconds',
    'link',
    'braess_link_paused_seconds',
    null,
    'gauge',
    'Time the sender was paused (PFC) in the period (chunk fidelity)',
  ),
  metric('inflight_requests', 'requests', 'frontend', 'dynamo_frontend_inflight_requests', null, 'gauge', 'Requests in flight'),
  metric(null, 'requests', 'frontend', 'dynamo_frontend_queued_requests', null, 'gauge', 'Requests before their first token'),
  metric(null, 'requests', 'router', 'dynamo_frontend_router_queue_pending_requests', null, 'gauge', 'Requests held by the router'),
  metric(
    'poa_hat',
    'ratio',
    'cluster',
    'braess_poa_hat',
    null,
    'gauge',
    'PoA-hat of what was in flight, with the latencies it turned out to have',
  ),
  metric('poa_live', 'ratio', 'cluster', 'braess_poa_live', null, 'gauge', 'PoA-hat with the latencies of requests that ended just before'),
  metric('ttft_p99_seconds', 'seconds', 'cluster', 'braess_ttft_p99_seconds', null, 'gauge', 'TTFT P99 of requests that ended just before'),
  metric(
    'itl_p99_seconds',
    'seconds',
    'cluster',
    'braess_itl_p99_seconds',
    null,
    'gauge',
    'P99 of the mean ITL of requests that ended just before',
  ),
  metric('requests_per_second', 'per second', 'cluster', 'braess_requests_per_second', null, 'gauge', 'Requests completed per second'),
  metric(
    'output_tokens_per_second',
    'per second',
    'cluster',
    'braess_output_tokens_per_second',
    null,
    'gauge',
    'Tokens that engines put out per second',
  ),
  metric(
    null,
    'blocks',
    'engine',
    'dynamo_frontend_worker_active_decode_blocks',
    null,
    'gauge',
    'KV blocks of running requests, as the router counts them',
  ),
  metric(
    'active_prefill_tokens',
    'tokens',
    'engine',
    'dynamo_frontend_worker_active_prefill_tokens',
    null,
    'gauge',
    'Prefill tokens queued or running',
  ),
  metric('prefill_engines', 'engines', 'cluster', 'braess_prefill_engines', null, 'gauge', 'Engines that serve prefill'),
  metric('decode_engines', 'engines', 'cluster', 'braess_decode_engines', null, 'gauge', 'Engines that serve decode'),
  metric(
    'off_engines',
    'engines',
    'cluster',
    'braess_off_engines',
    null,
    'gauge',
    'Engines whose GPUs were given back, or that have failed',
  ),
  metric('moving_engines', 'engines', 'cluster', 'braess_moving_engines', null, 'gauge', 'Engines that drain, switch or start'),
  metric(
    'scraped_ttft_p99',
    'seconds',
    'router',
    'braess_controller_ttft_p99_seconds',
    null,
    'gauge',
    'TTFT P99 of the window as a controller scraped it',
  ),
  metric(
    'placement_poa',
    'ratio',
    'router',
    'braess_placement_poa',
    null,
    'gauge',
    'Price of anarchy of where requests decode, for equal engines of linear latency',
  ),
  metric(null, 'blocks', 'engine', 'dynamo_component_total_blocks', null, 'gauge', 'KV blocks of the worker'),
  metric(
    null,
    'requests',
    'frontend',
    'dynamo_frontend_requests_total',
    'vllm:request_success_total',
    'counter',
    'Requests ended, by status',
  ),
  metric(
    null,
    'seconds',
    'frontend',
    'dynamo_frontend_time_to_first_token_seconds',
    'vllm:time_to_first_token_seconds',
    'histogram',
    'Time to first token',
  ),
  metric(
    null,
    'seconds',
    'frontend',
    'dynamo_frontend_inter_token_latency_seconds',
    'vllm:inter_token_latency_seconds',
    'histogram',
    'Gaps between tokens',
  ),
  metric(null, 'seconds', 'engine', 'vllm:request_time_per_output_token_seconds', null, 'histogram', 'Mean gap of a request'),
  metric(
    null,
    'seconds',
    'frontend',
    'dynamo_frontend_request_duration_seconds',
    'vllm:e2e_request_latency_seconds',
    'histogram',
    'Arrival to last token',
  ),
  metric(null, 'seconds', 'engine', 'vllm:request_queue_time_seconds', null, 'histogram', 'Time in the waiting queue'),
  metric(null, 'seconds', 'engine', 'vllm:request_prefill_time_seconds', null, 'histogram', 'Prefill start to prefill end'),
  metric(null, 'seconds', 'engine', 'vllm:request_decode_time_seconds', null, 'histogram', 'First token to last token'),
  metric(
    null,
    'seconds',
    'engine',
    'braess_kv_transfer_latency_seconds',
    'trtllm_kv_transfer_latency_seconds',
    'histogram',
    'KV transfer, start to end',
  ),
  metric(
    null,
    'bytes',
    'engine',
    'braess_kv_transfer_bytes_total',
    'trtllm_kv_transfer_bytes',
    'counter',
    'KV bytes moved between workers',
  ),
  metric(
    null,
    'tokens',
    'frontend',
    'dynamo_frontend_input_sequence_tokens',
    'vllm:request_prompt_tokens',
    'histogram',
    'Input tokens of a request',
  ),
  metric(
    null,
    'tokens',
    'frontend',
    'dynamo_frontend_output_sequence_tokens',
    'vllm:request_generation_tokens',
    'histogram',
    'Output tokens of a request',
  ),
  metric(null, 'tokens', 'frontend', 'dynamo_frontend_output_tokens_total', 'vllm:generation_tokens_total', 'counter', 'Tokens produced'),
  metric(
    null,
    'tokens',
    'frontend',
    'dynamo_frontend_cached_tokens',
    'vllm:prefix_cache_hits_total',
    'histogram',
    'Cached tokens of a request',
  ),
  metric(null, 'tokens', 'host', 'kvbm_matched_tokens', null, 'counter', 'Tokens found in the lower tiers'),
  metric(null, 'blocks', 'host', 'kvbm_offload_blocks_d2h', null, 'counter', 'Blocks moved from HBM to host DRAM'),
  metric(null, 'blocks', 'host', 'kvbm_offload_blocks_h2d', null, 'counter', 'Blocks moved from host DRAM to NVMe'),
  metric(null, 'blocks', 'host', 'kvbm_onboard_blocks_h2d', null, 'counter', 'Blocks moved from host DRAM to HBM'),
  metric(null, 'blocks', 'host', 'kvbm_onboard_blocks_d2d', null, 'counter', 'Blocks moved from NVMe to HBM'),
  metric(null, 'blocks', 'host', 'kvbm_offload_blocks_d2o', null, 'counter', 'Blocks moved from HBM to network storage'),
  metric(null, 'blocks', 'host', 'kvbm_onboard_blocks_o2d', null, 'counter', 'Blocks moved from network storage to HBM'),
  metric(null, 'requests', 'engine', 'vllm:num_preemptions_total', null, 'counter', 'Preemptions'),
];

/** Names of the quantities sampled into series.parquet, in the order of their ids. */
export const SERIES_METRICS: readonly string[] = METRIC_NAMES.flatMap((entry) => (entry.series === null ? [] : [entry.series]));

/** The entry of a series name. */
export function metricOfSeries(series: string): MetricName | undefined {
  return METRIC_NAMES.find((entry) => entry.series === series);
}

/** One exposed value. Labels follow Dynamo: `model`, `worker_id`, `worker_type`, `dp_rank`. */
export interface PrometheusSample {
  name: string;
  labels: Readonly<Record<string, string>>;
  value: number;
}

/** Prometheus text format of gauges and counters (Prometheus, "Exposition formats"); samples of one name are kept together. */
export function prometheusText(samples: readonly PrometheusSample[]): string {
  const groups = new Map<string, PrometheusSample[]>();
  for (const sample of samples) {
    const group = groups.get(sample.name);
    if (group === undefined) groups.set(sample.name, [sample]);
    else group.push(sample);
  }
  const lines: string[] = [];
  for (const [name, group] of groups) {
    const known = METRIC_NAMES.find((entry) => entry.prometheus === name || entry.alias === name);
    if (known === undefined) throw new Error(`metric "${name}" is not in METRIC_NAMES; add it there with its type and meaning`);
    lines.push(`# HELP ${name} ${known.help}`, `# TYPE ${name} ${known.type}`);
    for (const sample of group) lines.push(`${name}${labelText(sample.labels)} ${numberText(sample.value)}`);
  }
  return lines.length === 0 ? '' : `${lines.join('\n')}\n`;
}

function labelText(labels: Readonly<Record<string, string>>): string {
  const parts = Object.entries(labels).map(([key, value]) => {
    if (!/^[a-zA-Z_][a-zA-Z0-9_]*$/.test(key)) throw new Error(`"${key}" is no Prometheus label name; use letters, digits and _`);
    return `${key}="${value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')}"`;
  });
  return parts.length === 0 ? '' : `{${parts.join(',')}}`;
}

function numberText(value: number): string {
  if (value === Infinity) return '+Inf';
  return value === -Infinity ? '-Inf' : String(value);
}
