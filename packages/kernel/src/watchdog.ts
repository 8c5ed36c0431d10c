import { KernelError } from './errors.js';
import type { StallReport } from './observer.js';
import type { Segment, SegmentPlan } from './segment.js';
import { workName } from './shard-task.js';
import { wallMs } from './wall-clock.js';

const lookEveryMs = 250;
/** A handler that has not returned for this long is named. */
const stallMs = 1000;

export interface WatchdogListener {
  progress(nowNs: number, events: number): void;
  stalled(report: StallReport): void;
}

/** Looks at the shards' shared words four times a second: progress for observers, and handlers that do not return. */
export class Watchdog {
  readonly #timer: NodeJS.Timeout;
  readonly #segment: Segment;
  readonly #plan: SegmentPlan;
  readonly #listener: WatchdogListener;
  #limitMs: number;
  #stopAskedMs = Number.POSITIVE_INFINITY;
  readonly #pulses: { pulse: number; sinceMs: number; named: boolean }[];

  constructor(segment: Segment, plan: SegmentPlan, listener: WatchdogListener) {
    this.#segment = segment;
    this.#plan = plan;
    this.#listener = listener;
    this.#pulses = Array.from({ length: plan.shards }, () => ({ pulse: -1, sinceMs: wallMs(), named: false }));
    this.#limitMs = plan.limits.handlerLimitMs;
    this.#timer = setInterval(() => this.#look(), lookEveryMs);
  }

  /** The run is to stop: from now on a handler may take no longer than this. */
  hurry(limitMs: number): void {
    this.#limitMs = Math.min(this.#limitMs, limitMs);
    this.#stopAskedMs = wallMs();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    let events = 0;
    let nowNs = Number.POSITIVE_INFINITY;
    for (let shard = 0; shard < this.#plan.shards; shard++) {
      const watch = this.#segment.watch(shard);
      events += watch.events;
      if (watch.nowNs > 0) nowNs = Math.min(nowNs, watch.nowNs);
      this.#lookAt(shard, watch);
    }
    this.#listener.progress(nowNs === Number.POSITIVE_INFINITY ? 0 : nowNs, events);
  }

  #lookAt(shard: number, watch: ReturnType<Segment['watch']>): void {
    const seen = this.#pulses[shard] as { pulse: number; sinceMs: number; named: boolean };
    if (!watch.inHandler || watch.pulse !== seen.pulse) {
      seen.pulse = watch.pulse;
      seen.sinceMs = wallMs();
      seen.named = false;
      return;
    }
    const stalledMs = wallMs() - seen.sinceMs;
    const actor = this.#plan.model.actorNames[watch.actor] as string;
    const message = workName(this.#plan.model, watch.message);
    if (stalledMs >= stallMs && !seen.named) {
      seen.named = true;
      this.#listener.stalled({ shard, actor, message, nowNs: watch.nowNs, stalledMs });
    }
    if (stalledMs < this.#limitMs) return;
    const why = this.#stopAskedMs < wallMs() ? 'the run was asked to stop' : `limits.handlerLimitMs is ${this.#limitMs}`;
    this.#segment.kill(
      new KernelError('handler-stalled', `a handler has not returned for ${Math.round(stalledMs)} ms (${why}); its thread is ended`, {
        shard,
        actor,
        message,
        timeNs: watch.nowNs,
        seed: this.#plan.seed,
      }),
    );
  }
}
