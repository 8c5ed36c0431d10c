// A toy cluster, only to make run folders with realistic shapes: Poisson arrivals with a burst, FIFO prefill, transfers over shared uplinks, decode batches.
import {
  appendDecision,
  appendRequest,
  appendSample,
  createLatencyHistogram,
  DECISION_KIND,
  emptyDecisionRecord,
  emptyRequestRecord,
  flushRunFolder,
  type LatencyHistogram,
  OUTCOME,
  openRunFolder,
  REASON,
  type RequestRecord,
  type RunFolder,
  recordLatency,
  SERIES_METRICS,
} from '@braess/telemetry';

const PREFILL = 6;
const DECODE = 10;
const ENGINES = PREFILL + DECODE;
const MS = 1e6;

export function randomNumbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** 16 engines of 4 GPUs on 8 nodes in 4 racks, 2 uplinks a rack, a router and a planner. Engines come first, so engine id = actor id. */
export function clusterNames(): string[] {
  const names: string[] = [];
  for (let engine = 0; engine < ENGINES; engine++) names.push(`${nodeName(Math.floor(engine / 2))}/engine${engine % 2}`);
  for (let gpu = 0; gpu < ENGINES * 4; gpu++) names.push(`${nodeName(Math.floor(gpu / 8))}/gpu${gpu % 8}`);
  for (let link = 0; link < 8; link++) names.push(`pod0/rack${Math.floor(link / 2)}/leaf/uplink${link % 2}`);
  names.push('control/router0', 'control/planner');
  return names;
}

const nodeName = (node: number): string => `pod0/rack${Math.floor(node / 2)}/node${node % 2}`;
const GPU0 = ENGINES;
const LINK0 = GPU0 + ENGINES * 4;
const ROUTER = LINK0 + 8;
const PLANNER = ROUTER + 1;

export interface SyntheticRun {
  run: RunFolder;
  itl: LatencyHistogram;
  records: RequestRecord[];
  simulatedNs: number;
}

/** Opens `folder` and fills it; the caller closes it. `keep` collects the records for comparison. */
export function writeSyntheticRun(
  folder: string,
  requests: number,
  seed: number,
  options: { keep?: boolean; slow?: number } = {},
): SyntheticRun {
  const run = openRunFolder({
    folder,
    scenario: { name: 'synthetic', cluster: { gpu: 'H100', engines: ENGINES }, model: 'Llama-3.1-70B' },
    seed: String(seed),
    versions: { braess: '0.0.0-test' },
    names: {
      actors: clusterNames(),
      tenants: ['interactive', 'batch'],
      networkTiers: ['same node', 'same rack', 'other rack'],
      metrics: SERIES_METRICS,
      policies: ['kv', 'load-thresholds'],
      notes: ['decode to prefill', 'prefill to decode'],
    },
    summary: { slo: { ttftMs: 2000, tpotMs: 40 } },
  });
  const itl = createLatencyHistogram();
  const records = simulate(run, itl, requests, seed, options.slow ?? 1);
  const simulatedNs = records.reduce((latest, record) => Math.max(latest, record.endNs), 0);
  sampleSeries(run, records, simulatedNs);
  flushRunFolder(run);
  return { run, itl, records: options.keep === true ? records : [], simulatedNs };
}

function simulate(run: RunFolder, itl: LatencyHistogram, count: number, seed: number, slow: number): RequestRecord[] {
  const random = randomNumbers(seed);
  const normal = (): number => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  const freeNs = new Float64Array(PREFILL);
  const uplinkFreeNs = new Float64Array(8);
  const decodeEnds: number[][] = Array.from({ length: DECODE }, () => []);
  const records: RequestRecord[] = [];
  const decision = emptyDecisionRecord();
  let decisionId = 0;
  let nowNs = 0;
  for (let id = 0; id < count; id++) {
    const burst = id > count * 0.45 && id < count * 0.6 ? 1.9 : 1;
    nowNs += Math.round((-Math.log(1 - random()) / (5 * burst)) * 1e9);
    const record = emptyRequestRecord();
    record.requestId = id;
    record.arrivalNs = nowNs;
    record.tenantId = random() < 0.7 ? 0 : 1;
    record.inputTokens = Math.min(60_000, Math.max(64, Math.round(Math.exp(8.6 + 1.0 * normal()))));
    const outputTokens = Math.min(2000, Math.max(1, Math.round(Math.exp(5.4 + 0.7 * normal()))));
    const hit = random() < 0.55 ? random() * 0.9 : 0.05;
    const cached = Math.floor((record.inputTokens * hit) / 64) * 64;
    record.cachedTokensG1 = Math.floor((cached * 0.7) / 64) * 64;
    record.cachedTokensG2 = Math.floor((cached - record.cachedTokensG1) * 0.7);
    record.cachedTokensG3 = Math.floor((cached - record.cachedTokensG1 - record.cachedTokensG2) * 0.6);
    const ranked = [...freeNs.keys()].sort((a, b) => freeNs[a]! - freeNs[b]!);
    const worker = ranked[random() < 0.85 ? 0 : 1]!;
    for (const candidate of ranked.slice(0, 3)) {
      decision.timeNs = nowNs;
      decision.decisionId = decisionId;
      decision.kind = DECISION_KIND.prefillRoute;
      decision.actorId = ROUTER;
      decision.requestId = id;
      decision.policyId = 0;
      decision.candidateId = candidate;
      decision.candidates = PREFILL;
      decision.chosen = candidate === worker;
      decision.overlapBlocks = candidate === worker ? cached / 64 : Math.floor(random() * 8);
      decision.prefillBlocks = record.inputTokens / 64 - decision.overlapBlocks + Math.max(0, freeNs[candidate]! - nowNs) / 8e7;
      decision.activeBlocks = Math.floor(random() * 900);
      decision.score = decision.prefillBlocks;
      decision.viewAgeNs = Math.round(random() * 20 * MS);
      appendDecision(run.decisions, decision);
    }
    decisionId++;
    if (freeNs[worker]! - nowNs > 60e9) {
      record.outcome = OUTCOME.rejected;
      record.reason = REASON.queueFull;
      record.endNs = nowNs;
      records.push(record);
      appendRequest(run.requests, record);
      continue;
    }
    record.prefillWorkerId = worker;
    record.queuedNs = nowNs + Math.round(0.5 * MS);
    record.prefillStartNs = Math.max(record.queuedNs, freeNs[worker]!);
    record.prefillEndNs = record.prefillStartNs + Math.round((12 + (record.inputTokens - cached) * 0.075 * slow) * MS);
    freeNs[worker] = record.prefillEndNs;
    for (const ends of decodeEnds) {
      for (let i = ends.length - 1; i >= 0; i--) if (ends[i]! <= record.prefillEndNs) ends.splice(i, 1);
    }
    const order = [...decodeEnds.keys()].sort((a, b) => decodeEnds[a]!.length - decodeEnds[b]!.length);
    const decode = order[0]!;
    for (const candidate of order.slice(0, 3)) {
      decision.timeNs = record.prefillEndNs;
      decision.decisionId = decisionId;
      decision.kind = DECISION_KIND.decodeRoute;
      decision.candidateId = PREFILL + candidate;
      decision.candidates = DECODE;
      decision.chosen = candidate === decode;
      decision.overlapBlocks = Number.NaN;
      decision.prefillBlocks = Number.NaN;
      decision.activeBlocks = decodeEnds[candidate]!.length * 120;
      decision.score = decision.activeBlocks;
      decision.transferMs = (record.inputTokens * 327_680) / 200e9 / 1e-3;
      decision.congestion = random() * 0.6;
      appendDecision(run.decisions, decision);
    }
    decision.transferMs = Number.NaN;
    decision.congestion = Number.NaN;
    decisionId++;
    if (id % 997 === 500) {
      decision.timeNs = record.prefillEndNs;
      decision.decisionId = decisionId++;
      decision.kind = DECISION_KIND.plan;
      decision.actorId = PLANNER;
      decision.requestId = -1;
      decision.policyId = 1;
      decision.candidateId = PREFILL + decode;
      decision.candidates = 1;
      decision.chosen = true;
      decision.noteId = id % 2;
      appendDecision(run.decisions, decision);
      decision.noteId = -1;
    }
    record.decodeWorkerId = PREFILL + decode;
    const rackOf = (engine: number): number => Math.floor(engine / 4);
    record.networkTier =
      Math.floor(worker / 2) === Math.floor((PREFILL + decode) / 2) ? 0 : rackOf(worker) === rackOf(PREFILL + decode) ? 1 : 2;
    record.transferBytes = record.inputTokens * 327_680;
    const uplink = rackOf(worker) * 2 + (id & 1);
    record.transferStartNs = record.networkTier === 2 ? Math.max(record.prefillEndNs, uplinkFreeNs[uplink]!) : record.prefillEndNs;
    record.transferEndNs = record.transferStartNs + Math.round(record.transferBytes / [450, 200, 50][record.networkTier]!);
    if (record.networkTier === 2) uplinkFreeNs[uplink] = record.transferEndNs;
    const batch = decodeEnds[decode]!.length + 1;
    const gapNs = Math.round((11 + 0.35 * batch) * slow * MS);
    record.firstTokenNs = record.transferEndNs + Math.round((5 + 10 * random()) * MS);
    if (id % 1500 === 77) {
      record.outcome = OUTCOME.failed;
      record.reason = REASON.workerLost;
      record.outputTokens = 0;
      record.firstTokenNs = -1;
      record.endNs = record.transferEndNs + 1000;
    } else {
      record.outcome = OUTCOME.completed;
      record.outputTokens = outputTokens;
      const stalls = outputTokens > 20 ? Math.floor(random() * 4) : 0;
      const stallNs = gapNs * 4;
      record.lastTokenNs = record.firstTokenNs + gapNs * (outputTokens - 1 - stalls) + stallNs * stalls;
      recordLatency(itl, gapNs, outputTokens - 1 - stalls);
      recordLatency(itl, stallNs, stalls);
      record.maxItlNs = outputTokens === 1 ? -1 : stalls > 0 ? stallNs : gapNs;
      record.endNs = record.lastTokenNs;
    }
    decodeEnds[decode]!.push(record.endNs);
    records.push(record);
    appendRequest(run.requests, record);
    flushRunFolder(run);
  }
  return records;
}

/** Samples every 1/120 of the run, from the intervals of the requests. */
function sampleSeries(run: RunFolder, records: readonly RequestRecord[], simulatedNs: number): void {
  const samples = 120;
  const stepNs = simulatedNs / samples;
  const id = (name: string): number => SERIES_METRICS.indexOf(name);
  const grid = (entities: number): Float64Array[] => Array.from({ length: entities }, () => new Float64Array(samples));
  const queue = grid(ENGINES);
  const batch = grid(ENGINES);
  const busy = grid(ENGINES);
  const kv = grid(ENGINES);
  const link = grid(8);
  const tokens = new Float64Array(samples);
  const done = new Float64Array(samples);
  const cover = (row: Float64Array, fromNs: number, toNs: number, weight: number): void => {
    for (let s = Math.max(0, Math.floor(fromNs / stepNs)); s < samples && s * stepNs < toNs; s++) {
      row[s]! += (weight * Math.max(0, Math.min(toNs, (s + 1) * stepNs) - Math.max(fromNs, s * stepNs))) / stepNs;
    }
  };
  for (const record of records) {
    if (record.outcome !== OUTCOME.completed) continue;
    cover(queue[record.prefillWorkerId]!, record.queuedNs, record.prefillStartNs, 1);
    cover(busy[record.prefillWorkerId]!, record.prefillStartNs, record.prefillEndNs, 1);
    cover(batch[record.prefillWorkerId]!, record.prefillStartNs, record.prefillEndNs, 1);
    cover(batch[record.decodeWorkerId]!, record.transferEndNs, record.lastTokenNs, 1);
    cover(kv[record.decodeWorkerId]!, record.transferEndNs, record.lastTokenNs, record.inputTokens / 600_000);
    cover(kv[record.prefillWorkerId]!, record.prefillStartNs, record.transferEndNs, record.inputTokens / 150_000);
    if (record.networkTier === 2) {
      cover(link[Math.floor(record.prefillWorkerId / 4) * 2 + (record.requestId & 1)]!, record.transferStartNs, record.transferEndNs, 1);
    }
    cover(tokens, record.firstTokenNs, record.lastTokenNs, record.outputTokens / ((record.lastTokenNs - record.firstTokenNs) / 1e9 + 1e-9));
    done[Math.min(samples - 1, Math.floor(record.endNs / stepNs))]! += 1e9 / stepNs;
  }
  for (let s = 0; s < samples; s++) {
    const timeNs = Math.round((s + 1) * stepNs);
    for (let engine = 0; engine < ENGINES; engine++) {
      appendSample(run.series, timeNs, id('queue_depth'), engine, queue[engine]![s]!);
      appendSample(run.series, timeNs, id('batch_size'), engine, batch[engine]![s]!);
      appendSample(run.series, timeNs, id('kv_use_g1'), engine, Math.min(1, kv[engine]![s]!));
      const use = engine < PREFILL ? busy[engine]![s]! : Math.min(1, batch[engine]![s]! / 40);
      for (let gpu = 0; gpu < 4; gpu++)
        appendSample(run.series, timeNs, id('gpu_use'), GPU0 + engine * 4 + gpu, Math.min(1, use * (1 - gpu * 0.01)));
    }
    for (let l = 0; l < 8; l++) appendSample(run.series, timeNs, id('link_use'), LINK0 + l, Math.min(1, link[l]![s]!));
    appendSample(run.series, timeNs, id('output_tokens_per_second'), -1, tokens[s]!);
    appendSample(run.series, timeNs, id('requests_per_second'), -1, done[s]!);
  }
}
