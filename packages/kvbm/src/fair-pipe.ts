/**
 * One device that moves bytes for several workers at once (a host's PCIe path to DRAM, an NVMe drive): processor sharing. The transfers under way share
 * max-min fairly what the device gives, subject to a cap for each worker. A transfer first waits out a fixed latency, then moves its bytes, and is
 * noticed at the scheduler's next poll: offload delay in real engines comes as much from polling as from bandwidth, so both terms exist.
 *
 * The course depends only on what was started when, never on how often `advance` is called. Times are whole nanoseconds; bytes moved by n transfers sum to
 * what was asked for to within rounding of doubles.
 */
export interface FairPipe {
  deviceBytesPerNs: number;
  workerBytesPerNs: number;
  /** Share of both that is there now. */
  speed: number;
  latencyNs: number;
  /** 0: noticed at once. */
  pollPeriodNs: number;
  workers: number;
  transferLimit: number;
  /** Time up to which `remaining` holds. */
  anchorNs: number;
  /** Earliest of all `dueNs`, Infinity when idle: when the pipe itself has something to do. */
  nextNs: number;
  /** Rows 0..count-1 are transfers: waiting, then moving, then done but not noticed; in the order they were started. */
  count: number;
  ids: Float64Array;
  phases: Uint8Array;
  workerOf: Int32Array;
  remaining: Float64Array;
  bytesPerNs: Float64Array;
  /** When the row's phase ends, at the present rates. */
  dueNs: Float64Array;
  /** Transfers moving for each worker; scratch for the order in which workers reach their cap. */
  moving: Int32Array;
  workerRate: Float64Array;
  movedBytes: number;
  finished: number;
}

/**
 * Default shares of a host's path to DRAM (G2) and of an NVMe drive (G3). Assumed, not measured: order of magnitude of PCIe Gen5, to be set per host in
 * the scenario. For comparison, NVIDIA Dynamo's mocker assumes 14 GB/s each way between HBM and DRAM for one worker.
 */
export const HOST_DRAM_BANDWIDTH = { deviceBytesPerSecond: 80e9, workerBytesPerSecond: 32e9 } as const;
export const NVME_BANDWIDTH = { deviceBytesPerSecond: 10e9, workerBytesPerSecond: 10e9 } as const;

/** Bandwidths and limits of a device that several workers share. */
export interface FairPipeOptions {
  /** What the device gives to all transfers together. */
  deviceBytesPerSecond: number;
  /** What one worker's transfers can take together; Infinity for no cap. */
  workerBytesPerSecond: number;
  workers: number;
  /** Fixed time before the bytes of a transfer start to move. */
  latencyNs?: number;
  /** The scheduler notices completions at multiples of this time only. */
  pollPeriodNs?: number;
  /** Transfers under way at most. */
  transferLimit?: number;
}

const WAITING = 1;
const MOVING = 2;
const DONE = 3;

export function createFairPipe(options: FairPipeOptions): FairPipe {
  const { deviceBytesPerSecond, workerBytesPerSecond, workers } = options;
  const latencyNs = options.latencyNs ?? 0;
  const pollPeriodNs = options.pollPeriodNs ?? 0;
  const transferLimit = options.transferLimit ?? 4096;
  requirePositive('deviceBytesPerSecond', deviceBytesPerSecond);
  requirePositive('workerBytesPerSecond', workerBytesPerSecond);
  for (const [name, value] of Object.entries({ latencyNs, pollPeriodNs, workers, transferLimit })) {
    if (!(Number.isInteger(value) && value >= 0)) throw new RangeError(`pipe: ${name} = ${value} must be an integer of 0 or more`);
  }
  return {
    deviceBytesPerNs: deviceBytesPerSecond / 1e9,
    workerBytesPerNs: Math.min(workerBytesPerSecond, deviceBytesPerSecond) / 1e9,
    speed: 1,
    latencyNs,
    pollPeriodNs,
    workers,
    transferLimit,
    anchorNs: 0,
    nextNs: Number.POSITIVE_INFINITY,
    count: 0,
    ids: new Float64Array(transferLimit),
    phases: new Uint8Array(transferLimit),
    workerOf: new Int32Array(transferLimit),
    remaining: new Float64Array(transferLimit),
    bytesPerNs: new Float64Array(transferLimit),
    dueNs: new Float64Array(transferLimit),
    moving: new Int32Array(workers),
    workerRate: new Float64Array(workers),
    movedBytes: 0,
    finished: 0,
  };
}

/**
 * Starts moving `bytes` for `worker` at `nowNs`; `id` comes back from `advance`. Call `advance` up to `nowNs` first. Returns false when the pipe is at its
 * limit of transfers: the caller queues or drops, and counts it. Throws on a worker out of range, bytes that are no positive integer, or a time in the past.
 */
export function startTransfer(pipe: FairPipe, id: number, worker: number, bytes: number, nowNs: number): boolean {
  if (!(worker >= 0 && worker < pipe.workers)) throw new RangeError(`pipe: worker ${worker} is not in 0..${pipe.workers - 1}`);
  if (!(Number.isInteger(bytes) && bytes > 0))
    throw new RangeError(`pipe: transfer ${id} of ${bytes} bytes; must be an integer of 1 or more`);
  if (nowNs < pipe.anchorNs || nowNs > pipe.nextNs) {
    throw new RangeError(
      `pipe: transfer ${id} starts at ${nowNs} ns, outside ${pipe.anchorNs}..${pipe.nextNs} ns; advance the pipe to the start first`,
    );
  }
  if (pipe.count === pipe.transferLimit) return false;
  const row = pipe.count++;
  pipe.ids[row] = id;
  pipe.phases[row] = WAITING;
  pipe.workerOf[row] = worker;
  pipe.remaining[row] = bytes;
  pipe.bytesPerNs[row] = 0;
  pipe.dueNs[row] = nowNs + pipe.latencyNs;
  if (pipe.dueNs[row]! < pipe.nextNs) pipe.nextNs = pipe.dueNs[row]!;
  return true;
}

/** When the pipe next does something by itself, which `advance` must not be late for when more is to be started: Infinity when idle. */
export function nextStepNs(pipe: FairPipe): number {
  return pipe.nextNs;
}

/**
 * When to call `advance` next: no completion is noticed before, and one is at this time unless transfers share (Infinity when idle). Later starts only move
 * completions back. A transfer that still waits out its latency needs no call of its own: it cannot be faster than alone.
 */
export function nextCompletionNs(pipe: FairPipe): number {
  const fastest = pipe.workerBytesPerNs * pipe.speed;
  let earliestNs = Number.POSITIVE_INFINITY;
  for (let row = 0; row < pipe.count; row++) {
    const phase = pipe.phases[row];
    let noticedNs = pipe.dueNs[row]!;
    if (phase === WAITING) noticedNs += Math.ceil(pipe.remaining[row]! / fastest);
    if (phase !== DONE) noticedNs = nextPollNs(pipe, noticedNs);
    if (noticedNs < earliestNs) earliestNs = noticedNs;
  }
  return earliestNs;
}

/** The first look of the scheduler at or after a moment. */
function nextPollNs({ pollPeriodNs }: FairPipe, nowNs: number): number {
  return pollPeriodNs === 0 ? nowNs : Math.ceil(nowNs / pollPeriodNs) * pollPeriodNs;
}

/**
 * Runs the pipe up to and including `nowNs`. Writes the ids of the transfers noticed as complete to `out` from index 0, by time and then in order of
 * start, and returns how many; `out` must have room for all transfers under way.
 */
export function advance(pipe: FairPipe, nowNs: number, out: Float64Array): number {
  let noticed = 0;
  while (pipe.nextNs <= nowNs) {
    const stepNs = pipe.nextNs;
    const changed = endPhases(pipe, stepNs, out, noticed);
    noticed += pipe.finished;
    if (changed) shareRates(pipe, stepNs);
    pipe.nextNs = earliestDue(pipe);
  }
  return noticed;
}

/** Gives the pipe another share of its bandwidth, above 0, from `nowNs` on. Call `advance` up to `nowNs` first. */
export function setPipeSpeed(pipe: FairPipe, speed: number, nowNs: number): void {
  if (!(speed > 0 && speed <= 1)) throw new RangeError(`pipe: speed ${speed} is not above 0 and at most 1; empty a pipe that is out`);
  pipe.speed = speed;
  shareRates(pipe, nowNs);
  pipe.nextNs = earliestDue(pipe);
}

/** Drops all that is under way. Call `advance` up to `nowNs` first. */
export function emptyPipe(pipe: FairPipe, nowNs: number): void {
  pipe.count = 0;
  pipe.moving.fill(0);
  pipe.anchorNs = nowNs;
  pipe.nextNs = Number.POSITIVE_INFINITY;
}

/** Transfers that are waiting, moving or not noticed yet. */
export function transfersUnderWay(pipe: FairPipe): number {
  return pipe.count;
}

/** Bytes per second a transfer that `worker` starts now would get once it moves, if nothing else changes. */
export function offeredBytesPerSecond(pipe: FairPipe, worker: number): number {
  pipe.moving[worker]!++;
  fillRates(pipe);
  const rate = pipe.workerRate[worker]!;
  pipe.moving[worker]!--;
  fillRates(pipe);
  return rate * 1e9;
}

/** Moves each transfer whose phase ends at `atNs` on; returns whether the set of moving transfers changed. Leaves the number noticed in `pipe.finished`. */
function endPhases(pipe: FairPipe, atNs: number, out: Float64Array, outFrom: number): boolean {
  let changed = false;
  let kept = 0;
  let noticed = 0;
  for (let row = 0; row < pipe.count; row++) {
    if (pipe.dueNs[row] === atNs) {
      if (pipe.phases[row] === WAITING) {
        changed = true;
        pipe.phases[row] = MOVING;
        pipe.moving[pipe.workerOf[row]!]!++;
      } else if (pipe.phases[row] === MOVING) {
        changed = true;
        finishMoving(pipe, row, atNs);
      }
      if (pipe.phases[row] === DONE && pipe.dueNs[row] === atNs) {
        out[outFrom + noticed++] = pipe.ids[row]!;
        continue;
      }
    }
    if (kept !== row) copyRow(pipe, row, kept);
    kept++;
  }
  pipe.count = kept;
  pipe.finished = noticed;
  return changed;
}

function finishMoving(pipe: FairPipe, row: number, atNs: number): void {
  pipe.phases[row] = DONE;
  pipe.moving[pipe.workerOf[row]!]!--;
  pipe.movedBytes += pipe.remaining[row]!;
  pipe.remaining[row] = 0;
  pipe.bytesPerNs[row] = 0;
  pipe.dueNs[row] = nextPollNs(pipe, atNs);
}

/** Settles what was moved since the anchor and gives each moving transfer its new rate and end. */
function shareRates(pipe: FairPipe, atNs: number): void {
  const elapsedNs = atNs - pipe.anchorNs;
  fillRates(pipe);
  for (let row = 0; row < pipe.count; row++) {
    if (pipe.phases[row] !== MOVING) continue;
    const old = pipe.bytesPerNs[row]!;
    const rate = pipe.workerRate[pipe.workerOf[row]!]!;
    if (old > 0) {
      const moved = Math.min(pipe.remaining[row]!, old * elapsedNs);
      pipe.remaining[row]! -= moved;
      pipe.movedBytes += moved;
    }
    pipe.bytesPerNs[row] = rate;
    pipe.dueNs[row] = atNs + Math.ceil(pipe.remaining[row]! / rate);
  }
  pipe.anchorNs = atNs;
}

/**
 * Max-min fair rate of one transfer of each worker (progressive filling: all rates rise together; a worker at its cap stops, the others go on). The workers with
 * most transfers reach the cap first, so they are taken in that order.
 */
function fillRates(pipe: FairPipe): void {
  const { moving, workerRate, workers } = pipe;
  let left = pipe.deviceBytesPerNs * pipe.speed;
  let transfers = 0;
  for (let worker = 0; worker < workers; worker++) {
    transfers += moving[worker]!;
    workerRate[worker] = -1;
  }
  while (transfers > 0) {
    let busiest = -1;
    for (let worker = 0; worker < workers; worker++) {
      if (workerRate[worker]! < 0 && (busiest < 0 || moving[worker]! > moving[busiest]!)) busiest = worker;
    }
    const count = moving[busiest]!;
    const rate = Math.min((pipe.workerBytesPerNs * pipe.speed) / count, left / transfers);
    workerRate[busiest] = rate;
    left -= rate * count;
    transfers -= count;
  }
}

function earliestDue(pipe: FairPipe): number {
  let earliest = Number.POSITIVE_INFINITY;
  for (let row = 0; row < pipe.count; row++) {
    if (pipe.dueNs[row]! < earliest) earliest = pipe.dueNs[row]!;
  }
  return earliest;
}

function copyRow(pipe: FairPipe, from: number, to: number): void {
  pipe.ids[to] = pipe.ids[from]!;
  pipe.phases[to] = pipe.phases[from]!;
  pipe.workerOf[to] = pipe.workerOf[from]!;
  pipe.remaining[to] = pipe.remaining[from]!;
  pipe.bytesPerNs[to] = pipe.bytesPerNs[from]!;
  pipe.dueNs[to] = pipe.dueNs[from]!;
}

function requirePositive(name: string, value: number): void {
  if (!(value > 0)) throw new RangeError(`pipe: ${name} = ${value} must be over 0`);
}
