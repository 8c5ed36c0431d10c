import { KernelError } from '@braess/kernel';
import { engineStatus } from '@braess/protocol';

/** An engine as the program declares it. */
export interface EngineEntry {
  readonly name: string;
  /** The engine's actor; its id is read when the state is created. */
  readonly actor: { readonly id: number };
  /** A value of `engineRole`. */
  readonly role: number;
  /** A value of `engineStatus` (default active). */
  readonly status?: number;
  /** What a scheduler may know of it beforehand. */
  readonly profile?: EngineProfile;
}

/** Fixed facts of an engine. Engines that share one share its row of the table. */
export interface EngineProfile {
  readonly maxSequences: number;
  readonly capacityBlocks: number;
  /** Time of a decode pass of 0 .. `maxSequences` sequences, and of each token attended to, ns. */
  readonly passNs: readonly number[];
  readonly contextTokenNs: number;
}

/** What one frontend or planner knows of the engines; row = engine number. Plain data. */
export interface EngineColumns {
  count: number;
  names: string[];
  actors: Int32Array;
  /** Engine number by actor id - firstActor, -1 for other actors. */
  engineOfActor: Int32Array;
  firstActor: number;
  role: Float64Array;
  status: Float64Array;
  activeRequests: Float64Array;
  activePrefillTokens: Float64Array;
  activeBlocks: Float64Array;
  reportedAtNs: Float64Array;
  queuedTokens: Float64Array;
  runningSequences: Float64Array;
  waitingSequences: Float64Array;
  usedBlocks: Float64Array;
  totalBlocks: Float64Array;
  /** See `EngineView`. */
  maxSequences: Float64Array;
  capacityBlocks: Float64Array;
  passNs: Float64Array;
  passStart: Float64Array;
  contextTokenNs: Float64Array;
  /** Sequence number of the last KV events taken, -1 for none. */
  kvSequence: Float64Array;
}

export function createEngineColumns(entries: readonly EngineEntry[]): EngineColumns {
  const count = entries.length;
  if (count === 0) throw new KernelError('bad-model', 'a frontend or planner has no engines; list at least one in its options');
  const actors = Int32Array.from(entries, (entry) => entry.actor.id);
  const firstActor = actors.reduce((low, id) => Math.min(low, id));
  const engineOfActor = new Int32Array(actors.reduce((high, id) => Math.max(high, id)) - firstActor + 1).fill(-1);
  for (const [engine, actor] of actors.entries()) engineOfActor[actor - firstActor] = engine;
  const zeros = (): Float64Array => new Float64Array(count);
  return {
    count,
    names: entries.map((entry) => entry.name),
    actors,
    engineOfActor,
    firstActor,
    role: Float64Array.from(entries, (entry) => entry.role),
    status: Float64Array.from(entries, (entry) => entry.status ?? engineStatus.active),
    activeRequests: zeros(),
    activePrefillTokens: zeros(),
    activeBlocks: zeros(),
    reportedAtNs: zeros().fill(-1),
    queuedTokens: zeros(),
    runningSequences: zeros(),
    waitingSequences: zeros(),
    usedBlocks: zeros(),
    totalBlocks: zeros(),
    ...profileColumns(entries),
    kvSequence: zeros().fill(-1),
  };
}

const noProfile: EngineProfile = { maxSequences: 0, capacityBlocks: 0, passNs: [0], contextTokenNs: 0 };

function profileColumns(
  entries: readonly EngineEntry[],
): Pick<EngineColumns, 'maxSequences' | 'capacityBlocks' | 'passNs' | 'passStart' | 'contextTokenNs'> {
  const starts = new Map<EngineProfile, number>();
  const table: number[] = [];
  for (const { profile = noProfile } of entries) {
    if (starts.has(profile)) continue;
    if (profile.passNs.length !== profile.maxSequences + 1)
      throw new KernelError(
        'bad-model',
        `an engine profile has ${profile.passNs.length} pass times for up to ${profile.maxSequences} sequences; give one for each count from 0`,
      );
    starts.set(profile, table.length);
    table.push(...profile.passNs);
  }
  const column = (value: (profile: EngineProfile) => number): Float64Array =>
    Float64Array.from(entries, ({ profile = noProfile }) => value(profile));
  return {
    maxSequences: column(({ maxSequences }) => maxSequences),
    capacityBlocks: column(({ capacityBlocks }) => capacityBlocks),
    passNs: Float64Array.from(table),
    passStart: column((profile) => starts.get(profile) as number),
    contextTokenNs: column(({ contextTokenNs }) => contextTokenNs),
  };
}

/** The number of the engine that an actor is. @throws KernelError `bad-value` when it is none of them. */
export function engineOf(engines: EngineColumns, actor: number): number {
  const engine = engines.engineOfActor[actor - engines.firstActor] ?? -1;
  if (engine < 0)
    throw new KernelError(
      'bad-value',
      `actor ${actor} reports as an engine, but is none of the ${engines.count} engines known here; list it`,
    );
  return engine;
}

/** A load report as it arrived. */
export interface LoadFields {
  readonly queuedTokens: number;
  readonly runningSequences: number;
  readonly waitingSequences: number;
  readonly usedBlocks: number;
  readonly totalBlocks: number;
}

export function takeLoadReport(engines: EngineColumns, engine: number, report: LoadFields, nowNs: number): void {
  engines.reportedAtNs[engine] = nowNs;
  engines.queuedTokens[engine] = report.queuedTokens;
  engines.runningSequences[engine] = report.runningSequences;
  engines.waitingSequences[engine] = report.waitingSequences;
  engines.usedBlocks[engine] = report.usedBlocks;
  engines.totalBlocks[engine] = report.totalBlocks;
}
