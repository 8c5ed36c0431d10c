import type { RecordCursor, RunRecord } from '@braess/kernel';
import { appendSample, type RunTables } from '@braess/telemetry';
import { metric } from './control-recorder.js';

/** What a recorder of use has to know of the cluster. */
export interface UsageRecorderOptions {
  /** Actor ids of the GPUs of each engine, by the engine's actor id. */
  readonly gpusOfEngine: ReadonlyMap<number, readonly number[]>;
  readonly linkName: (link: number) => string;
}

/** What an engine's GPUs did in the period that ends, as its records say: ns. */
interface EngineWork {
  busyNs: number;
  flopNs: number;
  bandwidthNs: number;
}

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

/** Series of what is in use: engines, GPUs, tiers and links. */
export class UsageRecorder {
  /** Tokens that engines put out since the period began. */
  periodTokens = 0;
  readonly #tables: RunTables;
  readonly #options: UsageRecorderOptions;
  readonly #work = new Map<number, EngineWork>();
  readonly #entityOfLink = new Map<number, number>();

  constructor(tables: RunTables, options: UsageRecorderOptions) {
    this.#tables = tables;
    this.#options = options;
  }

  engineLoad({ columns, fieldsAt, timeNs, actor }: RecordCursor): void {
    const { series } = this.#tables;
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

  /** Kept until the engine's counts of the same period come. */
  engineWork({ columns, fieldsAt, actor }: RecordCursor): void {
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
  engineCounts({ columns, fieldsAt, timeNs, actor }: RecordCursor): void {
    this.periodTokens += columns[fieldsAt + 5] as number;
    const work = this.#work.get(actor);
    const periodNs = timeNs - (columns[fieldsAt + 4] as number);
    if (work === undefined || !(periodNs > 0)) return;
    const { busyNs, flopNs, bandwidthNs } = work;
    const { series } = this.#tables;
    for (const gpu of this.#options.gpusOfEngine.get(actor) ?? []) {
      appendSample(series, timeNs, metrics.gpuUse, gpu, Math.min(1, busyNs / periodNs));
      if (flopNs < 0) continue;
      appendSample(series, timeNs, metrics.flopUse, gpu, Math.min(1, flopNs / periodNs));
      appendSample(series, timeNs, metrics.bandwidthUse, gpu, Math.min(1, bandwidthNs / periodNs));
    }
  }

  tierLoad({ fields, timeNs, actor }: RunRecord): void {
    const [tier, used, capacity] = fields as [number, number, number];
    appendSample(this.#tables.series, timeNs, metric[`kv_use_g${tier}`] as number, actor, used / capacity);
  }

  linkUse({ columns, fieldsAt, timeNs }: RecordCursor, isPort: boolean): void {
    const link = columns[fieldsAt] as number;
    const { series, names } = this.#tables;
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
}
