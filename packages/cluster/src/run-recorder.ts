import { type DecisionBody, decisionColumns, requestInFlight, requestRowOf, routerStage } from '@braess/control';
import { type RecordBatch, RecordCursor, type RecordSink, type RunRecord } from '@braess/kernel';
import { outcome, REASON_NAMES, requestRowColumns } from '@braess/protocol';
import {
  appendDecision,
  appendRequest,
  appendRequestRow,
  appendSample,
  createLatencyHistogram,
  DECISION_KIND,
  emptyDecisionRecord,
  emptyRequestRecord,
  type LatencyHistogram,
  OUTCOME,
  REASON,
  type RequestRecord,
  type RunTables,
  recordLatency,
} from '@braess/telemetry';
import { ControlRecorder, metric, nameId } from './control-recorder.js';

/** What a recorder needs to know of its run. */
export interface RecorderOptions {
  readonly tables: RunTables;
  /** Called after each batch of records: the time to write what is full. */
  readonly flush?: () => void;
  /** Actor names by id. */
  readonly actorNames: readonly string[];
  /** Actor ids of the GPUs of each engine, by the engine's actor id. */
  readonly gpusOfEngine: ReadonlyMap<number, readonly number[]>;
  /** First role of each engine, by its actor id, where a planner may change it; else empty. */
  readonly rolesOfEngine: ReadonlyMap<number, number>;
  readonly linkName: (link: number) => string;
  /** Period of the cluster-wide series, ns; 0 for none. */
  readonly seriesNs: number;
  /** Gaps between tokens recorded before this time are left out of the ITL. */
  readonly warmupNs: number;
  /** Delay from client to frontend: arrivals count from the client, frontends know of their own. */
  readonly clientDelayNs: number;
  /** The client answers for its requests (retries, closed loop): one row a request, when the client has its outcome. */
  readonly byClient: boolean;
  /** Clients may abandon turns of sessions, which are then never submitted. */
  readonly mayAbandon: boolean;
}

/** Of one moment: what its PoA-hat is made of, NaN where it is undefined. */
export interface PoaSample {
  readonly atNs: number;
  readonly numeratorSeconds: number;
  readonly denominatorSeconds: number;
  readonly inFlight: number;
  readonly inService: number;
}

export interface RecordedPoa {
  readonly snapshots: PoaSample[];
  /** When PoA-hat left its calm level (-1: not before) and when the TTFT objective first broke; null where it never did. */
  lead: { readonly alarmNs: number; readonly brokenNs: number; readonly calm: number } | null;
}

/** Requests as the records count them. */
export interface RecordedCounts {
  submitted: number;
  completed: number;
  rejected: number;
  failed: number;
  inFlight: number;
}

/** What an engine's GPUs did in the period that ends, as its records say: ns. */
interface EngineWork {
  busyNs: number;
  flopNs: number;
  bandwidthNs: number;
}

/** Records that come again and again. */
const kind = {
  other: 0,
  requestArrived: 1,
  requestEnded: 2,
  engineWork: 3,
  engineLoad: 4,
  engineCounts: 5,
  linkUse: 6,
  portUse: 7,
} as const;
const frequentKinds: Readonly<Record<string, number | undefined>> = kind;

/** Places in a request's row. */
const place = {
  requestId: requestRowColumns.indexOf('requestId'),
  outcome: requestRowColumns.indexOf('outcome'),
  reason: requestRowColumns.indexOf('reason'),
  outputTokens: requestRowColumns.indexOf('outputTokens'),
  arrivalNs: requestRowColumns.indexOf('arrivalNs'),
};

/** Numbers of the series that are sampled most. */
const metrics = {
  queueDepth: metric.queue_depth as number,
  batchSize: metric.batch_size as number,
  activePrefillTokens: metric.active_prefill_tokens as number,
  kvUseG1: metric.kv_use_g1 as number,
  gpuUse: metric.gpu_use as number,
  flopUse: metric.flop_use as number,
  bandwidthUse: metric.hbm_bandwidth_use as number,
  linkUse: metric.link_use as number,
  linkMarks: metric.link_marks as number,
  linkPaused: metric.link_paused_seconds as number,
};

/** Turns the records of a run into its tables as they come: where they are flushed to a folder, memory does not grow with the length of the run. */
export class RunRecorder implements RecordSink {
  readonly counts: RecordedCounts = { submitted: 0, completed: 0, rejected: 0, failed: 0, inFlight: 0 };
  /** Clients may have abandoned turns of sessions: fewer requests than the workload has are right, then. */
  readonly mayAbandon: boolean;
  /** Time of the last outcome. */
  lastNs = 0;
  /** Every gap between two tokens. */
  readonly itl: LatencyHistogram = createLatencyHistogram();
  /** What the price-of-anarchy actor found. */
  readonly poa: RecordedPoa = { snapshots: [], lead: null };
  /** Time that frontends did without their oracle, ns, all together. */
  oracleFallbackNs = 0;
  readonly #options: RecorderOptions;
  readonly #decision = emptyDecisionRecord();
  /** Arrival of each request that has reached a frontend and not ended: tenant, input tokens, time. */
  readonly #open = new Map<number, { readonly tenantId: number; readonly inputTokens: number; readonly arrivalNs: number }>();
  /** Last attempt of requests whose client has not yet the outcome. */
  readonly #attempts = new Map<number, RequestRecord>();
  /** Requests whose client has the outcome: what a frontend still says of a given-up attempt changes nothing. */
  readonly #over = new Set<number>();
  /** What frontends knew of requests in flight where the run was cut. */
  readonly #known = new Map<number, RequestRecord>();
  readonly #entityOfLink = new Map<number, number>();
  /** Lookups of its timing table, of each engine that left it. */
  readonly #lookups = new Map<number, readonly number[]>();
  readonly #work = new Map<number, EngineWork>();
  /** Kinds of record by the number of their type. */
  readonly #kinds: number[] = [];
  readonly #control: ControlRecorder;
  /** Requests rejected or failed, by the number of the reason. */
  readonly #lost: number[] = [];
  #periodEndNs: number;
  #periodRequests = 0;
  #periodTokens = 0;

  constructor(options: RecorderOptions) {
    this.#options = options;
    this.mayAbandon = options.mayAbandon;
    this.#control = new ControlRecorder(options.tables, options);
    this.#periodEndNs = options.seriesNs > 0 ? options.seriesNs : Number.POSITIVE_INFINITY;
  }

  writeColumns(batch: RecordBatch): void {
    const { typeNames } = batch;
    const kinds = this.#kinds;
    for (let type = kinds.length; type < typeNames.length; type++) kinds.push(frequentKinds[typeNames[type] as string] ?? kind.other);
    for (const record = new RecordCursor(batch); record.next(); ) {
      if (record.timeNs >= this.#periodEndNs) this.#endPeriods(record.timeNs);
      this.#takeOf(kinds[record.type] as number, record);
    }
    this.#options.flush?.();
  }

  /** Records that come by the million are read where they lie. */
  #takeOf(frequent: number, record: RecordCursor): void {
    if (frequent === kind.requestArrived) this.#arrived(record);
    else if (frequent === kind.requestEnded) this.#ended(record);
    else if (frequent === kind.engineWork) this.#noteWork(record);
    else if (frequent === kind.engineLoad) this.#engineLoad(record);
    else if (frequent === kind.engineCounts) this.#engineWork(record);
    else if (frequent === kind.linkUse) this.#linkUse(record, false);
    else if (frequent === kind.portUse) this.#linkUse(record, true);
    else this.#take(record.record());
  }

  /** GPU-time of the engines' GPUs up to the end of the run, ns, and how much of it planners gave back. */
  gpuTimeNs(endNs: number): { readonly usedNs: number; readonly givenBackNs: number } {
    let gpus = 0;
    for (const members of this.#options.gpusOfEngine.values()) gpus += members.length;
    const givenBackNs = this.#control.givenBackGpuNs(endNs);
    return { usedNs: gpus * endNs - givenBackNs, givenBackNs };
  }

  /** Requests rejected or failed by reason, most first. */
  lostReasons(): Record<string, number> {
    const counted = REASON_NAMES.map((name, reason) => [name, this.#lost[reason] ?? 0] as const).filter(([, count]) => count > 0);
    return Object.fromEntries(counted.sort(([, one], [, other]) => other - one));
  }

  /** What makes results doubtful, one sentence each. */
  warnings(): string[] {
    if (this.#lookups.size === 0) return [];
    const sums = [0, 1, 2].map((field) => [...this.#lookups.values()].reduce((sum, fields) => sum + (fields[field] as number), 0));
    const [all, prefill, decode] = sums as [number, number, number];
    const first = this.#options.actorNames[this.#lookups.keys().next().value as number];
    return [
      `timing table: of ${all} lookups ${prefill} had a prefill length, ${decode} a KV use or context outside its grid, where the edge values were used (${this.#lookups.size} engines, first ${first})`,
    ];
  }

  /** Writes what is still in flight; after the run. */
  finish(): void {
    for (const [requestId, { tenantId, inputTokens, arrivalNs }] of this.#open) {
      const known = this.#known.get(requestId) ?? emptyRequestRecord();
      appendRequest(this.#options.tables.requests, { ...known, requestId, tenantId, inputTokens, arrivalNs, endNs: -1 });
      this.counts.inFlight++;
    }
  }

  #take(record: RunRecord): void {
    switch (record.type) {
      case 'clientRequest':
        if (this.#options.byClient) this.#clientDone(record);
        return;
      case 'routingDecision':
        this.#decide(record);
        return;
      case 'itlGaps':
        this.#gaps(record);
        return;
      case 'timingLookups':
        this.#lookups.set(record.actor, record.fields);
        return;
      case 'tierLoad':
        this.#tierLoad(record);
        return;
      case 'poaSnapshot':
        this.#poaSnapshot(record);
        return;
      case 'poaLive':
        this.#poaLive(record);
        return;
      case 'poaLead':
        this.poa.lead = { alarmNs: record.fields[0]!, brokenNs: record.fields[1]!, calm: record.fields[2]! };
        return;
      case 'oracleFallback':
        this.oracleFallbackNs += record.fields[0] as number;
        return;
      case requestInFlight.name:
        this.#known.set(record.fields[0]!, requestRowOf(record));
        return;
      default:
        this.#control.take(record);
    }
  }

  #arrived({ columns, fieldsAt, timeNs }: RecordCursor): void {
    const request = columns[fieldsAt] as number;
    if (this.#open.has(request) || this.#over.has(request)) return; // Another attempt of the same request.
    this.counts.submitted++;
    this.#open.set(request, {
      tenantId: columns[fieldsAt + 1] as number,
      inputTokens: columns[fieldsAt + 2] as number,
      arrivalNs: timeNs - this.#options.clientDelayNs,
    });
  }

  #ended(record: RecordCursor): void {
    const { columns, fieldsAt, timeNs } = record;
    const request = columns[fieldsAt + place.requestId] as number;
    if (this.#options.byClient) {
      if (!this.#over.has(request)) this.#attempts.set(request, requestRowOf(record.record()));
      return;
    }
    this.#count(
      request,
      columns[fieldsAt + place.outcome] as number,
      columns[fieldsAt + place.reason] as number,
      columns[fieldsAt + place.outputTokens] as number,
      timeNs,
    );
    // The frontend saw it arrive; its client sent it before.
    const arrivalNs = (columns[fieldsAt + place.arrivalNs] as number) - this.#options.clientDelayNs;
    appendRequestRow(this.#options.tables.requests, columns, fieldsAt, arrivalNs, timeNs);
  }

  /** A client has the outcome of its request: its attempts become one row. */
  #clientDone(record: RunRecord): void {
    const [requestId, attempts, cameNs, , code] = record.fields as [number, number, number, number, number];
    const attempt = this.#attempts.get(requestId);
    this.#attempts.delete(requestId);
    this.#over.add(requestId);
    const open = this.#open.get(requestId);
    if (open === undefined) this.counts.submitted++; // Given up before it was ever sent.
    const { tenantId = 0, inputTokens = 0 } = open ?? {};
    const row = { ...(attempt ?? { ...emptyRequestRecord(), requestId, tenantId, inputTokens, endNs: record.timeNs }) };
    row.attempts = attempts;
    row.arrivalNs = cameNs;
    if (code !== outcome.completed || row.outcome !== OUTCOME.completed) {
      row.outcome = code === outcome.completed ? OUTCOME.completed : code === outcome.rejected ? OUTCOME.rejected : OUTCOME.failed;
      if (code === outcome.cancelled) row.reason = REASON.cancelled;
      else if (code === outcome.timedOut) row.reason = REASON.timeout;
      else if (row.reason === REASON.none)
        row.reason = code === outcome.rejected && attempt === undefined ? REASON.clientQueueFull : REASON.other;
      row.endNs = record.timeNs;
    }
    this.#count(requestId, row.outcome, row.reason, row.outputTokens, row.endNs);
    appendRequest(this.#options.tables.requests, row);
  }

  #count(request: number, ended: number, reason: number, outputTokens: number, endNs: number): void {
    this.#open.delete(request);
    if (endNs > this.lastNs) this.lastNs = endNs;
    if (ended === OUTCOME.completed) {
      this.counts.completed++;
      this.#periodRequests++;
      this.#periodTokens += outputTokens;
      return;
    }
    if (ended === OUTCOME.rejected) this.counts.rejected++;
    else this.counts.failed++;
    this.#lost[reason] = (this.#lost[reason] ?? 0) + 1;
  }

  #gaps(record: RunRecord): void {
    if (record.timeNs < this.#options.warmupNs) return;
    const { gapNs, counts } = record.body as { readonly gapNs: Float64Array; readonly counts: Float64Array };
    for (let index = 0; index < gapNs.length; index++) recordLatency(this.itl, gapNs[index] as number, counts[index] as number);
  }

  #decide(record: RunRecord): void {
    const [decisionId, requestId, stage, candidates] = record.fields as [number, number, number, number];
    const { policy, rows } = record.body as DecisionBody;
    const width = decisionColumns.length;
    const decision = this.#decision;
    decision.timeNs = record.timeNs;
    decision.decisionId = decisionId;
    decision.kind = stage === routerStage.decode ? DECISION_KIND.decodeRoute : DECISION_KIND.prefillRoute;
    decision.actorId = record.actor;
    decision.requestId = requestId;
    decision.policyId = nameId(this.#options.tables.names.policies as string[], policy);
    decision.candidates = candidates;
    for (let at = 0; at < rows.length; at += width) {
      decision.candidateId = rows[at] as number;
      decision.chosen = rows[at + 1] === 1;
      decision.score = rows[at + 2] as number;
      decision.overlapBlocks = rows[at + 3] as number;
      decision.prefillBlocks = rows[at + 4] as number;
      decision.activeBlocks = rows[at + 5] as number;
      decision.transferMs = rows[at + 6] as number;
      decision.congestion = rows[at + 7] as number;
      decision.networkTier = rows[at + 8] as number;
      decision.viewAgeNs = rows[at + 9] as number;
      appendDecision(this.#options.tables.decisions, decision);
    }
  }

  #engineLoad({ columns, fieldsAt, timeNs, actor }: RecordCursor): void {
    const { series } = this.#options.tables;
    const [running, waiting, queuedTokens] = [
      columns[fieldsAt] as number,
      columns[fieldsAt + 1] as number,
      columns[fieldsAt + 2] as number,
    ];
    appendSample(series, timeNs, metrics.queueDepth, actor, waiting);
    appendSample(series, timeNs, metrics.batchSize, actor, running);
    appendSample(series, timeNs, metrics.activePrefillTokens, actor, queuedTokens);
    appendSample(series, timeNs, metrics.kvUseG1, actor, (columns[fieldsAt + 3] as number) / (columns[fieldsAt + 4] as number));
  }

  #noteWork({ columns, fieldsAt, actor }: RecordCursor): void {
    let work = this.#work.get(actor);
    if (work === undefined) {
      work = { busyNs: 0, flopNs: 0, bandwidthNs: 0 };
      this.#work.set(actor, work);
    }
    work.busyNs = columns[fieldsAt + 2] as number;
    work.flopNs = columns[fieldsAt + 4] as number;
    work.bandwidthNs = columns[fieldsAt + 5] as number;
  }

  /** Busy time, and how near linear layers and memory came to what the GPUs can do, over the period. */
  #engineWork({ columns, fieldsAt, timeNs, actor }: RecordCursor): void {
    const work = this.#work.get(actor);
    const periodNs = timeNs - (columns[fieldsAt + 4] as number);
    if (work === undefined || !(periodNs > 0)) return;
    const { busyNs, flopNs, bandwidthNs } = work;
    const { series } = this.#options.tables;
    for (const gpu of this.#options.gpusOfEngine.get(actor) ?? []) {
      appendSample(series, timeNs, metrics.gpuUse, gpu, Math.min(1, busyNs / periodNs));
      if (flopNs < 0) continue;
      appendSample(series, timeNs, metrics.flopUse, gpu, Math.min(1, flopNs / periodNs));
      appendSample(series, timeNs, metrics.bandwidthUse, gpu, Math.min(1, bandwidthNs / periodNs));
    }
  }

  #tierLoad({ fields, timeNs, actor }: RunRecord): void {
    const [tier, used, capacity] = fields as [number, number, number];
    appendSample(this.#options.tables.series, timeNs, metric[`kv_use_g${tier}`] as number, actor, used / capacity);
  }

  #poaSnapshot(record: RunRecord): void {
    const [atNs, value, numeratorSeconds, denominatorSeconds, inFlight, inService] = record.fields as [
      number,
      number,
      number,
      number,
      number,
      number,
    ];
    this.poa.snapshots.push({ atNs, numeratorSeconds, denominatorSeconds, inFlight, inService });
    if (!Number.isNaN(value)) appendSample(this.#options.tables.series, atNs, metric.poa_hat as number, -1, value);
  }

  #poaLive(record: RunRecord): void {
    const [atNs, , value, ttftP99Ms, itlP99Ms] = record.fields as [number, number, number, number, number];
    const { series } = this.#options.tables;
    if (!Number.isNaN(value)) appendSample(series, atNs, metric.poa_live as number, -1, value);
    if (!Number.isNaN(ttftP99Ms)) appendSample(series, atNs, metric.ttft_p99_seconds as number, -1, ttftP99Ms / 1e3);
    if (!Number.isNaN(itlP99Ms)) appendSample(series, atNs, metric.itl_p99_seconds as number, -1, itlP99Ms / 1e3);
  }

  #linkUse({ columns, fieldsAt, timeNs }: RecordCursor, isPort: boolean): void {
    const link = columns[fieldsAt] as number;
    const { series, names } = this.#options.tables;
    let entity = this.#entityOfLink.get(link);
    if (entity === undefined) {
      // Links are no actors: their names stand behind those of the actors.
      entity = (names.actors as string[]).push(this.#options.linkName(link)) - 1;
      this.#entityOfLink.set(link, entity);
    }
    appendSample(series, timeNs, metrics.linkUse, entity, columns[fieldsAt + 1] as number);
    if (!isPort) return;
    const [marks, pausedNs] = [columns[fieldsAt + 4] as number, columns[fieldsAt + 5] as number];
    if (marks > 0) appendSample(series, timeNs, metrics.linkMarks, entity, marks);
    if (pausedNs > 0) appendSample(series, timeNs, metrics.linkPaused, entity, pausedNs / 1e9);
  }

  #endPeriods(nowNs: number): void {
    const { seriesNs, tables } = this.#options;
    const seconds = seriesNs * 1e-9;
    while (this.#periodEndNs <= nowNs) {
      const at = this.#periodEndNs;
      appendSample(tables.series, at, metric.requests_per_second as number, -1, this.#periodRequests / seconds);
      appendSample(tables.series, at, metric.output_tokens_per_second as number, -1, this.#periodTokens / seconds);
      appendSample(tables.series, at, metric.inflight_requests as number, -1, this.#open.size);
      this.#periodRequests = 0;
      this.#periodTokens = 0;
      this.#periodEndNs += seriesNs;
    }
  }
}
