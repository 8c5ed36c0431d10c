import type { Checkpoint } from '../checkpoint.js';
import { KernelError } from '../errors.js';
import { combineLanes } from '../fingerprint.js';
import type { InputEntry } from '../input-log.js';
import type { Limits } from '../limits.js';
import type { Model } from '../model.js';
import { packValue } from '../plain-data.js';
import { modelOf, type Program } from '../program.js';
import type { RunRecord } from '../records.js';
import { run } from '../run.js';
import type { RunOptions } from '../run-options.js';
import { Simulation } from '../simulation.js';
import {
  checkpointDifference,
  type Difference,
  differingActors,
  firstReceivedDifference,
  firstRecordDifference,
} from './first-difference.js';
import { isReceivedRecord, recordedProgram } from './recording.js';

export interface MatrixOptions {
  /** Seed of the random streams (default '1'). */
  readonly seed?: string | number;
  /**
   * 'memory': 1, 2, 3, 4 shards on this thread, strict and not, restored. 'threads': the same on worker threads, bridged and paced too.
   * 'full' (default): both.
   */
  readonly matrix?: 'full' | 'memory' | 'threads';
  /** Stop before this simulated time; needed for programs that never end. */
  readonly untilNs?: number;
  /** Where the restored variants are cut (default: half of the simulated time the run takes). */
  readonly checkpointAtNs?: number;
  /** Cuts of the restored variants in memory: shards before and after (default [1, 3] and [4, 2]). */
  readonly restores?: readonly (readonly [before: number, after: number])[];
  readonly inputs?: readonly InputEntry[];
  readonly limits?: Partial<Limits>;
  /** Greatest wall delay of a bridged frame in ms (default 0.2). */
  readonly bridgeDelayMs?: number;
  /** Wall ms that the paced variant should take (default 50). */
  readonly pacedMs?: number;
  /** The command that replays a failure (default: one that calls this function again, for programs in a module). */
  readonly replay?: string;
}

/** Two variants of one run gave different results; names where they part. */
export class FingerprintMismatch extends Error {
  override readonly name = 'FingerprintMismatch';
  readonly variant: string;
  readonly seed: string;
  readonly actor: string | undefined;
  readonly timeNs: number | undefined;
  readonly messageName: string | undefined;
  /** A shell command that replays it. */
  readonly replay: string;

  constructor(what: string, variant: string, seed: string, replay: string, difference?: Difference) {
    const place =
      difference === undefined
        ? ''
        : `\n  first at actor ${difference.actor}, ${difference.message}, ${difference.timeNs} ns: ${difference.text}`;
    super(`${what} (seed '${seed}')${place}\n  replay: ${replay}`);
    this.variant = variant;
    this.seed = seed;
    this.replay = replay;
    this.actor = difference?.actor;
    this.timeNs = difference?.timeNs;
    this.messageName = difference?.message;
  }
}

/** What every variant of a run must agree on. */
interface Outcome {
  readonly lanes: Int32Array;
  readonly recordFingerprint: string;
  readonly eventCount: number;
  readonly stoppedNs: number;
  readonly records: readonly RunRecord[];
  /** The checkpoint at the cut, where the variant took one. */
  readonly cut?: Checkpoint;
}

interface Variant {
  readonly name: string;
  /** Runs a program (the one under test, or its recorded form). */
  readonly outcome: (program: Program) => Promise<Outcome>;
}

/**
 * Runs a program over the whole matrix (shards, transports, strict, paced, restored onto another shard count) and returns its fingerprint.
 * @throws FingerprintMismatch that names the first differing actor, time and message when any two variants disagree in fingerprint, records,
 * record fingerprint, counts or checkpoint bytes.
 */
export async function oneFingerprint<Parameters>(
  program: Program<Parameters>,
  parameters: Parameters,
  options: MatrixOptions = {},
): Promise<string> {
  return new Matrix(program as Program, parameters, options).run();
}

class Matrix {
  readonly #program: Program;
  readonly #parameters: unknown;
  readonly #options: MatrixOptions;
  readonly #seed: string;
  readonly #untilNs: number;
  readonly #model: Model;
  #durationNs = 0;
  #cutNs = 0;

  constructor(program: Program, parameters: unknown, options: MatrixOptions) {
    const { matrix = 'full' } = options;
    if (matrix !== 'memory' && program.module === undefined)
      throw new KernelError('bad-option', `program '${program.name}' has no module URL, so threads cannot load it; use matrix: 'memory'`);
    this.#program = program;
    this.#parameters = parameters;
    this.#options = options;
    this.#seed = String(options.seed ?? '1');
    this.#untilNs = options.untilNs ?? Number.POSITIVE_INFINITY;
    this.#model = modelOf(program, parameters);
  }

  async run(): Promise<string> {
    const { matrix = 'full', checkpointAtNs } = this.#options;
    const reference = this.#memory('memory, 1 shard', 1, false);
    const expected = await reference.outcome(this.#program);
    this.#durationNs = this.#untilNs === Number.POSITIVE_INFINITY ? expected.stoppedNs : this.#untilNs;
    // A cut behind the last event would move the time at which the run stops.
    this.#cutNs = Math.min(checkpointAtNs ?? Math.floor(this.#durationNs / 2), this.#durationNs);
    const cut = this.#runInMemory(this.#program, 1, false, this.#cutNs).checkpoint();
    const variants = [...(matrix === 'threads' ? [] : this.#memoryVariants()), ...(matrix === 'memory' ? [] : this.#threadVariants())];
    for (const variant of variants) {
      const outcome = await variant.outcome(this.#program);
      await this.#compare(reference, expected, variant, outcome);
      if (outcome.cut !== undefined) this.#compareCheckpoints(variant, cut, outcome.cut);
    }
    return combineLanes(expected.lanes);
  }

  #memoryVariants(): Variant[] {
    const restores = this.#options.restores ?? [
      [1, 3],
      [4, 2],
    ];
    return [
      ...[2, 3, 4].map((shards) => this.#memory(`memory, ${shards} shards`, shards, false)),
      ...[1, 3].map((shards) => this.#memory(`memory, ${shards} shards, strict`, shards, true)),
      ...restores.map(([before, after]) => this.#restoredInMemory(before, after)),
    ];
  }

  #threadVariants(): Variant[] {
    const { bridgeDelayMs = 0.2, pacedMs = 50 } = this.#options;
    const pace = Math.max(1e-3, this.#durationNs / 1e6 / pacedMs);
    return [
      ...[1, 2, 3, 4].map((shards) => this.#threads(`threads, ${shards} shards`, { shards })),
      this.#threads('threads, 2 shards, strict', { shards: 2, strict: true }),
      this.#threads('bridged, 2 shards', { shards: 2, transport: 'bridged', bridgeDelayMs }),
      this.#threads('bridged, 3 shards, strict', { shards: 3, transport: 'bridged', bridgeDelayMs, strict: true }),
      this.#threads('threads, 2 shards, paced', { shards: 2, pace }),
      this.#restoredOnThreads(2, 3),
    ];
  }

  #memory(name: string, shards: number, strict: boolean): Variant {
    return {
      name,
      outcome: async (program) => outcomeOf(this.#runInMemory(program, shards, strict, this.#untilNs), []),
    };
  }

  #runInMemory(program: Program, shards: number, strict: boolean, untilNs: number, from?: Checkpoint): Simulation {
    const { limits = {}, inputs = [] } = this.#options;
    const model = modelOf(program, this.#parameters);
    const simulation = new Simulation(model, { seed: this.#seed, shards, strict, limits, keepRecords: true, ...(from && { from }) });
    if (from === undefined) for (const entry of inputs) simulation.inject(entry);
    simulation.runUntil(untilNs);
    return simulation;
  }

  #restoredInMemory(before: number, after: number): Variant {
    return {
      name: `memory, checkpoint on ${before}, restored on ${after} shards`,
      outcome: async (program) => {
        const first = this.#runInMemory(program, before, false, this.#cutNs);
        const cut = first.checkpoint();
        return { ...outcomeOf(this.#runInMemory(program, after, false, this.#untilNs, cut), first.takeRecords()), cut };
      },
    };
  }

  #threads(name: string, runOptions: RunOptions): Variant {
    return { name, outcome: (program) => this.#runOnThreads(program, runOptions, []) };
  }

  async #runOnThreads(program: Program, runOptions: RunOptions, earlier: readonly RunRecord[]): Promise<Outcome> {
    const { limits = {}, inputs = [] } = this.#options;
    const records = [...earlier];
    const result = await run(program, this.#parameters, {
      seed: this.#seed,
      limits,
      ...(runOptions.from === undefined ? { inputs } : {}),
      ...(this.#untilNs === Number.POSITIVE_INFINITY ? {} : { untilNs: this.#untilNs }),
      sink: {
        write(batch) {
          for (const entry of batch) records.push(entry);
        },
      },
      ...runOptions,
    });
    const { lanes, recordFingerprint, eventCount, stoppedNs, checkpoint } = result;
    return { lanes, recordFingerprint, eventCount, stoppedNs, records, ...(checkpoint && { cut: checkpoint }) };
  }

  #restoredOnThreads(before: number, after: number): Variant {
    return {
      name: `threads, checkpoint on ${before}, restored on ${after} shards`,
      outcome: async (program) => {
        const first = await this.#runOnThreads(program, { shards: before, untilNs: this.#cutNs, checkpoint: true }, []);
        const cut = first.cut as Checkpoint;
        return { ...(await this.#runOnThreads(program, { shards: after, from: cut }, first.records)), cut };
      },
    };
  }

  async #compare(reference: Variant, expected: Outcome, variant: Variant, outcome: Outcome): Promise<void> {
    const differing = differingActors(expected.lanes, outcome.lanes);
    if (differing.length > 0) throw await this.#explain(reference, variant, differing);
    const recordDifference = firstRecordDifference(this.#model, reference.name, expected.records, variant.name, outcome.records);
    if (recordDifference !== undefined || expected.recordFingerprint !== outcome.recordFingerprint)
      throw this.#mismatch(`'${variant.name}' has other records than '${reference.name}'`, variant, recordDifference);
    for (const what of ['eventCount', 'stoppedNs'] as const) {
      if (expected[what] !== outcome[what])
        throw this.#mismatch(`'${variant.name}' has ${what} ${outcome[what]}, '${reference.name}' ${expected[what]}`, variant);
    }
  }

  #compareCheckpoints(variant: Variant, expected: Checkpoint, found: Checkpoint): void {
    const difference = checkpointDifference(this.#model, this.#seed, expected, found);
    if (difference !== undefined)
      throw this.#mismatch(`the checkpoint of '${variant.name}' at ${this.#cutNs} ns differs from one shard's in ${difference}`, variant);
  }

  /** Runs both variants again, recording what the differing actors receive. */
  async #explain(reference: Variant, variant: Variant, differing: readonly number[]): Promise<FingerprintMismatch> {
    const names = differing.map((actor) => this.#model.actorNames[actor] as string);
    const recorded = recordedProgram(this.#program, names);
    const [a, b] = [await reference.outcome(recorded), await variant.outcome(recorded)];
    const difference = firstReceivedDifference(
      this.#model,
      reference.name,
      a.records.filter(isReceivedRecord),
      variant.name,
      b.records.filter(isReceivedRecord),
    );
    const what = `'${variant.name}' has another fingerprint than '${reference.name}': ${differing.length} actors differ (${names.slice(0, 5).join(', ')}${names.length > 5 ? ', ...' : ''})`;
    return this.#mismatch(
      difference === undefined ? `${what}; run again, they agree: the program itself changes from run to run` : what,
      variant,
      difference,
    );
  }

  #mismatch(what: string, variant: Variant, difference?: Difference): FingerprintMismatch {
    return new FingerprintMismatch(what, variant.name, this.#seed, this.#options.replay ?? this.#replayCommand(), difference);
  }

  #replayCommand(): string {
    const { module, name } = this.#program;
    const { replay: _replay, inputs: _inputs, ...options } = { ...this.#options, seed: this.#seed };
    if (module === undefined) return `oneFingerprint of program '${name}' with seed '${this.#seed}' (it has no module to load)`;
    const packed = Buffer.from(packValue(this.#parameters, 'the parameters')).toString('base64');
    const script = [
      `import program from '${module}'`,
      "import { unpackValue } from '@braess/kernel'",
      "import { oneFingerprint } from '@braess/kernel/testing'",
      `console.log(await oneFingerprint(program, unpackValue(Buffer.from('${packed}', 'base64')), ${JSON.stringify(options)}))`,
    ].join('; ');
    return `node --input-type=module --eval "${script.replaceAll('"', '\\"')}"`;
  }
}

function outcomeOf(simulation: Simulation, earlier: readonly RunRecord[]): Outcome {
  const { recordFingerprint, eventCount, nowNs } = simulation;
  return { lanes: simulation.lanes(), recordFingerprint, eventCount, stoppedNs: nowNs, records: [...earlier, ...simulation.takeRecords()] };
}
