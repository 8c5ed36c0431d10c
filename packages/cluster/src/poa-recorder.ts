import type { RunRecord } from '@braess/kernel';
import { appendSample, type RunTables } from '@braess/telemetry';
import { metric } from './control-recorder.js';

/** Of one moment: what its PoA-hat is made of, NaN where it is undefined. */
export interface PoaSample {
  readonly atNs: number;
  readonly numeratorSeconds: number;
  readonly denominatorSeconds: number;
  readonly inFlight: number;
  readonly inService: number;
}

/** What the price-of-anarchy actor found, in order of time. */
export interface RecordedPoa {
  readonly snapshots: PoaSample[];
  /** When PoA-hat left its calm level (-1: not before) and when the TTFT objective first broke; null where it never did. */
  lead: { readonly alarmNs: number; readonly brokenNs: number; readonly calm: number } | null;
}

/** What the price-of-anarchy actor says. */
export class PoaRecorder {
  readonly found: RecordedPoa = { snapshots: [], lead: null };
  readonly #series: RunTables['series'];

  constructor(series: RunTables['series']) {
    this.#series = series;
  }

  snapshot(record: RunRecord): void {
    const [atNs, value, numeratorSeconds, denominatorSeconds, inFlight, inService] = record.fields as [
      number,
      number,
      number,
      number,
      number,
      number,
    ];
    this.found.snapshots.push({ atNs, numeratorSeconds, denominatorSeconds, inFlight, inService });
    if (!Number.isNaN(value)) appendSample(this.#series, atNs, metric.poa_hat as number, -1, value);
  }

  live(record: RunRecord): void {
    const [atNs, , value, ttftP99Ms, itlP99Ms] = record.fields as [number, number, number, number, number];
    const series = this.#series;
    if (!Number.isNaN(value)) appendSample(series, atNs, metric.poa_live as number, -1, value);
    if (!Number.isNaN(ttftP99Ms)) appendSample(series, atNs, metric.ttft_p99_seconds as number, -1, ttftP99Ms / 1e3);
    if (!Number.isNaN(itlP99Ms)) appendSample(series, atNs, metric.itl_p99_seconds as number, -1, itlP99Ms / 1e3);
  }

  lead({ fields }: RunRecord): void {
    const [alarmNs, brokenNs, calm] = fields as [number, number, number];
    this.found.lead = { alarmNs, brokenNs, calm };
  }
}
