import seedrandom from 'seedrandom';
import { FrameReader, SharedControl, SharedRing } from './shared-ring.js';
import { wallMs } from './wall-clock.js';

/** What the bridge thread is given: for each ordered pair of shards, the ring it reads and the ring it fills. */
export interface BridgeTask {
  readonly control: SharedArrayBuffer;
  /** Its number among the participants that sleep and wake. */
  readonly participant: number;
  readonly lanes: readonly {
    readonly fromShard: number;
    readonly toShard: number;
    readonly source: SharedArrayBuffer;
    readonly target: SharedArrayBuffer;
  }[];
  /** Greatest delay of a frame in wall ms; each frame draws its own. */
  readonly delayMs: number;
  readonly seed: string;
}

interface Lane {
  readonly fromShard: number;
  readonly toShard: number;
  readonly source: FrameReader;
  readonly target: SharedRing;
  readonly held: { readonly frame: Float64Array; readonly dueMs: number; written: number }[];
}

/** At most this many frames wait in a lane; then its source ring fills up and holds the sender. */
const heldLimit = 64;

/**
 * The piscina task of a transport that is not shared memory: it takes frames out of one set of rings and, after a random delay, fills the
 * other. Stands in for a network: shards see only their rings. Order within a lane is kept.
 */
export default function runBridge(task: BridgeTask): void {
  const control = new SharedControl(task.control);
  const draw = seedrandom.alea(`${task.seed}/bridge`);
  const lanes: Lane[] = task.lanes.map(({ fromShard, toShard, source, target }) => ({
    fromShard,
    toShard,
    source: new FrameReader(new SharedRing(source)),
    target: new SharedRing(target),
    held: [],
  }));
  const anyInput = (): boolean => lanes.some((lane) => lane.source.hasInput);
  while (!control.aborted) {
    let moved = false;
    let nextDueMs = Number.POSITIVE_INFINITY;
    for (const lane of lanes) {
      moved = takeIn(lane, control, () => draw() * task.delayMs) || moved;
      moved = passOn(lane, control) || moved;
      const first = lane.held[0];
      if (first !== undefined) nextDueMs = Math.min(nextDueMs, Math.max(first.dueMs, wallMs() + 0.05));
    }
    if (!moved) control.sleep(task.participant, Math.min(10, Math.max(0.01, nextDueMs - wallMs())), anyInput);
  }
}

function takeIn(lane: Lane, control: SharedControl, delayMs: () => number): boolean {
  if (lane.held.length >= heldLimit || !lane.source.hasInput) return false;
  const frame = lane.source.poll();
  control.wake(lane.fromShard);
  if (frame !== undefined) lane.held.push({ frame: frame.words.slice(0, frame.length), dueMs: wallMs() + delayMs(), written: 0 });
  return true;
}

function passOn(lane: Lane, control: SharedControl): boolean {
  const first = lane.held[0];
  if (first === undefined || first.dueMs > wallMs()) return false;
  const written = lane.target.write(first.frame, first.written, first.frame.length);
  first.written += written;
  if (first.written === first.frame.length) lane.held.shift();
  control.wake(lane.toShard);
  return written > 0;
}
