import { readFileSync } from 'node:fs';
import { METRIC_NAMES, metricOfSeries, prometheusText, SERIES_METRICS } from '@braess/telemetry';
import { describe, expect, it } from 'vitest';

describe('metric names', () => {
  it('are valid, unique and follow the conventions of their type', () => {
    const names = METRIC_NAMES.map((entry) => entry.prometheus);
    expect(new Set(names).size).toBe(names.length);
    expect(new Set(SERIES_METRICS).size).toBe(SERIES_METRICS.length);
    for (const entry of METRIC_NAMES) {
      for (const name of [entry.prometheus, entry.alias]) if (name !== null) expect(name).toMatch(/^[a-zA-Z_:][a-zA-Z0-9_:]*$/);
      expect(entry.prometheus).toMatch(/^(dynamo_(frontend|component)_|vllm:|kvbm_|DCGM_FI_|braess_)/);
      if (entry.unit === 'seconds') expect(entry.prometheus).toMatch(/_seconds$/);
      if (entry.prometheus.endsWith('_total')) expect(entry.type).toBe('counter');
    }
    for (const series of SERIES_METRICS) expect(metricOfSeries(series)?.series).toBe(series);
  });

  it('of the series stand with their units in docs/results.md', () => {
    const documented = new Map<string, string>();
    for (const line of readFileSync(new URL('../../../docs/results.md', import.meta.url), 'utf8').split('\n')) {
      const [, names = '', units = '', , what] = line.split('|').map((cell) => cell.trim());
      if (what === undefined || !names.startsWith('`')) continue;
      for (const [, name] of names.matchAll(/`(\w+)`/g)) documented.set(name!, units);
    }
    for (const name of SERIES_METRICS) expect([name, documented.get(name)]).toEqual([name, metricOfSeries(name)?.unit]);
  });

  it('come out as exposition text with escaped labels, grouped by name', () => {
    const text = prometheusText([
      { name: 'vllm:num_requests_waiting', labels: { worker_id: 'a"b\\c\nd' }, value: 3 },
      { name: 'dynamo_frontend_inflight_requests', labels: {}, value: Infinity },
      { name: 'vllm:num_requests_waiting', labels: { worker_id: 'e' }, value: 0.5 },
    ]);
    expect(text.split('\n')).toEqual([
      '# HELP vllm:num_requests_waiting Requests waiting in the engine',
      '# TYPE vllm:num_requests_waiting gauge',
      'vllm:num_requests_waiting{worker_id="a\\"b\\\\c\\nd"} 3',
      'vllm:num_requests_waiting{worker_id="e"} 0.5',
      '# HELP dynamo_frontend_inflight_requests Requests in flight',
      '# TYPE dynamo_frontend_inflight_requests gauge',
      'dynamo_frontend_inflight_requests +Inf',
      '',
    ]);
    expect(() => prometheusText([{ name: 'x', labels: {}, value: 1 }])).toThrow(/"x" is not in METRIC_NAMES/);
    expect(() => prometheusText([{ name: 'kvbm_matched_tokens', labels: { 'a-b': '' }, value: 1 }])).toThrow(/no Prometheus label name/);
  });
});
