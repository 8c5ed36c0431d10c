import { KernelError } from '@braess/kernel';
import type { BoundPolicy } from '../policy/policy.js';
import type { RouterPolicy } from '../policy/router-policy.js';
import type { EngineColumns } from './engines.js';

/** What narrows the choice of a decode engine, whatever the policy. */
export interface DecodeStageOptions {
  /** Share of KV memory that an engine must keep free with the request there, by this frontend's own account; default what the policy says. */
  readonly reserve?: number;
  /** Share of the most sequences of a pass up to which an engine is a candidate: protects the time between tokens. */
  readonly utilisationCap?: number;
  /** Requests of at least this priority go to the nearest tier with a candidate, all others only elsewhere while there is another. */
  readonly nearPriority?: number;
  /** Time since the prefill after which cap and tiers no longer hold for a request, ns. */
  readonly longestWaitNs?: number;
  /** Prompts of at least so many tokens wait in a queue of their own. */
  readonly longTokens?: number;
  /** How often waiting requests are looked at again where time alone may let them go, ns (default 10 ms). */
  readonly retryNs?: number;
}

/** The same with every default filled in; without a limit Infinity. */
export interface DecodeStage {
  readonly reserve: number | undefined;
  readonly utilisationCap: number;
  readonly nearPriority: number | undefined;
  readonly longestWaitNs: number;
  readonly longTokens: number;
  readonly retryNs: number;
  /** Whether time alone may let a waiting request go. */
  readonly retries: boolean;
}

export function decodeStage(options: DecodeStageOptions, { policy, parameters }: BoundPolicy<RouterPolicy>): DecodeStage {
  const longestWaitNs = options.longestWaitNs ?? Number.POSITIVE_INFINITY;
  const retryNs = options.retryNs ?? 10e6;
  if (!(Number.isSafeInteger(retryNs) && retryNs >= 1))
    throw new KernelError('bad-option', `frontend option decodeStage.retryNs is ${retryNs}; it must be a whole number of ns from 1`);
  return {
    reserve: options.reserve ?? policy.reserve?.(parameters),
    utilisationCap: options.utilisationCap ?? Number.POSITIVE_INFINITY,
    nearPriority: options.nearPriority,
    longestWaitNs,
    longTokens: options.longTokens ?? Number.POSITIVE_INFINITY,
    retryNs,
    retries: longestWaitNs < Number.POSITIVE_INFINITY || policy.waits === true,
  };
}

/** Whether an engine can take so many blocks and keep its reserve. An empty one judges for itself, so that nobody waits for ever. */
export function hasRoom(engines: EngineColumns, engine: number, needBlocks: number, reserve: number): boolean {
  const used = engines.activeBlocks[engine]!;
  return used === 0 || engines.capacityBlocks[engine] === 0 || used + needBlocks <= engines.capacityBlocks[engine]! * (1 - reserve);
}

/** Whether an engine is below the cap; one without a known limit is. */
export function belowCap(engines: EngineColumns, engine: number, cap: number): boolean {
  const most = engines.maxSequences[engine]!;
  return most === 0 || engines.activeRequests[engine]! < cap * most;
}

/** Keeps the candidates of the nearest tier, or (`keep` false) those beyond it while there are any; returns how many are left. */
export function keepNearest(candidates: Int32Array, count: number, tiers: { readonly [engine: number]: number }, keep: boolean): number {
  let nearest = Number.POSITIVE_INFINITY;
  for (let place = 0; place < count; place++) nearest = Math.min(nearest, tiers[candidates[place]!]!);
  let beyond = 0;
  for (let place = 0; place < count; place++) if (tiers[candidates[place]!]! > nearest) beyond++;
  if (!keep && beyond === 0) return count;
  let left = 0;
  for (let place = 0; place < count; place++) {
    const engine = candidates[place]!;
    if ((tiers[engine]! === nearest) === keep) candidates[left++] = engine;
  }
  return left;
}
