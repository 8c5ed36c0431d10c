import { type BoundPolicy, type EvictionPlug, loadPolicy, type PolicySpec, policyFailure, thrownFault } from '@braess/control';
import { KernelError } from '@braess/kernel';
import * as kvbm from '@braess/kvbm';

/** An eviction policy as the KV cache takes it: by name, with its numbers. */
export interface CachePolicy {
  readonly policy: string;
  readonly policyParameters: Readonly<Record<string, number>>;
}

const functionNames = ['createState', 'reserve', 'stored', 'acquired', 'released', 'removed', 'victim'] as const;

/**
 * Finds a built-in eviction policy, or loads a user's and makes it known to this thread. A user's policy is known by its name, file and parameters, so
 * that two of the same name do not meet. @throws KernelError `bad-option` for what is unknown or lacks a function.
 */
export function cachePolicy(spec: PolicySpec, baseDirectory: string): CachePolicy {
  const parameters = spec.parameters ?? {};
  if (kvbm.evictionPolicyNames().includes(spec.policy)) {
    const numbers = parameters as Record<string, number>;
    try {
      kvbm.evictionParameters(kvbm.evictionPolicy(spec.policy), numbers);
    } catch (error) {
      throw new KernelError('bad-option', (error as Error).message, {}, error);
    }
    return { policy: spec.policy, policyParameters: numbers };
  }
  const bound = loadPolicy('eviction', spec, { baseDirectory, modules: { '@braess/kvbm': kvbm } });
  const functions = bound.policy.create(bound.parameters) as Partial<kvbm.EvictionPolicy>;
  const missing = functionNames.find((name) => typeof functions?.[name] !== 'function');
  if (missing !== undefined)
    throw new KernelError(
      'bad-option',
      `eviction policy '${bound.policy.name}' (${bound.source}): create() gives no function '${missing}'; add it`,
    );
  const shown = Object.keys(parameters).length === 0 ? '' : `, ${JSON.stringify(parameters)}`;
  const name = `${bound.policy.name} (${bound.source}${shown})`;
  kvbm.replaceEvictionPolicy(guarded(bound, functions as kvbm.EvictionPolicy, name));
  return { policy: name, policyParameters: {} };
}

/** The policy with its file in what it throws. */
function guarded(bound: BoundPolicy<EvictionPlug>, policy: kvbm.EvictionPolicy, name: string): kvbm.EvictionPolicy {
  const guard = <Arguments extends unknown[], Result>(asked: string, run: (...values: Arguments) => Result) => {
    return (...values: Arguments): Result => {
      try {
        return run(...values);
      } catch (thrown) {
        throw policyFailure(bound, asked, thrownFault(thrown), thrown);
      }
    };
  };
  return {
    name,
    parameters: {},
    createState: guard('for its state', (capacity: number, nodes: number) => policy.createState(capacity, nodes, policy.parameters ?? {})),
    reserve: guard('to make room for more nodes', policy.reserve),
    stored: guard('to note a stored block', policy.stored),
    acquired: guard('to note a block in use', policy.acquired),
    released: guard('to note a block out of use', policy.released),
    removed: guard('to note a removed block', policy.removed),
    victim: guard('for the block to evict', policy.victim),
    ...(policy.shrunk === undefined ? {} : { shrunk: guard('to note a shrunk block', policy.shrunk) }),
  };
}
