import { type Program, RunObserver, startRun } from '@braess/kernel';
import farTimers, { tickNs } from './far-timers.js';
import { type BenchOptions, median } from './measured.js';
import phold from './phold.js';
import { pholdPlan } from './phold-comparison.js';

/** Memory that counts as growth: this much, or this share of what the run holds anyway, whichever is more. */
const allowedMb = 32;
const allowedShare = 0.1;
const sampleEveryMs = 50;

export interface GrowthRow {
  readonly load: 'events' | 'timers';
  /** Events that ran, or timers that were set far ahead and cancelled. */
  readonly count: number;
  readonly fingerprint: string;
  readonly eventsPerSecond: number;
  /** Resident memory in MB, sampled over the run. */
  readonly rssMb: readonly number[];
  /** Median of the last quarter less the median of the second. */
  readonly growthMb: number;
  readonly constant: boolean;
}

export interface GrowthResult {
  readonly seed: string;
  readonly actors: number;
  readonly rows: readonly GrowthRow[];
  readonly interrupted: boolean;
}

export interface GrowthOptions extends BenchOptions {
  readonly seed: string;
  /** Events in one run, timers in the other. */
  readonly events: number;
  readonly actors?: number;
  readonly replay?: string;
}

/** Runs many events, then many timers set an hour ahead and cancelled, and watches the memory of the process. */
export async function measureGrowth(options: GrowthOptions): Promise<GrowthResult> {
  const { seed, events, actors = 1024, signal } = options;
  const rows: GrowthRow[] = [];
  const { parameters, untilNs } = pholdPlan({ actors, remote: 0.25, lookahead: 0.1, events }, 0);
  for (const load of ['events', 'timers'] as const) {
    if (signal?.aborted) break;
    const row =
      load === 'events'
        ? await watchRun(load, phold, parameters, untilNs, options)
        : await watchRun(load, farTimers, { actors }, (Math.ceil(events / actors) + 1) * tickNs, options);
    if (row !== undefined) rows.push(row);
  }
  return { seed, actors, rows, interrupted: signal?.aborted === true };
}

async function watchRun<Parameters>(
  load: GrowthRow['load'],
  program: Program<Parameters>,
  parameters: Parameters,
  untilNs: number,
  { seed, actors = 1024, replay, signal, progress }: GrowthOptions,
): Promise<GrowthRow | undefined> {
  const rssMb: number[] = [];
  const observer = new RunObserver();
  observer.on('progress', (report) => progress?.((report.share ?? 0) / 2 + (load === 'events' ? 0 : 0.5), load));
  const run = startRun(program, parameters, { seed, untilNs, observer, ...(replay === undefined ? {} : { replay }) });
  const stop = (): void => run.stop();
  signal?.addEventListener('abort', stop, { once: true });
  const timer = setInterval(() => rssMb.push(process.memoryUsage.rss() / 2 ** 20), sampleEveryMs);
  try {
    const result = await run.result;
    rssMb.push(process.memoryUsage.rss() / 2 ** 20);
    if (result.stopped) return undefined;
    // Every event of the timer program but the starts sets a timer.
    const count = load === 'events' ? result.eventCount : result.eventCount - actors;
    const { fingerprint, eventCount, loopMs } = result;
    return { load, count, fingerprint, eventsPerSecond: (eventCount * 1000) / loopMs, rssMb, ...judge(rssMb) };
  } finally {
    clearInterval(timer);
    signal?.removeEventListener('abort', stop);
  }
}

/** The first quarter belongs to start-up; after it memory must stay where it is. */
export function judge(rssMb: readonly number[]): { growthMb: number; constant: boolean } {
  const quarter = rssMb.length / 4;
  const second = rssMb.slice(Math.floor(quarter), Math.ceil(2 * quarter));
  const growthMb = median(rssMb.slice(Math.floor(3 * quarter))) - median(second);
  return { growthMb, constant: growthMb <= Math.max(allowedMb, allowedShare * median(second)) };
}
