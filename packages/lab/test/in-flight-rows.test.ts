import { queryRun } from '@braess/telemetry';
import { describe, expect, it } from 'vitest';
import { aggregated, disaggregated, runText } from './small-runs.js';

type Row = Record<string, unknown>;

async function rowsOf(folder: string): Promise<Map<number, Row>> {
  const { columns, rows } = await queryRun(folder, 'select * from requests');
  return new Map(rows.map((row) => [row[0] as number, Object.fromEntries(columns.map((column, index) => [column, row[index]]))]));
}

/** Where a frontend learns of it: the end of the prefill and the first token, one way (`delays.controlUs`) later. */
const controlNs = 500_000;
const busy = ['workload.rateFactor=4'];

describe('rows of requests that are in flight where a run is cut', () => {
  it.each([
    ['disaggregated', disaggregated, busy],
    ['aggregated', aggregated, busy],
    ['two frontends', disaggregated, [...busy, 'router.frontends=2']],
    ['closed loop', disaggregated, ['workload.client={kind: closed-loop, style: semaphore, inFlight: 8}']],
  ])('%s: say what the whole run says of the time before, and no more', async (name, text, settings) => {
    const untilNs = 0.45e9;
    const whole = await rowsOf((await runText(text, settings)).folder);
    const stopped = await runText(text, [...settings, `untilSeconds=${untilNs / 1e9}`]);
    expect(stopped.faults).toEqual([]);
    expect(stopped.inFlight).toBeGreaterThan(4);
    expect(stopped.submitted).toBe(stopped.completed + stopped.inFlight);
    const known = (ns: unknown, lateNs: number): boolean => typeof ns === 'number' && ns + lateNs < untilNs;
    const seen = { prefilled: 0, first: 0, waiting: 0, withClient: 0 };
    for (const [id, row] of await rowsOf(stopped.folder)) {
      const full = whole.get(id)!;
      if (row.outcome === 'completed') {
        expect(row).toEqual(full);
        continue;
      }
      const prefilled = known(full.prefill_end_ns, controlNs);
      const first = known(full.first_token_ns, controlNs);
      // The frontend that sent it to its engine, a way before it came there, knows of it; a task that waits for a permit is still with its client.
      const sent = known(full.queued_ns, -controlNs);
      seen.prefilled += Number(prefilled && !first);
      seen.first += Number(first);
      seen.waiting += Number(!prefilled);
      seen.withClient += Number(!sent);
      expect(row, `request ${id}`).toMatchObject({
        outcome: 'in_flight',
        input_tokens: full.input_tokens,
        arrival_ns: full.arrival_ns,
        queued_ns: sent ? full.queued_ns : null,
        prefill_worker: sent ? full.prefill_worker : null,
        prefill_start_ns: prefilled ? full.prefill_start_ns : null,
        prefill_end_ns: prefilled ? full.prefill_end_ns : null,
        cached_tokens: prefilled ? full.cached_tokens : 0,
        first_token_ns: first ? full.first_token_ns : null,
        output_tokens: first ? 1 : 0,
        transfer_end_ns: first ? full.transfer_end_ns : null,
        last_token_ns: null,
        end_ns: null,
      });
      if (prefilled) expect(row.decode_worker).toBe(full.decode_worker);
    }
    expect(seen.first).toBeGreaterThan(0);
    expect(seen.waiting).toBeGreaterThan(0);
    expect(seen.withClient > 0).toBe(name === 'closed loop');
  });

  it('and the same on two shards; nothing else changes, and a run that ends before it is cut does not wait', async () => {
    const settings = [...busy, 'router.frontends=2', 'untilSeconds=0.45'];
    const one = await runText(disaggregated, settings);
    const two = await runText(disaggregated, settings, { transport: 'threads', shards: 2 });
    expect([two.fingerprint, two.recordFingerprint]).toEqual([one.fingerprint, one.recordFingerprint]);
    const whole = await runText(disaggregated, busy);
    const longer = await runText(disaggregated, [...busy, 'untilSeconds=1000']);
    expect([longer.fingerprint, longer.events, longer.simulatedSeconds]).toEqual([whole.fingerprint, whole.events, whole.simulatedSeconds]);
  });
});
