import {
  asyncFunction,
  type BoundPolicy,
  type EvictionPlug,
  loadPolicy,
  type PolicySpec,
  policyFailure,
  promiseFault,
  RowWatch,
  thrownFault,
  ViewWatch,
  type Watch,
} from '@braess/control';
import { copyValue, KernelError } from '@braess/kernel';
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
  const waiting = asyncFunction(functions);
  if (waiting !== undefined)
    throw new KernelError(
      'bad-option',
      `eviction policy '${bound.policy.name}' (${bound.source}): create() gives an async function '${waiting}'; make it synchronous`,
    );
  const shown = Object.keys(parameters).length === 0 ? '' : `, ${JSON.stringify(parameters)}`;
  const name = `${bound.policy.name} (${bound.source}${shown})`;
  kvbm.replaceEvictionPolicy(guarded(bound, functions as kvbm.EvictionPolicy, name));
  return { policy: name, policyParameters: {} };
}

const watchedVictims = 16;

function columnsOf({ identity, parent, depth, blocks, refs }: kvbm.CacheView): Pick<kvbm.CacheView, CacheColumn> {
  return { identity, parent, depth, blocks, refs };
}

type CacheColumn = 'identity' | 'parent' | 'depth' | 'blocks' | 'refs';

/** The policy with its file in what it throws, and what it writes to the cache: in the row of the node it is told of, and anywhere in its first searches. */
function guarded(bound: BoundPolicy<EvictionPlug>, policy: kvbm.EvictionPolicy, name: string): kvbm.EvictionPolicy {
  const guard = <Arguments extends unknown[], Result>(
    asked: string,
    run: (...values: Arguments) => Result,
    watchOf?: (...values: Arguments) => Watch | undefined,
  ) => {
    return (...values: Arguments): Result => {
      const watch = watchOf?.(...values);
      let result: Result;
      try {
        result = run(...values);
      } catch (thrown) {
        throw policyFailure(bound, asked, thrownFault(thrown), thrown);
      }
      const fault = promiseFault(result) ?? watch?.written();
      if (fault !== undefined) throw policyFailure(bound, asked, fault);
      return result;
    };
  };
  const row = (_state: object, view: kvbm.CacheView, node: number): Watch => new RowWatch(columnsOf(view), node);
  let victims = 0;
  // All columns are long: those of the first calls must do.
  const all = (_state: object, view: kvbm.CacheView): Watch | undefined =>
    victims++ < watchedVictims ? new ViewWatch({ view: columnsOf(view) }) : undefined;
  return {
    name,
    parameters: {},
    // Copied: checkpoints keep plain data only.
    createState: guard('for its state', (capacity: number, nodes: number) =>
      copyValue(policy.createState(capacity, nodes, policy.parameters ?? {}) as never, 'the state'),
    ),
    reserve: guard('to make room for more nodes', policy.reserve),
    stored: guard('to note a stored block', policy.stored, row),
    acquired: guard('to note a block in use', policy.acquired, row),
    released: guard('to note a block out of use', policy.released, row),
    removed: guard('to note a removed block', policy.removed, row),
    victim: guard('for the block to evict', policy.victim, all),
    ...(policy.shrunk === undefined ? {} : { shrunk: guard('to note a shrunk block', policy.shrunk, row) }),
  };
}
