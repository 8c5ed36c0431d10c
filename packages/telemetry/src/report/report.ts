import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type FolderSummary, type RunManifest, readManifest, readSummary } from '../run/folder.js';
import { openRunDatabase, type RunDatabase } from '../run/query.js';
import { writing } from '../writing.js';
import { COLOURS, escapeHtml, formatMs, formatNumber, formatShare, type TimeAxis, timeAxis } from './chart.js';
import { heatMap, mostCells } from './heat-map.js';
import { balanceChart, idleWorkers, linkChart, requestsOfWorkers, STAGES } from './hot-spots.js';
import { cdfCharts, phasesSeen, ttftSplitChart, ttftTimeChart } from './latency-charts.js';
import { frame, legend, section } from './layout.js';
import { admissionTable, decisionTable, latencyTable, lossTable, moveTable, tenantTable } from './tables.js';
import { hitChart, tiersSeen, timelineCharts } from './time-charts.js';

/** See `writeReport` of the package. */
export async function renderReport(folder: string, path = join(folder, 'report.html')): Promise<string> {
  const manifest = readManifest(folder);
  const summary = readSummary(folder);
  const database = await openRunDatabase(folder);
  try {
    const page = await reportPage(folder, manifest, summary, database);
    writing(path, () => writeFileSync(path, page));
    return path;
  } finally {
    database.close();
  }
}

async function reportPage(folder: string, manifest: RunManifest, summary: FolderSummary, database: RunDatabase): Promise<string> {
  const title = scenarioName(manifest);
  const axis = timeAxis(summary.simulatedSeconds);
  const page: Page = { folder, manifest, summary, database, axis };
  const timelines = await timelineCharts(database, axis, summary.simulatedSeconds);
  const tenants = tenantTable(summary);
  const sampledSeconds = await sampledSecondsOf(database, manifest, summary);
  const sections = [
    ...(await latencySections(page)),
    tenants !== null && section('Tenants', 'Rates and latencies as for the whole run. Goodput and SLO are those of the tenant.', tenants),
    timelines.length > 0 &&
      section(
        'Timelines',
        'Line: mean over the engines, GPUs or links that were at work. Band: up to the highest of them.',
        `<div class="grid2">${timelines.map(({ title: name, svg }) => `<div><h3>${escapeHtml(name)}</h3>${svg}</div>`).join('')}</div>`,
      ),
    await topologySection(database, manifest, sampledSeconds),
    await cacheSection(page),
    await hotSpotSection(database, manifest, sampledSeconds),
    await optionalSection(
      'Decisions',
      'What routers, admission policies and planners decided, and how well the choice of a router stood among the candidates recorded.',
      decisionTable(database),
      admissionTable(database),
      moveTable(database),
    ),
    await optionalSection('Requests that did not complete', 'By outcome and reason.', lossTable(database)),
    runSection(manifest, summary),
  ];
  const bad = manifest.status !== 'complete' || summary.failed + summary.rejected > 0.01 * summary.submitted;
  return frame(
    title,
    `<header><div><h1>${escapeHtml(title)}</h1><div class="meta">seed ${escapeHtml(manifest.seed)} &nbsp;·&nbsp; ${escapeHtml(formatMs(summary.simulatedSeconds * 1000))} simulated in ${escapeHtml(formatMs(summary.wallSeconds * 1000))} &nbsp;·&nbsp; fingerprint ${escapeHtml(manifest.fingerprint)}</div></div>
<span class="status${bad ? ' bad' : ''}">${escapeHtml(manifest.status)}${summary.completed === summary.submitted ? '' : `, ${formatNumber(summary.submitted - summary.completed)} requests not completed`}</span></header>
${cards(summary)}
${sections.filter((part) => typeof part === 'string').join('\n')}`,
  );
}

interface Page {
  readonly folder: string;
  readonly manifest: RunManifest;
  readonly summary: FolderSummary;
  readonly database: RunDatabase;
  readonly axis: TimeAxis;
}

/** Latency and its parts; where nothing completed that counts, a sentence that says so. */
async function latencySections({ folder, manifest, summary, database, axis }: Page): Promise<string[]> {
  const warmupSeconds = warmupOf(manifest);
  if (summary.completed === 0 || summary.ttftMs === null) {
    const { inFlight, rejected, failed } = summary;
    const rest = `${formatNumber(inFlight)} in flight at the end, ${formatNumber(rejected)} rejected, ${formatNumber(failed)} failed`;
    const why =
      summary.completed === 0
        ? `No request completed: ${rest}.`
        : `No request that completed arrived after the warm-up of ${formatNumber(warmupSeconds)} s: ${formatNumber(summary.completed)} completed before, ${rest}.`;
    return [section('Latency', 'Over completed requests.', none(`${why} There are no latencies to show.`))];
  }
  const measured = `outcome = 'completed' and arrival_ns >= ${Math.round(warmupSeconds * 1e9)}`;
  const phases = await phasesSeen(database, measured);
  const cdfs = await cdfCharts(database, measured, readItl(folder));
  const which =
    warmupSeconds > 0 ? `completed requests that arrived after the warm-up of ${formatNumber(warmupSeconds)} s` : 'completed requests';
  return [
    section(
      'Latency',
      `Cumulative distributions over ${which}. ITL counts every gap between two tokens, those of requests that failed later among them; TPOT is one value per request.`,
      `<div class="grid3">${cdfs.map((svg) => `<div>${svg}</div>`).join('')}<div style="padding-top:26px">${latencyTable(summary)}</div></div>`,
    ),
    section(
      'Where the time to first token goes',
      `Mean phases of all ${which}, of those near a quantile of TTFT, and over the run.`,
      legend(phases.map(({ meaning, phase }) => [meaning, COLOURS[phase]])) +
        (await ttftSplitChart(database, measured, phases)) +
        (await ttftTimeChart(database, phases, axis, summary.simulatedSeconds)),
    ),
  ];
}

async function cacheSection({ summary, database, axis }: Page): Promise<string> {
  const tiers = await tiersSeen(database);
  return section(
    'Prefix cache',
    'Share of input tokens found in each tier, by time of arrival; the rest was computed.',
    tiers.length === 0
      ? none('No input token was found in a cache: each was computed, or no prompt was begun.')
      : legend(tiers.map(({ name, colour }) => [name, colour])) + (await hitChart(database, tiers, axis, summary.simulatedSeconds)),
  );
}

/** Stands in the place of a chart that would be empty. */
function none(sentence: string): string {
  return `<p class="none">${escapeHtml(sentence)}</p>`;
}

function cards(summary: FolderSummary): string {
  const latency = (name: string, d: FolderSummary['ttftMs']): [string, string, string] => [
    `${name} p50`,
    formatMs(d?.p50).replace(/ (\S+)$/, ' <small>$1</small>'),
    d === null ? '' : `p90 ${formatMs(d.p90)} · p99 ${formatMs(d.p99)}`,
  ];
  const losses = `${formatNumber(summary.rejected)} rejected · ${formatNumber(summary.failed)} failed`;
  const list: [string, string, string][] = [
    ['Completed', `${formatNumber(summary.completed)} <small>of ${formatNumber(summary.submitted)}</small>`, losses],
    [
      'Throughput',
      `${formatNumber(summary.requestsPerSecond)} <small>requests/s</small>`,
      `${formatNumber(summary.inFlight)} in flight at the end`,
    ],
    ['Output', `${formatNumber(summary.outputTokensPerSecond)} <small>tokens/s</small>`, 'of completed requests'],
    [
      'Goodput',
      summary.goodput === null ? '–' : `${formatNumber(summary.goodput)} <small>requests/s</small>`,
      summary.goodput === null
        ? 'no SLO given'
        : summary.sloAttainment === null
          ? 'none has ended'
          : `${formatShare(summary.sloAttainment)} met the SLO`,
    ],
    ['Prefix cache hits', formatShare(summary.hitRates.total).replace(' %', ' <small>%</small>'), tierShares(summary.hitRates)],
    latency('KV transfer', summary.transferMs),
    latency('TTFT', summary.ttftMs),
    latency('ITL', summary.itlMs),
    latency('TPOT', summary.tpotMs),
    latency('E2E', summary.e2eMs),
    ['Events', formatNumber(summary.events), `${formatNumber(summary.events / Math.max(summary.wallSeconds, 1e-9))} per second`],
    ['Peak memory', `${formatNumber(summary.peakRssMb)} <small>MB</small>`, `wall time ${formatMs(summary.wallSeconds * 1000)}`],
  ];
  return `<div class="cards">${list
    .map(
      ([label, value, detail]) =>
        `<div class="card"><div class="label">${label}</div><div class="value">${value}</div><div class="detail">${detail}</div></div>`,
    )
    .join('')}</div>`;
}

/** Tiers that were hit; G1 alone where none was. */
function tierShares({ g1, ...lower }: FolderSummary['hitRates']): string {
  const used = (['g2', 'g3', 'g4'] as const).filter((tier) => lower[tier] > 0);
  return [`G1 ${formatShare(g1)}`, ...used.map((tier) => `${tier.toUpperCase()} ${formatShare(lower[tier])}`)].join(' · ');
}

/** Time that the series tell of: the whole run, but for the period in which it was interrupted, of which nothing was sampled. */
async function sampledSecondsOf(database: RunDatabase, { status }: RunManifest, { simulatedSeconds }: FolderSummary): Promise<number> {
  if (status === 'complete') return simulatedSeconds;
  // Told of in each period, whatever there is to do.
  const { rows } = await database.query(`select max(time_s) from series where metric = 'requests_per_second'`);
  return Math.min(simulatedSeconds, Number(rows[0]?.[0] ?? simulatedSeconds));
}

async function topologySection(database: RunDatabase, { gpus = [] }: RunManifest, sampledSeconds: number): Promise<string | null> {
  const map = await heatMap(database, gpus, 1140, sampledSeconds);
  if (map === null) return null;
  const scale = '<div class="legend"><span>idle<span class="scale"></span>busy, share of time in %</span></div>';
  const shown =
    gpus.length > mostCells
      ? 'Every server by the mean use of its GPUs over the run: a block per pod, a row per rack.'
      : 'Every GPU by its mean use over the run: a block per rack, a row per node.';
  return section('Topology', shown, scale + map);
}

async function hotSpotSection(database: RunDatabase, { engines }: RunManifest, sampledSeconds: number): Promise<string | null> {
  const links = await linkChart(database, sampledSeconds);
  const workers = await requestsOfWorkers(database);
  if (links === null && workers.length === 0) return null;
  const idle = await idleWorkers(database, engines, workers);
  const stages = legend(
    STAGES.filter(({ stage }) => workers.some((worker) => worker.stage === stage)).map(({ name, colour }) => [name, colour]),
  );
  const left = links === null ? '' : `<div><h3>Busiest links</h3><div class="legend">&nbsp;</div>${links}</div>`;
  const without = idle === 0 ? '' : `, ${formatNumber(idle)} more had none`;
  const right = workers.length === 0 ? '' : `<div><h3>Requests of each worker${without}</h3>${stages}${balanceChart(workers)}</div>`;
  return section(
    'Hot spots and balance',
    'Which links carried most, and how evenly the routers spread the load.',
    `<div class="grid2">${left}${right}</div>`,
  );
}

async function optionalSection(title: string, note: string, ...parts: Promise<string | null>[]): Promise<string | null> {
  const present = (await Promise.all(parts)).filter((part) => part !== null);
  return present.length === 0 ? null : section(title, note, present.join('<div style="height:16px"></div>'));
}

function runSection(manifest: RunManifest, summary: FolderSummary): string {
  const json = (value: unknown): string => `<pre>${escapeHtml(JSON.stringify(value, null, 2))}</pre>`;
  const versions = Object.entries(manifest.versions).map(([name, version]) => `${name} ${version}`);
  return section(
    'Run',
    `${versions.map(escapeHtml).join(' · ')}`,
    `<details><summary>Scenario</summary>${json(manifest.scenario)}</details><details><summary>Summary</summary>${json(summary)}</details>`,
  );
}

function scenarioName(manifest: RunManifest): string {
  const { scenario } = manifest;
  const name = typeof scenario === 'object' && scenario !== null && 'name' in scenario ? scenario.name : undefined;
  return typeof name === 'string' && name !== '' ? name : 'Run';
}

function warmupOf({ scenario }: RunManifest): number {
  const seconds = typeof scenario === 'object' && scenario !== null && 'warmupSeconds' in scenario ? scenario.warmupSeconds : 0;
  return typeof seconds === 'number' ? seconds : 0;
}

function readItl(folder: string): [number, number][] {
  const path = join(folder, 'itl.json');
  return existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as { points: [number, number][] }).points : [];
}
