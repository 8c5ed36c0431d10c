import { requestInFlight } from '@braess/control';
import { type RecordBatch, RecordCursor, type RecordSink, type RunRecord } from '@braess/kernel';
import type { GapRows } from '@braess/serving';
import { appendSample, createLatencyHistogram, type LatencyHistogram, type RunTables, recordLatency } from '@braess/telemetry';
import { clientInFlight, clientRequest } from '@braess/workload';
import { ControlRecorder, metric } from './control-recorder.js';
import { DecisionRecorder } from './decision-recorder.js';
import { PoaRecorder, type RecordedPoa } from './poa-recorder.js';
import { type RecordedCounts, RequestRecorder, type RequestRecorderOptions } from './request-recorder.js';
import { UsageRecorder, type UsageRecorderOptions } from './usage-recorder.js';

/** What a recorder needs to know of its run. */
export interface RecorderOptions extends RequestRecorderOptions, UsageRecorderOptions {
  readonly tables: RunTables;
  /** Called after each batch of records: the time to write what is full. */
  readonly flush?: () => void;
  /** Actor names by id. */
  readonly actorNames: readonly string[];
  /** First role of each engine, by its actor id, where a planner may change it; else empty. */
  readonly rolesOfEngine: ReadonlyMap<number, number>;
  /** Period of the cluster-wide series, ns; 0 for none. */
  readonly seriesNs: number;
  /** Gaps between tokens recorded before this time are left out of the ITL. */
  readonly warmupNs: number;
  /** Tenants whose gaps engines tell apart, 0 for none. */
  readonly gapTenants: number;
  /** Clients may abandon turns of sessions, which are then never submitted. */
  readonly mayAbandon: boolean;
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

/** Turns the records of a run into its tables as they come: where they are flushed to a folder, memory does not grow with the length of the run. */
export class RunRecorder implements RecordSink {
  /** Clients may have abandoned turns of sessions: fewer requests than the workload has are right, then. */
  readonly mayAbandon: boolean;
  /** Every gap between two tokens. */
  readonly itl: LatencyHistogram = createLatencyHistogram();
  /** The same of each tenant, by id; empty where engines do not tell them apart. */
  readonly itlOfTenants: readonly LatencyHistogram[];
  /** Time that frontends did without their oracle, ns, all together. */
  oracleFallbackNs = 0;
  readonly #options: RecorderOptions;
  readonly #requests: RequestRecorder;
  readonly #usage: UsageRecorder;
  readonly #control: ControlRecorder;
  readonly #decisions: DecisionRecorder;
  readonly #poa: PoaRecorder;
  /** Lookups of its timing table, of each engine that left it. */
  readonly #lookups = new Map<number, readonly number[]>();
  /** Kinds of record by the number of their type. */
  readonly #kinds: number[] = [];
  #periodEndNs: number;
  /** Time of the last record. */
  #takenNs = 0;

  constructor(options: RecorderOptions) {
    this.#options = options;
    this.mayAbandon = options.mayAbandon;
    this.itlOfTenants = Array.from({ length: options.gapTenants }, () => createLatencyHistogram());
    this.#requests = new RequestRecorder(options.tables.requests, options);
    this.#usage = new UsageRecorder(options.tables, options);
    this.#control = new ControlRecorder(options.tables, options);
    this.#decisions = new DecisionRecorder(options.tables);
    this.#poa = new PoaRecorder(options.tables.series);
    this.#periodEndNs = options.seriesNs > 0 ? options.seriesNs : Number.POSITIVE_INFINITY;
  }

  get counts(): RecordedCounts {
    return this.#requests.counts;
  }

  /** Time of the last outcome. */
  get lastNs(): number {
    return this.#requests.lastNs;
  }

  /** What the price-of-anarchy actor found. */
  get poa(): RecordedPoa {
    return this.#poa.found;
  }

  writeColumns(batch: RecordBatch): void {
    const { typeNames } = batch;
    const kinds = this.#kinds;
    for (let type = kinds.length; type < typeNames.length; type++) kinds.push(frequentKinds[typeNames[type] as string] ?? kind.other);
    for (const record = new RecordCursor(batch); record.next(); ) {
      // What comes at the end of a period, such as the reports of engines, is part of it.
      if (record.timeNs > this.#periodEndNs) this.#endPeriods(record.timeNs - 1);
      this.#takenNs = record.timeNs;
      this.#takeOf(kinds[record.type] as number, record);
    }
    this.#options.flush?.();
  }

  /** Records that come by the million are read where they lie. */
  #takeOf(frequent: number, record: RecordCursor): void {
    if (frequent === kind.requestArrived) this.#requests.arrived(record);
    else if (frequent === kind.requestEnded) this.#requests.ended(record);
    else if (frequent === kind.engineWork) this.#usage.engineWork(record);
    else if (frequent === kind.engineLoad) this.#usage.engineLoad(record);
    else if (frequent === kind.engineCounts) this.#usage.engineCounts(record);
    else if (frequent === kind.linkUse) this.#usage.linkUse(record, false);
    else if (frequent === kind.portUse) this.#usage.linkUse(record, true);
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
    return this.#requests.lostReasons();
  }

  /** Writes what is still in flight; after the run. */
  finish(): void {
    this.#endPeriods(this.#takenNs);
    this.#requests.finish();
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

  #take(record: RunRecord): void {
    switch (record.type) {
      case clientRequest.name:
        if (this.#options.byClient) this.#requests.clientDone(record);
        return;
      case 'routingDecision':
        this.#decisions.routing(record);
        return;
      case 'admissionDecision':
        this.#decisions.admission(record);
        return;
      case 'plannerOrder':
        this.#decisions.plan(record);
        return;
      case 'controllerChange':
        this.#decisions.control(record);
        return;
      case clientInFlight.name:
        this.#requests.clientHas(record);
        return;
      case 'itlGaps':
        this.#gaps(record);
        return;
      case 'timingLookups':
        this.#lookups.set(record.actor, record.fields);
        return;
      case 'tierLoad':
        this.#usage.tierLoad(record);
        return;
      case 'poaSnapshot':
        this.#poa.snapshot(record);
        return;
      case 'poaLive':
        this.#poa.live(record);
        return;
      case 'poaLead':
        this.#poa.lead(record);
        return;
      case 'oracleFallback':
        this.oracleFallbackNs += record.fields[0] as number;
        return;
      case requestInFlight.name:
        this.#requests.inFlight(record);
        return;
      default:
        this.#control.take(record);
    }
  }

  #gaps(record: RunRecord): void {
    if (record.timeNs < this.#options.warmupNs) return;
    const { gapNs, counts, tenant } = record.body as GapRows;
    for (let index = 0; index < gapNs.length; index++) recordLatency(this.itl, gapNs[index] as number, counts[index] as number);
    if (tenant === undefined) return;
    for (let index = 0; index < gapNs.length; index++)
      recordLatency(this.itlOfTenants[tenant[index] as number] as LatencyHistogram, gapNs[index] as number, counts[index] as number);
  }

  /** Those that end by `nowNs`. */
  #endPeriods(nowNs: number): void {
    const { seriesNs, tables } = this.#options;
    const requests = this.#requests;
    const usage = this.#usage;
    const seconds = seriesNs * 1e-9;
    while (this.#periodEndNs <= nowNs) {
      const at = this.#periodEndNs;
      appendSample(tables.series, at, metric.requests_per_second as number, -1, requests.periodRequests / seconds);
      appendSample(tables.series, at, metric.output_tokens_per_second as number, -1, usage.periodTokens / seconds);
      appendSample(tables.series, at, metric.inflight_requests as number, -1, requests.openCount);
      requests.periodRequests = 0;
      usage.periodTokens = 0;
      this.#periodEndNs += seriesNs;
    }
  }
}
