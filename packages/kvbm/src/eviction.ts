import { costAwarePolicy, fifoPolicy, lfuPolicy, lineagePolicy } from './eviction/heap-policies.js';
import { lruPolicy } from './eviction/lru.js';
import { s3FifoPolicy } from './eviction/s3-fifo.js';

/**
 * What a policy may read. A *node* is a small integer that stands for one identified block, or for an extent: a run of `blocks[node]` blocks at the
 * tail of one sequence that nobody else can look up, evicted one by one from the tail. Columns may be replaced by longer ones: never keep them.
 */
export interface CacheView {
  readonly capacityBlocks: number;
  /** Identity of the node's block; 0 or negative for an extent. */
  readonly identity: Float64Array;
  /** Node of the block before, -1 for a first block. Trustworthy while no policy evicts a block before its children. */
  readonly parent: Int32Array;
  /** Position in the chain, 0 for a first block. */
  readonly depth: Int32Array;
  readonly blocks: Int32Array;
  /** Sequences or transfers that hold the node; only nodes with 0 may be evicted. */
  readonly refs: Int32Array;
}

/**
 * An eviction policy: pure functions over plain-data state of its own. Built-in policies use this interface and nothing else. A policy that wants
 * randomness keeps a generator's state in `State`. `State` must be a plain object of numbers, strings, arrays, typed arrays, Map and Set.
 *
 * Order of calls for a node: stored, then any number of acquired / released, then removed. `released` is called when the last reference goes,
 * `acquired` at each new reference (`view.refs` already counts it). A node stored without a reference is `stored`, then `released`.
 */
export interface EvictionPolicy<State extends object = object> {
  readonly name: string;
  /** Default of each numeric parameter; an unknown parameter is an error. */
  readonly parameters: Readonly<Record<string, number>>;
  /** Fresh state for a cache of `capacityBlocks` blocks with node numbers below `nodes`. */
  createState(capacityBlocks: number, nodes: number, parameters: Readonly<Record<string, number>>): State;
  /** Node numbers may now be as large as `nodes` - 1. */
  reserve(state: State, nodes: number): void;
  stored(state: State, view: CacheView, node: number): void;
  acquired(state: State, view: CacheView, node: number): void;
  released(state: State, view: CacheView, node: number): void;
  /** The node leaves the cache: evicted, or an extent taken back by its sequence. Its columns are still valid. */
  removed(state: State, view: CacheView, node: number): void;
  /** The next node to evict from, one with `view.refs[node] === 0`, or -1. Asking again without a change must give the same node. */
  victim(state: State, view: CacheView): number;
  /** `blocks` blocks of the extent were evicted and some remain (`view.blocks` is already smaller). */
  shrunk?(state: State, view: CacheView, node: number, blocks: number): void;
}

/** A policy of this package, with a sentence that says which block goes. Those of others have theirs in the envelope that creates them. */
export interface BuiltInEvictionPolicy<State extends object = object> extends EvictionPolicy<State> {
  readonly description: string;
}

export const builtInEvictionPolicies: readonly BuiltInEvictionPolicy[] = [
  lruPolicy,
  fifoPolicy,
  lfuPolicy,
  s3FifoPolicy,
  costAwarePolicy,
  lineagePolicy,
];

const policies = new Map<string, EvictionPolicy>();
/** Caches ask at each block, nearly always for the same policy. */
let lastFound: EvictionPolicy | undefined;

/** Makes a policy known by its name, in each process that runs it, before a cache is created. Throws when another policy has the name. */
export function registerEvictionPolicy(policy: EvictionPolicy): void {
  const known = policies.get(policy.name);
  if (known !== undefined && known !== policy) {
    throw new Error(`eviction policy '${policy.name}': the name is taken; choose another name`);
  }
  policies.set(policy.name, policy);
}

/** Makes a policy known in place of any other of its name: for policies from files, which may be loaded again. */
export function replaceEvictionPolicy(policy: EvictionPolicy): void {
  policies.set(policy.name, policy);
  lastFound = undefined;
}

/** The policy of that name. Throws an Error that lists the known names. */
export function evictionPolicy(name: string): EvictionPolicy {
  if (lastFound?.name === name) return lastFound;
  const policy = policies.get(name);
  if (policy === undefined) {
    throw new Error(`eviction policy '${name}': unknown; use one of ${evictionPolicyNames().join(', ')}, or register it first`);
  }
  lastFound = policy;
  return policy;
}

export function evictionPolicyNames(): string[] {
  return [...policies.keys()];
}

/** The policy's parameters with defaults filled in. Throws on an unknown name or a value that is not a finite number. */
export function evictionParameters(policy: EvictionPolicy, given: Readonly<Record<string, number>> = {}): Record<string, number> {
  const known = Object.keys(policy.parameters);
  for (const [name, value] of Object.entries(given)) {
    if (!known.includes(name)) {
      throw new Error(`eviction policy '${policy.name}': unknown parameter '${name}'; it takes ${known.join(', ') || 'none'}`);
    }
    if (!Number.isFinite(value)) throw new Error(`eviction policy '${policy.name}': parameter ${name} = ${value} must be a finite number`);
  }
  return { ...policy.parameters, ...given };
}

for (const policy of builtInEvictionPolicies) registerEvictionPolicy(policy);
