import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  appendRequest,
  appendSample,
  closeRunFolder,
  createLatencyHistogram,
  emptyRequestRecord,
  OUTCOME,
  openRunFolder,
  REASON,
  type RequestRecord,
  recordLatency,
  SERIES_METRICS,
  writeReport,
} from '@braess/telemetry';
import { afterAll, describe, expect, it } from 'vitest';

const parent = mkdtempSync(join(tmpdir(), 'reports-'));
afterAll(() => rmSync(parent, { recursive: true, force: true }));

const actors = ['pod0/rack0/node0/engine0', 'pod0/rack0/node0/gpu0', 'leaf0->spine0', 'leaf1->spine0', 'pod0/rack0/node0/engine1'];
const S = 1e9;
const MS = 1e6;

type Sample = readonly [seconds: number, metric: (typeof SERIES_METRICS)[number], entity: number, value: number];

/** A request of 100 + 1 tokens at engine 0: TTFT `ttftMs`, no transfer. */
function served(requestId: number, arrivalS: number, ttftMs: number): RequestRecord {
  const arrivalNs = arrivalS * S;
  const firstTokenNs = arrivalNs + ttftMs * MS;
  return {
    ...emptyRequestRecord(),
    requestId,
    outcome: OUTCOME.completed,
    inputTokens: 100,
    outputTokens: 2,
    prefillWorkerId: 0,
    decodeWorkerId: 0,
    arrivalNs,
    queuedNs: arrivalNs,
    prefillStartNs: arrivalNs + 1 * MS,
    prefillEndNs: firstTokenNs,
    firstTokenNs,
    lastTokenNs: firstTokenNs + 10 * MS,
    endNs: firstTokenNs + 10 * MS,
  };
}

async function reportOf(
  name: string,
  requests: readonly RequestRecord[],
  options: {
    samples?: readonly Sample[];
    warmupSeconds?: number;
    simulatedSeconds?: number;
    status?: 'complete' | 'interrupted';
    places?: { readonly engines: readonly string[]; readonly gpus: readonly string[] };
  } = {},
): Promise<string> {
  const { samples = [], warmupSeconds = 0, simulatedSeconds = 10, status = 'complete', places = {} } = options;
  const folder = join(parent, name);
  const run = openRunFolder({
    folder,
    scenario: { name, warmupSeconds },
    seed: '1',
    versions: {},
    ...places,
    names: { actors, tenants: ['t'], networkTiers: [], metrics: SERIES_METRICS, policies: [], notes: [] },
    summary: { warmupNs: warmupSeconds * S },
  });
  const itl = createLatencyHistogram();
  for (const request of requests) {
    appendRequest(run.requests, request);
    if (request.outcome === OUTCOME.completed) recordLatency(itl, 10 * MS);
  }
  for (const [seconds, metric, entity, value] of samples)
    appendSample(run.series, seconds * S, SERIES_METRICS.indexOf(metric), entity, value);
  closeRunFolder(run, itl, { fingerprint: 'f', wallSeconds: 1, events: 1, peakRssMb: 1 }, { simulatedNs: simulatedSeconds * S, status });
  const page = readFileSync(await writeReport(folder), 'utf8');
  // Plot marks its own complaints with this sign.
  expect(page).not.toMatch(/NaN|undefined|Infinity|\u26a0/);
  return page;
}

describe('a report', () => {
  it('says that nothing completed, and draws nothing of it', async () => {
    const waiting = { ...emptyRequestRecord(), outcome: OUTCOME.inFlight, arrivalNs: 1, inputTokens: 10 };
    const rejected = { ...waiting, requestId: 1, outcome: OUTCOME.rejected, reason: REASON.tooLong, endNs: 1 };
    const page = await reportOf('none', [waiting, rejected]);
    expect(page).toContain('No request completed: 1 in flight at the end, 1 rejected, 0 failed. There are no latencies to show.');
    expect(page).toContain('No input token was found in a cache');
    expect(page).not.toContain('<svg');
  });

  it('takes no request of the warm-up for its distributions, and says so where nothing is left', async () => {
    const requests = [served(0, 1, 900), served(1, 6, 100), served(2, 7, 100)];
    const page = await reportOf('warm', requests, { warmupSeconds: 5 });
    expect(page).toContain('completed requests that arrived after the warm-up of 5 s');
    expect(page).toContain('p99  100 ms');
    expect(page).not.toContain('p99  900 ms');
    const none = await reportOf('warm-up only', requests, { warmupSeconds: 8 });
    expect(none).toContain('No request that completed arrived after the warm-up of 8 s: 3 completed before');
  });

  it('names only what there is: tiers with hits, phases that take time, stages', async () => {
    const hit = { ...served(0, 1, 100), cachedTokensG1: 10, cachedTokensG3: 5 };
    const page = await reportOf('aggregated', [hit, served(1, 2, 100)]);
    const legends = [...page.matchAll(/<div class="legend">(.*?)<\/div>/g)].map(([, entries]) =>
      [...entries!.matchAll(/<\/i>([^<]*)</g)].map(([, name]) => name),
    );
    expect(legends).toEqual([['queue', 'prefill'], ['G1 HBM', 'G3 NVMe'], ['prefill worker']]);
  });

  it('takes the use of a GPU over the run, also where that ends within a period of the series', async () => {
    // 40 % of the first second, all of it within the half second of the run: 80 %.
    const places = { engines: [], gpus: ['pod0/rack0/node0/gpu0'] };
    const page = await reportOf('half a period', [served(0, 0.1, 100)], {
      samples: [[1, 'gpu_use', 1, 0.4]],
      simulatedSeconds: 0.5,
      places,
    });
    expect(page).toContain('pod0/rack0/node0/gpu0: 80.0 %');
    // Interrupted at 1.9 s, all busy: nothing was sampled of the last 0.9 s.
    const samples: Sample[] = [
      [1, 'gpu_use', 1, 1],
      [1, 'link_use', 3, 0.5],
      [1, 'requests_per_second', -1, 0],
    ];
    const cut = await reportOf('interrupted', [served(0, 0.1, 100)], { samples, simulatedSeconds: 1.9, places, status: 'interrupted' });
    expect(cut).toContain('pod0/rack0/node0/gpu0: 100.0 %');
    expect(cut).toContain('leaf1-&gt;spine0: mean 50.0 %');
  });

  it('lists links that carried something, and says so where none did', async () => {
    const idle: Sample[] = [
      [1, 'link_use', 2, 0],
      [1, 'link_use', 3, 0],
    ];
    expect(await reportOf('idle links', [served(0, 1, 100)], { samples: idle })).toContain('None of the sampled links carried anything.');
    const page = await reportOf('one busy link', [served(0, 1, 100)], { samples: [...idle, [2, 'link_use', 3, 0.5]] });
    expect(page).toContain('leaf1-&gt;spine0');
    expect(page).not.toContain('leaf0-&gt;spine0');
  });

  it('draws the wait for lower tiers between queue and prefill, as long as it took', async () => {
    // 1 ms of queue, then 30 of fetch and 69 of prefill.
    const page = await reportOf('tiers', [{ ...served(0, 1, 100), cachedTokensG2: 10, tierFetchNs: 30 * MS, tierFetchBytes: 1e6 }]);
    expect(page).toContain('fetch of KV from lower tiers</span>');
    expect(page).toMatch(/KV fetch, lower tiers<\/td><td class="n">30 ms/);
    const split = page.slice(page.indexOf('Where the time to first token goes')).split('</svg>')[0]!;
    const bars = [...split.matchAll(/<rect fill="(#\w+)" height="\d+" y="\d+" width="([\d.]+)" x="([\d.]+)"/g)].slice(0, 3);
    const [queue, fetch, prefill] = bars.map(([, fill, width, x]) => ({ fill, width: Number(width), x: Number(x) }));
    expect([queue!.x < fetch!.x, fetch!.x < prefill!.x]).toEqual([true, true]);
    expect(new Set([queue!.fill, fetch!.fill, prefill!.fill]).size).toBe(3);
    // Each is drawn half a pixel short.
    expect((fetch!.width + 0.5) / (prefill!.width + 0.5)).toBeCloseTo(30 / 69, 3);
  });

  it('draws what is told of at each change as steps that hold, up to the end', async () => {
    // 2 engines, at 3 s at once 1, then none; at 8 s 2 again. The whole run takes 10 s.
    const samples: Sample[] = [
      [0, 'prefill_engines', -1, 2],
      [3, 'prefill_engines', -1, 1],
      [3, 'prefill_engines', -1, 0],
      [5, 'prefill_engines', -1, 0],
      [8, 'prefill_engines', -1, 2],
    ];
    const page = await reportOf('role changes', [served(0, 1, 100)], { samples });
    const chart = page.slice(page.indexOf('Engines that serve prefill'));
    const line = /aria-label="line".*?<path d="M([^"]*)"/s.exec(chart)?.[1] ?? '';
    // Every corner once.
    const points = [...new Set(line.split('L'))].map((point) => point.split(',').map(Number) as [number, number]);
    const [left, top] = points[0]!;
    const width = points.at(-1)![0] - left;
    const seconds = points.map(([x, y]) => [Math.round((100 * (x - left)) / width) / 10, y === top ? 2 : 0]);
    expect(seconds).toEqual([
      [0, 2],
      [3, 2],
      [3, 0],
      [8, 0],
      [8, 2],
      [10, 2],
    ]);
  });

  it('gives means over the run, not over the samples, which idle GPUs and links do not have', async () => {
    // The GPU works in the first second of ten. One link is told of at 1 s and, idle again, at 2 s; another at every beat.
    const samples: Sample[] = [
      [1, 'gpu_use', 1, 1],
      [1, 'queue_depth', 0, 0],
      [1, 'queue_depth', 4, 0],
      [1, 'link_use', 2, 0.5],
      [2, 'link_use', 2, 0],
      ...Array.from({ length: 10 }, (_, beat): Sample => [beat + 1, 'link_use', 3, beat % 2 === 0 ? 0.2 : 0.4]),
    ];
    const page = await reportOf('means', [served(0, 0, 100)], { samples });
    expect(page).toContain('<title>pod0/rack0/node0/gpu0: 10.0 %</title>');
    expect(page).toContain('<title>leaf0-&gt;spine0: mean 5.0 %, peak 50.0 %</title>');
    expect(page).toContain('<title>leaf1-&gt;spine0: mean 30.0 %, peak 40.0 %</title>');
    expect(page).toContain('Requests of each worker, 1 more had none');
  });

  it('shows GPUs that never worked as idle, and counts engines that had no request', async () => {
    const places = {
      engines: [...actors.filter((name) => name.includes('engine')), 'pod0/rack0/node1/engine0'],
      gpus: ['node0', 'node1'].map((node) => `pod0/rack0/${node}/gpu0`),
    };
    const page = await reportOf('idle', [served(0, 0, 100)], { samples: [[1, 'gpu_use', 1, 1]], places });
    expect(page).toContain('<title>pod0/rack0/node0/gpu0: 10.0 %</title>');
    expect(page).toContain('<title>pod0/rack0/node1/gpu0: 0.0 %</title>');
    expect(page).toContain('Requests of each worker, 2 more had none');
    // Where GPUs are not sampled nobody knows whether they worked.
    expect(await reportOf('unsampled', [served(0, 0, 100)], { places })).not.toContain('gpu0:');
  });

  it('draws servers where there are too many GPUs to find one', async () => {
    const gpus = Array.from({ length: 8 * 2049 }, (_, gpu) => `pod0/rack${gpu >> 5}/node${(gpu >> 3) % 4}/gpu${gpu % 8}`);
    const page = await reportOf('servers', [served(0, 0, 100)], { samples: [[4, 'gpu_use', 1, 1]], places: { engines: [], gpus } });
    // One of eight GPUs, busy for 4 s of 10.
    expect(page).toContain('<title>pod0/rack0/node0: 5.0 %</title>');
    expect(page).toContain('<title>pod0/rack512/node0: 0.0 %</title>');
    expect(page).toContain('Every server by the mean use of its GPUs');
    expect(page).not.toContain('gpu0:');
  });

  it('holds a link at what was last told while others are told of', async () => {
    const told: Sample[] = [
      [1, 'link_use', 2, 0.5],
      ...Array.from({ length: 4 }, (_, beat): Sample => [beat + 1, 'link_use', 3, beat / 10]),
    ];
    // Told once, at the first of four beats of ten seconds: the network rests from the fifth on.
    expect(await reportOf('held', [served(0, 0, 100)], { samples: told })).toContain('leaf0-&gt;spine0: mean 20.0 %, peak 50.0 %');
  });

  it('writes the quantiles where the curve does not pass, whatever its shape', async () => {
    const shapes: [string, (share: number) => number][] = [
      ['early', (share) => 10 + 990 * share ** 12],
      ['late', (share) => 1000 - 990 * (1 - share) ** 12],
      ['even', (share) => 10 + 990 * share],
      ['log', (share) => 2 * 10 ** (3 * share)],
      ['steps', (share) => (share < 0.45 ? 100 : share < 0.9 ? 101 : 900)],
      ['one value', () => 100],
    ];
    for (const [name, ttftMs] of shapes) {
      const page = await reportOf(
        name,
        Array.from({ length: 400 }, (_, i) => served(i, i / 100, ttftMs(i / 399))),
      );
      const panel = page.slice(page.indexOf('<svg', page.indexOf('grid3')));
      const curve = /stroke-width="2"[^>]*aria-label="line"[^>]*><path d="([^"]*)"/.exec(panel)![1]!;
      const points = curve
        .slice(1)
        .split('L')
        .map((point) => point.split(',').map(Number) as [number, number]);
      const labels = [
        ...panel
          .slice(0, panel.indexOf('</svg>'))
          .matchAll(
            /<g transform="translate\(([^)]*)\)"[^>]*text-anchor="(\w+)"[^>]*><text transform="translate\(([^)]*)\)"[^>]*>(p\d+[^<]*)</g,
          ),
      ];
      expect(labels, name).toHaveLength(3);
      for (const [, shift, anchor, at, text] of labels) {
        const [x, y] = [0, 1].map((axis) => Number(shift!.split(',')[axis]) + Number(at!.split(',')[axis])) as [number, number];
        // About 6.4 px a bold character of 11.5 px, 5 px up and down.
        const wide = 6.4 * text!.length;
        const left = anchor === 'end' ? x - wide : x;
        expect(crosses(points, left, left + wide, y - 5, y + 5), `${name}: ${text}`).toBe(false);
      }
    }
  });

  it('fits the window: no width is fixed but the greatest', async () => {
    const page = await reportOf('narrow', [served(0, 0, 100)]);
    expect(page).toContain('width=device-width');
    expect(page.slice(0, page.indexOf('</style>'))).not.toMatch(/(?<![-\w])width: \d{4}px/);
  });
});

/** Whether the line through the points enters the box; steps are looked at every pixel. */
function crosses(points: readonly (readonly [number, number])[], left: number, right: number, top: number, bottom: number): boolean {
  return points.slice(1).some(([toX, toY], index) => {
    const [fromX, fromY] = points[index]!;
    const steps = Math.max(1, Math.ceil(Math.max(Math.abs(toX - fromX), Math.abs(toY - fromY))));
    return Array.from({ length: steps + 1 }, (_, step) => step / steps).some((share) => {
      const [x, y] = [fromX + share * (toX - fromX), fromY + share * (toY - fromY)];
      return x >= left && x <= right && y >= top && y <= bottom;
    });
  });
}
