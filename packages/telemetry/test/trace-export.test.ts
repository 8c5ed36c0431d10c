import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  appendRequest,
  closeRunFolder,
  createLatencyHistogram,
  emptyRequestRecord,
  exportTrace,
  OUTCOME,
  openRunFolder,
  SERIES_METRICS,
} from '@braess/telemetry';
import { afterAll, expect, it } from 'vitest';

const parent = mkdtempSync(join(tmpdir(), 'exports-'));
afterAll(() => rmSync(parent, { recursive: true, force: true }));

const MS = 1e6;

interface TraceEvent {
  readonly name: string;
  readonly ph: string;
  readonly pid: number;
  readonly tid: number;
  /** us, as the duration. */
  readonly ts: number;
  readonly dur: number;
  readonly args: { readonly name?: string };
}

interface Slice {
  readonly name: string;
  readonly track: string;
  readonly fromMs: number;
  readonly toMs: number;
}

/** Slices of the group `requests` of a run with one request that was computed from 10 to 80 ms, and whose KV moved from `transferMs` to 90 ms. */
async function slicesOf(name: string, transferMs: number): Promise<Slice[]> {
  const folder = join(parent, name);
  const names = { actors: ['a', 'b'], tenants: ['t'], networkTiers: [], metrics: SERIES_METRICS, policies: [], notes: [] };
  const run = openRunFolder({ folder, scenario: { name }, seed: '1', versions: {}, names, summary: { warmupNs: 0 } });
  appendRequest(run.requests, {
    ...emptyRequestRecord(),
    outcome: OUTCOME.completed,
    arrivalNs: 0,
    inputTokens: 100,
    outputTokens: 2,
    prefillWorkerId: 0,
    decodeWorkerId: 1,
    queuedNs: 1 * MS,
    prefillStartNs: 10 * MS,
    prefillEndNs: 80 * MS,
    transferStartNs: transferMs * MS,
    transferEndNs: 90 * MS,
    firstTokenNs: 100 * MS,
    lastTokenNs: 110 * MS,
    endNs: 110 * MS,
  });
  closeRunFolder(run, createLatencyHistogram(), { fingerprint: 'f', wallSeconds: 1, events: 1, peakRssMb: 1 }, { simulatedNs: 110 * MS });
  const path = join(parent, `${name}.json`);
  await exportTrace(folder, { requestIds: [0] }, path);
  const { traceEvents: events } = JSON.parse(readFileSync(path, 'utf8')) as { traceEvents: TraceEvent[] };
  const group = events.find((event) => event.name === 'process_name' && event.args.name === 'requests')!.pid;
  const tracks = new Map(events.filter((event) => event.name === 'thread_name').map(({ tid, args }) => [tid, args.name!]));
  return events
    .filter(({ ph, pid }) => ph === 'X' && pid === group)
    .map((event) => ({
      name: event.name,
      track: tracks.get(event.tid)!,
      fromMs: event.ts / 1000,
      toMs: (event.ts + event.dur) / 1000,
    }));
}

const before = [
  { name: 'queue', track: 'request 0', fromMs: 0, toMs: 10 },
  { name: 'prefill', track: 'request 0', fromMs: 10, toMs: 80 },
];
const after = [
  { name: 'first decode', track: 'request 0', fromMs: 90, toMs: 100 },
  { name: 'decode', track: 'request 0', fromMs: 100, toMs: 110 },
];

it('shows KV that moved after its prompt was computed between prefill and decode', async () => {
  expect(await slicesOf('after', 85)).toEqual([
    ...before,
    { name: 'wait for transfer', track: 'request 0', fromMs: 80, toMs: 85 },
    { name: 'KV transfer', track: 'request 0', fromMs: 85, toMs: 90 },
    ...after,
  ]);
});

it('shows KV that moved layer by layer on a track of its own, and what was left of it on the one of its request', async () => {
  expect(await slicesOf('layers', 20)).toEqual([
    ...before,
    { name: 'rest of the KV transfer', track: 'request 0', fromMs: 80, toMs: 90 },
    ...after,
    { name: 'KV transfer', track: 'request 0, KV', fromMs: 20, toMs: 90 },
  ]);
});
