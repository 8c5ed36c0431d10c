import { mkdtempSync, readFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { RunObserver, run, type WindowReport } from '@braess/kernel';
import { faultProgram } from '@braess/kernel/testing';
import { describe, expect, it } from 'vitest';

const ring = { actors: 6, fault: 'none' as const, failing: 4, atCount: 30, hops: 2000, delayNs: 1000 };

describe("shards: 'auto'", () => {
  it('gives the fingerprint of a fixed count, and says what it chose and why', async () => {
    const fixed = await run(faultProgram, ring, { shards: 1 });
    const auto = await run(faultProgram, ring, { shards: 'auto' });
    expect([auto.fingerprint, auto.eventCount]).toEqual([fixed.fingerprint, fixed.eventCount]);
    // A run over before the first measurement makes no choice; what is said otherwise names a reason.
    if (auto.choice !== undefined) expect(auto.choice.reason).not.toBe('');
  });

  it('stays on one shard where a window holds a token, and goes on from its checkpoint', { timeout: 60_000 }, async () => {
    const long = { ...ring, hops: 400_000 };
    const fixed = await run(faultProgram, long, { shards: 1 });
    const auto = await run(faultProgram, long, { shards: 'auto' });
    expect(auto.fingerprint).toBe(fixed.fingerprint);
    if (availableParallelism() > 1 && auto.choice !== undefined) expect(auto.choice).toMatchObject({ shards: 1 });
  });
});

describe('inspection', () => {
  it('writes the events of chosen actors in the trace-event format, the same in memory and on threads', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'braess-trace-'));
    const files: string[] = [];
    for (const transport of ['memory', 'threads'] as const) {
      const file = join(folder, `${transport}.json`);
      await run(faultProgram, ring, { transport, trace: { actors: ['ring000001'], file } });
      files.push(readFileSync(file, 'utf8'));
    }
    const { traceEvents } = JSON.parse(files[0] as string) as {
      traceEvents: { ph: string; name: string; ts?: number; args: Record<string, unknown> }[];
    };
    const seen = traceEvents.filter((event) => event.ph === 'X');
    // Six tokens go round six actors: each actor gets one every hop.
    expect(seen.length).toBeGreaterThan(300);
    expect(new Set(seen.map((event) => event.name)).has('token')).toBe(true);
    const gaps = new Set(seen.slice(1).map((event, index) => Math.round(((event.ts as number) - (seen[index]?.ts as number)) * 1000)));
    expect([...gaps]).toEqual([ring.delayNs]);
    expect(JSON.parse(files[1] as string)).toEqual(JSON.parse(files[0] as string));
  });

  it('reports windows only to who listens, in order and without overlap', async () => {
    const observer = new RunObserver();
    const windows: WindowReport[] = [];
    observer.on('window', (window) => windows.push(window));
    const result = await run(faultProgram, ring, { shards: 2, observer });
    expect(windows.reduce((sum, window) => sum + window.events, 0)).toBe(result.eventCount);
    for (const shard of [0, 1]) {
      const own = windows.filter((window) => window.shard === shard && window.events > 0);
      for (let index = 1; index < own.length; index++) expect(own[index]?.fromNs).toBeGreaterThanOrEqual(own[index - 1]?.boundNs as number);
    }
  });
});
