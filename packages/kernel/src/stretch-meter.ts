import type { Segment, SegmentResult, ShardWatch } from './segment.js';
import { wallMs } from './wall-clock.js';

/** What a stretch of a run has done since its shards began: events, wall milliseconds, simulated nanoseconds. */
export interface StretchReading {
  readonly events: number;
  readonly elapsedMs: number;
  /** Wall milliseconds its shards waited, summed. */
  readonly waitedMs: number;
  readonly spanNs: number;
}

export const nothing: StretchReading = { events: 0, elapsedMs: 0, waitedMs: 0, spanNs: 0 };

/** Reads the speed of a segment while it runs, out of the words its shards share: it need not stop for that. */
export class StretchMeter {
  readonly #segment: Segment;
  readonly #fromNs: number;
  readonly #pulses: Int32Array;
  #begunMs = Number.NaN;
  #events = 0;

  constructor(segment: Segment, shards: number, fromNs: number) {
    this.#segment = segment;
    this.#fromNs = fromNs;
    this.#pulses = new Int32Array(shards);
  }

  /** All zero until every shard is built. */
  read(): StretchReading {
    const watches = this.#watches();
    if (Number.isNaN(this.#begunMs)) {
      if (!watches.every(({ looping }) => looping)) return nothing;
      this.#begunMs = wallMs();
      for (const [shard, { pulse }] of watches.entries()) this.#pulses[shard] = pulse;
    }
    for (const [shard, { pulse }] of watches.entries()) {
      this.#events += (pulse - (this.#pulses[shard] as number)) >>> 0; // The count wraps at 32 bits.
      this.#pulses[shard] = pulse;
    }
    const reachedNs = Math.min(...watches.map(({ nowNs }) => nowNs));
    const elapsedMs = wallMs() - this.#begunMs;
    return { events: this.#events, elapsedMs, waitedMs: waitedMsOf(watches), spanNs: Math.max(0, reachedNs - this.#fromNs) };
  }

  /** What a segment came to, also one too short to be looked at while it ran; a lost one is known from the last look alone. */
  readEnded(done: SegmentResult | undefined): StretchReading {
    if (done === undefined) return this.read();
    const spanNs = done.stoppedNs - this.#fromNs;
    return { events: done.stretchEvents, elapsedMs: done.loopMs, waitedMs: waitedMsOf(this.#watches()), spanNs };
  }

  #watches(): ShardWatch[] {
    return Array.from(this.#pulses, (_, shard) => this.#segment.watch(shard));
  }
}

function waitedMsOf(watches: readonly ShardWatch[]): number {
  return watches.reduce((sum, { waitedMs }) => sum + waitedMs, 0);
}
