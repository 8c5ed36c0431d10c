import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseScenario, validateScenario } from '@braess/cluster';
import { RunObserver } from '@braess/kernel';
import { areScale, conservationFaults, countWindows, figuresOf, kneeOf, type ScenarioSummary, seedAt } from '@braess/lab';
import { explainRequest, exportTrace, queryRun, readManifest, writeReport } from '@braess/telemetry';
import { describe, expect, it } from 'vitest';
import { aggregated, disaggregated, essence, newFolder, runText } from './small-runs.js';

interface TraceEvent {
  readonly name: string;
  readonly ph: string;
  readonly pid: number;
  readonly ts: number;
  readonly dur: number;
  readonly args: Readonly<Record<string, unknown>>;
}

describe('a run is the same however it is carried out', () => {
  for (const [name, text, settings] of [
    ['aggregated', aggregated, []],
    ['disaggregated', disaggregated, []],
    [
      'two frontends with late views',
      disaggregated,
      ['router.frontends=2', 'router.replicaSyncMs=20', 'router.loadReportMs=50', 'router.kvEventMs=30'],
    ],
    [
      'closed loop with retries',
      aggregated,
      ['workload.client={kind: closed-loop, inFlight: 6}', 'workload.retry={timeoutMs: 400, attempts: 2}'],
    ],
    [
      'a GPU that dies and comes back',
      disaggregated,
      [
        'faults=[{kind: gpu-speed, atSeconds: 0.5, gpu: pod0/rack0/node0/gpu0, factor: 0}, {kind: gpu-speed, atSeconds: 1, gpu: pod0/rack0/node0/gpu0, factor: 1}]',
      ],
    ],
  ] as const) {
    it(`${name}: this thread, strict, 1 and 2 worker shards, with and without promises`, async () => {
      const one = await runText(text, settings);
      expect(one.faults).toEqual([]);
      for (const options of [{ strict: true }, { transport: 'threads' }, { transport: 'threads', shards: 2 }] as const) {
        expect(essence(await runText(text, settings, options))).toEqual(essence(one));
      }
      const promising = await runText(text, [...settings, 'execution.promises=true'], { transport: 'threads', shards: 2 });
      expect(essence(promising)).toEqual(essence(one));
    });
  }

  it('starts no more shards than there are cells, and says so', async () => {
    const one = await runText(disaggregated);
    const many = await runText(disaggregated, [], { transport: 'threads', shards: 64 });
    expect(essence({ ...many, warnings: [] })).toEqual(essence(one));
    expect(many.shards).toBeLessThan(64);
    expect(many.warnings.join()).toContain(`64 shards were asked for, ${many.shards} ran: the cluster has ${many.shards} cells`);
  });

  it('promises leave fewer windows', async () => {
    const settings = ['workload.requests=200'];
    const options = { transport: 'threads', shards: 2 } as const;
    const withPromises = await runText(aggregated, [...settings, 'execution.promises=true'], options);
    const without = await runText(aggregated, settings, options);
    expect(withPromises.windows).toBeLessThan(without.windows);
  });
});

describe('a run of many tenants', () => {
  it.each([2, 64, 65])('tells gaps between tokens apart for up to 64: %i', async (count) => {
    const names = Array.from({ length: count }, (_, tenant) => `{name: t${tenant}, share: 1}`);
    const { tenants, itlMs, folder } = await runText(aggregated, [`workload.tenants=[${names.join()}]`, 'serving[0].kvBlocks=400']);
    expect(itlMs).not.toBeNull();
    const { rows } = await queryRun(
      folder,
      'select tenant, sum(last_token_ns - first_token_ns) / nullif(sum(output_tokens - 1), 0) / 1e6 from requests group by tenant',
    );
    const means = new Map(rows as [string, number | null][]);
    for (const { name, itlMs } of tenants!) {
      const mean = (count > 64 ? null : means.get(name)) ?? null;
      expect(itlMs, name).toEqual(mean === null ? null : expect.objectContaining({ mean: expect.closeTo(mean, 9) }));
    }
  });
});

describe('a run of two tenants', () => {
  it('tells them apart, also cut and after a warm-up: the sums are those of the whole', async () => {
    const { folder, tenants, ...whole } = await runText(disaggregated, [
      'workload.tenants=[{name: chat, share: 2, slo: {ttftMs: 40}}, {name: batch, share: 1}]',
      'untilSeconds=2',
      'warmupSeconds=0.5',
    ]);
    expect(whole.inFlight).toBeGreaterThan(0);
    expect(tenants?.map(({ name }) => name)).toEqual(['chat', 'batch']);
    const sum = (key: 'submitted' | 'completed' | 'inFlight' | 'requestsPerSecond' | 'outputTokensPerSecond' | 'goodput'): number =>
      (tenants ?? []).reduce((total, tenant) => total + (tenant[key] ?? 0), 0);
    for (const key of ['submitted', 'completed', 'inFlight'] as const) expect(sum(key)).toBe(whole[key]);
    for (const key of ['requestsPerSecond', 'outputTokensPerSecond', 'goodput'] as const) expect(sum(key)).toBeCloseTo(whole[key] ?? -1, 9);
    const { rows } = await queryRun(
      folder,
      `select count(*), count(*) filter (where completed), count(*) filter (where late and outcome <> 'in_flight' and good) / 1.5,
         quantile_cont(e2e_ms, 0.99) filter (where late and completed)
       from (select *, outcome = 'completed' as completed, arrival_s >= 0.5 as late,
         outcome = 'completed' and ttft_ms <= case tenant when 'chat' then 40 else 60 end as good from requests)
       group by tenant order by tenant desc`,
    );
    for (const [index, { submitted, completed, goodput, e2eMs }] of (tenants ?? []).entries())
      for (const [column, value] of [submitted, completed, goodput, e2eMs?.p99].entries())
        expect(value).toBeCloseTo(Number(rows[index]?.[column]), 6);
  });
});

describe('where TTFT ends', () => {
  it.each([
    ['prefill', disaggregated],
    ['decode', disaggregated],
    ['prefill', aggregated],
  ])('is what telemetry.firstTokenAt says: %s', async (firstTokenAt, text) => {
    const { folder } = await runText(text, [`telemetry.firstTokenAt=${firstTokenAt}`]);
    const { rows } = await queryRun(
      folder,
      `select first_token_ns - prefill_end_ns as past, transfer_end_ns is null as whole, first_token_ns >= transfer_end_ns as arrived,
         abs(queue_ms + tier_fetch_ms + prefill_ms + handover_ms + first_decode_ms - ttft_ms) < 1e-6 and least(handover_ms, first_decode_ms) >= 0 as sums
       from requests where outcome = 'completed'`,
    );
    expect(rows).toHaveLength(60);
    for (const [past, whole, arrived, sums] of rows) {
      expect(sums).toBe(true);
      if (firstTokenAt === 'prefill' || whole) expect(past).toBe(0);
      else expect(arrived).toBe(true);
    }
  });

  it('changes nothing else', async () => {
    const columns =
      'request_id, prefill_end_ns, transfer_start_ns, transfer_end_ns, transfer_bytes, network_tier, last_token_ns, max_itl_ns, output_tokens';
    const [atPrefill, atDecode] = await Promise.all(
      ['prefill', 'decode'].map(async (at) => {
        const { folder } = await runText(disaggregated, [`telemetry.firstTokenAt=${at}`]);
        return (await queryRun(folder, `select ${columns} from requests order by request_id`)).rows;
      }),
    );
    expect(atPrefill).toEqual(atDecode);
  });
});

describe('the use of links', () => {
  it.each(['flow', 'chunk'])('is none of a link that is cut, at %s fidelity', async (fidelity) => {
    const { folder } = await runText(disaggregated, [
      `cluster.fabric.fidelity=${fidelity}`,
      'faults=[{kind: link-share, atSeconds: 1, from: pod0/rack0/node0/nic0, to: pod0/rack0/leaf0, share: 0}]',
    ]);
    const { rows } = await queryRun(
      folder,
      `select max(value) filter (time_s < 1.5) > 0, max(value) filter (time_s > 1.5) from series
       where metric = 'link_use' and entity = 'pod0/rack0/node0/nic0->pod0/rack0/leaf0'`,
    );
    expect(rows).toEqual([[true, 0]]);
  });
});

describe('the books balance', () => {
  it('completed, rejected, failed, in flight', async () => {
    const done = await runText(disaggregated);
    expect(done).toMatchObject({ submitted: 60, completed: 60, rejected: 0, failed: 0, inFlight: 0, faults: [], lost: 0, stopped: false });
    const tooLong = await runText(aggregated, ['serving[0].maxModelTokens=1500']);
    expect(tooLong.faults).toEqual([]);
    expect(tooLong.rejected).toBeGreaterThan(0);
    expect(tooLong.completed + tooLong.rejected).toBe(60);
    expect(tooLong.lost).toBe(tooLong.rejected);
    const cut = await runText(disaggregated, ['untilSeconds=1.5']);
    expect(cut.faults).toEqual([]);
    expect(cut.inFlight).toBeGreaterThan(0);
    expect(cut.submitted).toBe(cut.completed + cut.inFlight);
    expect(cut.stopped).toBe(true);
    const { rows } = await queryRun(cut.folder, 'select outcome, count(*) from requests group by outcome order by outcome');
    expect(rows).toEqual([
      ['completed', cut.completed],
      ['in_flight', cut.inFlight],
    ]);
  });

  it('a request that times out is one row with its attempts, also when it was never sent', async () => {
    const run = await runText(aggregated, [
      'workload.connections={connections: 2, queueLimit: 5}',
      'workload.retry={timeoutMs: 300, attempts: 2}',
      'workload.rateFactor=20',
    ]);
    expect(run.faults).toEqual([]);
    expect(run.submitted).toBe(60);
    const { rows } = await queryRun(run.folder, 'select count(*), count(distinct request_id), max(attempts) from requests');
    expect(rows[0]).toEqual([60, 60, 2]);
    expect(run.rejected + run.failed).toBeGreaterThan(0);
  });

  it.each([1, 2])('a request that its client gives up while it decodes keeps what came before: attempt %i of as many', async (attempts) => {
    // Any prompt alone takes less than 300 ms, 400 tokens take more than 2 s: each attempt ends amid its tokens.
    const run = await runText(disaggregated, [
      `workload.retry={timeoutMs: 1000, attempts: ${attempts}}`,
      'workload.source.outputTokens={kind: constant, tokens: 400}',
      'workload.requests=12',
      'workload.rateFactor=0.1',
    ]);
    expect(run).toMatchObject({ submitted: 12, failed: 12, lostReasons: { timeout: 12 }, faults: [] });
    const lastNs = (attempts - 1) * 1e9;
    const { rows } = await queryRun(
      run.folder,
      `select count(prefill_worker), count(decode_worker), count(transfer_end_ns), min(attempts), min(queued_ns - arrival_ns) > ${lastNs},
         max(first_token_ns - arrival_ns) < ${lastNs + 1e9}, sum(cached_tokens_g1) / sum(input_tokens) from requests`,
    );
    expect(rows[0]!.slice(0, 6)).toEqual([12, 12, 12, attempts, true, true]);
    expect(rows[0]![6]).toBeGreaterThan(0.1);
    expect(run.hitRates.g1).toBeCloseTo(rows[0]![6] as number, 12);
    const steps = await explainRequest(run.folder, 0);
    expect(steps.find(({ step }) => step === 'queue')!.text.startsWith('entered the queue, in the last of 2 attempts')).toBe(
      attempts === 2,
    );
    expect(steps.find(({ step }) => step === 'prefill')!.text).toMatch(/^prefill started after 0\.\d+ ms of waiting/);
    // A trace draws it until its client gives up: its decode worker was at it until then.
    const trace = join(newFolder(), '..', 'given-up.json');
    await exportTrace(run.folder, { requestIds: [0] }, trace);
    const { traceEvents } = JSON.parse(readFileSync(trace, 'utf8')) as { traceEvents: TraceEvent[] };
    const [told] = (
      await queryRun(run.folder, 'select arrival_ns, queued_ns, first_token_ns, end_ns, decode_worker from requests where request_id = 0')
    ).rows;
    const [arrivalNs, queuedNs, firstTokenNs, endNs, decodeWorker] = told as [number, number, number, number, string];
    const groups = new Map(traceEvents.filter(({ name }) => name === 'process_name').map(({ pid, args }) => [args.name, pid]));
    const slices = traceEvents.filter(({ ph, pid }) => ph === 'X' && pid === groups.get('requests'));
    const names = ['queue', 'prefill', 'wait for transfer', 'KV transfer', 'first decode', 'decode'];
    expect(slices.map(({ name }) => name)).toEqual(attempts === 1 ? names : ['earlier attempts', ...names]);
    // One after the other from the arrival to the end, without a hole.
    for (const [index, { ts }] of slices.entries()) {
      const before = slices[index - 1];
      expect(ts).toBeCloseTo(before === undefined ? arrivalNs / 1e3 : before.ts + before.dur, 3);
    }
    const last = { name: 'decode', ts: firstTokenNs / 1e3, dur: (endNs - firstTokenNs) / 1e3 };
    expect(traceEvents.filter(({ name }) => name === 'decode')).toMatchObject([last, { ...last, pid: groups.get(decodeWorker) }]);
    expect(slices.find(({ name }) => name === 'earlier attempts')?.dur).toBe(attempts === 1 ? undefined : (queuedNs - arrivalNs) / 1e3);
    expect(traceEvents.filter(({ ph }) => ph === 'i')).toMatchObject([{ name: 'arrival' }, { name: 'failed (timeout)', ts: endNs / 1e3 }]);
  });

  it.each(['prefill', 'decode'])(
    'a trace draws until its end what failed before it was decoded, with the first token at the %s',
    async (firstTokenAt) => {
      // Slow links, so that prompts are given up in every state.
      const run = await runText(disaggregated, [
        `telemetry.firstTokenAt=${firstTokenAt}`,
        'workload.retry={timeoutMs: 150, attempts: 1}',
        'workload.source.inputTokens={kind: lognormal, meanTokens: 3000, sigma: 1}',
        'workload.source.outputTokens={kind: constant, tokens: 400}',
        'cluster.topology.bytesPerSecond.nic=4.0e+9',
      ]);
      const { rows } = await queryRun(
        run.folder,
        `select request_id, end_ns, case when prefill_end_ns is null then 'queue or prefill' when transfer_end_ns is not null then 'decode'
         else 'handover or ${firstTokenAt === 'prefill' ? '' : 'first '}decode' end from requests where outcome = 'failed' order by request_id`,
      );
      const path = join(newFolder(), '..', 'failed.json');
      await exportTrace(run.folder, { requestIds: rows.map(([id]) => id as number) }, path);
      const { traceEvents } = JSON.parse(readFileSync(path, 'utf8')) as { traceEvents: TraceEvent[] };
      expect(new Set(rows.map(([, , phase]) => phase)).size).toBe(3);
      for (const [id, endNs, phase] of rows as [number, number, string][]) {
        const slices = traceEvents.filter(({ ph, args, pid }) => ph === 'X' && args.request === id && pid === 1);
        expect(slices.at(-1)?.name).toBe(phase);
        expect((slices.at(-1) as TraceEvent).ts + (slices.at(-1) as TraceEvent).dur).toBeCloseTo(endNs / 1e3, 3);
      }
    },
  );

  it('what does not add up is named', () => {
    const counts = { submitted: 10, completed: 7, rejected: 1, failed: 0, inFlight: 1 };
    const faults = conservationFaults({ counts, mayAbandon: false }, { ...counts, completed: 6 }, 12, true);
    expect(faults.join('\n')).toContain('7 completed + 1 rejected + 0 failed + 1 in flight = 9');
    expect(faults.join('\n')).toContain('7 requests completed by the records, 6 by the rows written');
    expect(faults.join('\n')).toContain('with 1 requests in flight: they wait for ever');
    expect(faults.join('\n')).toContain('after 10 of 12 requests were submitted');
    const balanced = { submitted: 3, completed: 3, rejected: 0, failed: 0, inFlight: 0 };
    expect(conservationFaults({ counts: balanced, mayAbandon: false }, balanced, 3, true)).toEqual([]);
  });

  it('latencies agree with the rows they come from', async () => {
    const run = await runText(disaggregated);
    const { rows } = await queryRun(run.folder, 'select avg(ttft_ms), avg(e2e_ms), avg(transfer_ms), avg(tpot_ms) from requests');
    const [ttft, e2e, transfer, tpot] = rows[0] as number[];
    expect(run.ttftMs?.mean).toBeCloseTo(ttft as number, 6);
    expect(run.e2eMs?.mean).toBeCloseTo(e2e as number, 6);
    expect(run.transferMs?.mean).toBeCloseTo(transfer as number, 6);
    expect(run.tpotMs?.mean).toBeCloseTo(tpot as number, 5);
    // Every gap counts: as many as tokens after the first.
    const gaps = await queryRun(
      run.folder,
      'select sum((last_token_ns - first_token_ns)) / sum(output_tokens - 1) / 1e6 from requests where output_tokens > 1',
    );
    expect(run.itlMs?.mean).toBeCloseTo((gaps.rows[0] as number[])[0] as number, 6);
  });
});

describe('the estimated saturation', () => {
  const text = `
serving: [{ count: 2, role: prefill, maxBatchedTokens: 4096 }, { count: 2, role: decode, maxBatchedTokens: 4096 }]
cluster: { gpusPerServer: 4 }
workload:
  requests: 600
  source:
    kind: independent
    arrivals: { kind: constant, ratePerSecond: 1 }
    inputTokens: { kind: constant, tokens: 2000 }
    outputTokens: { kind: constant, tokens: 20 }
  slo: { ttftMs: 1000 }
`;

  it('is where a constant load stops being served in time', async () => {
    const report = await validateScenario(parseScenario(text, 'saturation.yaml'));
    expect(report.saturation.limit).toBe('prefill');
    const rate = report.saturation.requestsPerSecond;
    const below = await runText(text, [`workload.rateFactor=${0.9 * rate}`]);
    expect(below.sloAttainment).toBe(1);
    const above = await runText(text, [`workload.rateFactor=${2 * rate}`]);
    expect(above.sloAttainment).toBeLessThan(1);
    // What is served when all is offered at once is what the engines can do; filling and draining the pipeline cost a little.
    expect(above.requestsPerSecond).toBeGreaterThan(0.9 * rate);
    expect(above.requestsPerSecond).toBeLessThan(1.1 * rate);
  });
});

describe('a run folder', () => {
  it('holds what an admission policy decided, and each decision of several frontends once', async () => {
    const crowded = ['workload.rateFactor=20', 'router.frontends=2'];
    const limited = 'router.admission={policy: in-flight-limit, parameters: {maxInFlight: 12}}';
    const { folder, lostReasons } = await runText(aggregated, [...crowded, limited]);
    const asked = await queryRun(
      folder,
      "select chosen, count(*), min(inflight_requests) >= 12, max(inflight_requests) < 12, min(candidate) from decisions where kind = 'admission' group by chosen order by chosen",
    );
    const rejected = lostReasons.admission as number;
    expect(rejected).toBeGreaterThan(0);
    expect(asked.rows).toEqual([
      [false, rejected, true, false, null],
      [true, 60 - rejected, false, true, null],
    ]);
    // One decision of each kind for whom it was made, whichever frontend made it.
    const each = await queryRun(
      folder,
      'select count(distinct decision_id), count(distinct (request_id, kind)), count(distinct actor) from decisions',
    );
    expect(each.rows).toEqual([[120 - rejected, 120 - rejected, 2]]);
    const { rows } = await queryRun(
      folder,
      "select request_id, inflight_requests, waiting_requests, active_prefill_tokens from decisions where kind = 'admission' and not chosen limit 1",
    );
    const [request, inFlight, waiting, tokens] = rows[0] as [number, number, number, number];
    const steps = await explainRequest(folder, request);
    expect(steps.map(({ step }) => step)).toEqual(['arrival', 'decision', 'end']);
    expect(steps[1]).toMatchObject({
      where: expect.stringMatching(/^control\/frontend[01]$/),
      text: `admission by policy in-flight-limit: rejected with ${inFlight} in flight and ${waiting} waiting at this frontend, ${tokens} prompt tokens under way at the engines`,
      candidates: [],
    });
    expect(steps[2]).toMatchObject({ text: 'rejected (admission by policy in-flight-limit)' });
    const report = readFileSync(await writeReport(folder), 'utf8');
    expect(report).toMatch(new RegExp(`<td[^>]*>in-flight-limit</td><td[^>]*>rejected</td><td[^>]*>${rejected}</td>`));
    expect(report).toMatch(new RegExp(`prefill route</td><td[^>]*>kv</td><td[^>]*>${60 - rejected}</td>`));
  });

  it('holds the scenario with its defaults, and one request can be explained', async () => {
    const run = await runText(disaggregated);
    const manifest = readManifest(run.folder);
    expect(manifest).toMatchObject({
      status: 'complete',
      seed: '1',
      fingerprint: run.fingerprint,
      scenario: { router: { policy: 'kv', maxAttempts: 3 } },
    });
    const steps = (await explainRequest(run.folder, 30)).map(({ step }) => step);
    expect(steps.filter((step) => step === 'decision')).toHaveLength(2);
    for (const step of ['arrival', 'queue', 'prefill', 'transfer', 'first token', 'tokens', 'end']) expect(steps).toContain(step);
  });

  it('a stop writes what there is', async () => {
    const stopping = new AbortController();
    stopping.abort();
    const run = await runText(aggregated, ['workload.requests=2000'], { transport: 'threads', signal: stopping.signal });
    expect(run.faults).toEqual([]);
    expect(run.stopped).toBe(true);
    expect(run.completed).toBeLessThan(2000);
    expect(readManifest(run.folder).status).toBe('interrupted');
  });

  it('a policy that throws stops the run with the file and the request, and leaves a failed folder', async () => {
    const { testFile, newFolder } = await import('./small-runs.js');
    testFile(
      'broken.ts',
      `import { defineRouterPolicy } from '@braess/control';
       import { z } from 'zod';
       export default defineRouterPolicy({ name: 'broken', description: 'Throws.', parameters: z.strictObject({}), choose(view, request) { if (request.request > 5) throw new Error('no idea'); return view.candidates[0] as number; } });`,
    );
    const out = newFolder();
    const failing = runText(aggregated, [], { out, ...{} }).then(() => undefined);
    await failing;
    const broken = newFolder();
    await expect(runText(aggregated.replace('policy: kv', 'policy: ./broken.ts'), [], { out: broken })).rejects.toThrow(
      /broken\.ts.*request 6.*no idea/s,
    );
    expect(readManifest(broken).status).toBe('failed');
  });
});

describe('sweeps and windows', () => {
  it('the knee is the last point before the SLO is first missed', () => {
    const point = (...shares: (number | null)[]) => ({
      figures: figuresOf(shares.map((sloAttainment) => ({ sloAttainment, hitRates: {} }) as ScenarioSummary)),
      runs: shares,
    });
    expect(kneeOf([point(1), point(0.95), point(0.5), point(0.99)])).toBe(1);
    expect(kneeOf([point(0.2)])).toBe(-1);
    // The mean decides, of runs that all came to something.
    expect(kneeOf([point(1, 0.82), point(0.85, 1), point(0.8, 0.99)])).toBe(1);
    expect(kneeOf([point(1, 1), point(1, null)])).toBe(0);
    expect(['1,2,3', '9,5', '2', 'kv,random', '1,1', '1,3,2', '1,'].map((values) => areScale(values.split(',')))).toEqual([
      true,
      true,
      true,
      false,
      false,
      false,
      false,
    ]);
    expect(kneeOf([point(null)])).toBe(-1);
  });

  it('seeds count on from the own one, whatever it is', () => {
    const seeds = (own: number | string): string[] => [0, 1, 2].map((index) => seedAt(own, index));
    expect(seeds(1)).toEqual(['1', '2', '3']);
    expect(seeds('41')).toEqual(['41', '42', '43']);
    expect(seeds('tune')).toEqual(['tune', 'tune-2', 'tune-3']);
    // These texts are no numbers: 7 and 07 are different seeds.
    for (const own of ['07', '1.5', '-1', '9007199254740991', '1e3']) expect(seeds(own)).toEqual([own, `${own}-2`, `${own}-3`]);
  });

  it('the bound of windows: events over the busiest shard of each', () => {
    const observer = new RunObserver();
    const counter = countWindows(observer);
    for (const [shard, events] of [
      [0, 10],
      [1, 2],
      [1, 8],
      [0, 4],
    ] as const)
      observer.emit('window', { shard, events, fromNs: 0, boundNs: 0 });
    expect(counter.read()).toEqual({ windows: 2, events: 24, eventsPerWindow: 12, bound: 24 / 18 });
  });
});
