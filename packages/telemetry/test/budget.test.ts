import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';

/** Runs in a fresh process: 20,000 requests appended, written, summed up; the processor time of writing alone and the growth of memory. */
const SCRIPT = `
const T = await import('@braess/telemetry');
const before = process.memoryUsage().rss;
let ms = 0;
const timed = (work) => { const start = process.cpuUsage(); const result = work(); const used = process.cpuUsage(start); ms += (used.user + used.system) / 1000; return result; };
const actors = Array.from({ length: 64 }, (_, i) => 'pod0/rack0/node' + (i >> 3) + '/gpu' + (i & 7));
const run = timed(() => T.openRunFolder({ folder: process.argv[1], scenario: {}, seed: '1', versions: {}, summary: { slo: { ttftMs: 500 } },
  names: { actors, tenants: ['a'], networkTiers: ['near', 'far'], metrics: T.SERIES_METRICS, policies: ['kv'], notes: [] } }));
const record = T.emptyRequestRecord();
const itl = T.createLatencyHistogram();
for (let i = 0; i < 20000; i++) {
  record.requestId = i;
  record.outcome = T.OUTCOME.completed;
  record.prefillWorkerId = i % 24;
  record.decodeWorkerId = 24 + (i * 7) % 40;
  record.networkTier = i & 1;
  record.inputTokens = 64 + (i * 7919) % 8000;
  record.outputTokens = 2 + i % 500;
  record.transferBytes = record.inputTokens * 131072;
  record.arrivalNs = i * 3125000;
  record.queuedNs = record.arrivalNs + 500000;
  record.prefillStartNs = record.queuedNs + i % 9999;
  record.prefillEndNs = record.prefillStartNs + record.inputTokens * 20000;
  record.transferStartNs = record.prefillEndNs;
  record.transferEndNs = record.transferStartNs + record.inputTokens * 3000;
  record.firstTokenNs = record.transferEndNs + 9000000;
  record.lastTokenNs = record.firstTokenNs + (record.outputTokens - 1) * 9000000;
  record.endNs = record.lastTokenNs;
  record.maxItlNs = 9000000;
  T.appendRequest(run.requests, record);
  if (i % 1000 === 0) timed(() => T.flushRunFolder(run));
}
T.recordLatency(itl, 9000000, 1000000);
const summary = timed(() => T.closeRunFolder(run, itl, { fingerprint: '', wallSeconds: 0, events: 0, peakRssMb: 0 }));
console.log(JSON.stringify({ ms, grownMb: (process.memoryUsage().rss - before) / 1e6, completed: summary.completed }));
`;

it('writes 20,000 requests in a fresh process within 150 ms and 50 MB', () => {
  const folder = mkdtempSync(join(tmpdir(), 'budget-'));
  try {
    const results = [1, 2, 3].map((attempt) => {
      const text = execFileSync(process.execPath, ['--input-type=module', '-e', SCRIPT, join(folder, String(attempt))], {
        cwd: import.meta.dirname,
      });
      return JSON.parse(text.toString()) as { ms: number; grownMb: number; completed: number };
    });
    for (const result of results) expect(result.completed).toBe(20_000);
    // Processor time of all threads, compiling included: more than the wall time of a free machine, and steady on a busy one.
    expect(Math.min(...results.map((result) => result.ms))).toBeLessThan(150);
    expect(Math.max(...results.map((result) => result.grownMb))).toBeLessThan(50);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
