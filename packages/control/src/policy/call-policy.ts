import { type BoundPolicy, policyFailure, promiseFault, thrownFault } from './policy.js';
import type { Watch } from './untouched.js';

/**
 * Calls a function of a policy and returns what it says. `asked`, the end of a sentence, is made only where something went wrong; `watch` looks afterwards
 * whether the policy wrote where it should only read.
 * @throws KernelError `handler-failed` naming policy, file and what it was asked, when it throws, returns a promise or wrote.
 */
export function callPolicy<Said>(bound: BoundPolicy, asked: () => string, call: () => Said, watch?: Watch): Said {
  let said: Said;
  try {
    said = call();
  } catch (thrown) {
    throw policyFailure(bound, asked(), thrownFault(thrown), thrown);
  }
  const fault = promiseFault(said) ?? watch?.written();
  if (fault !== undefined) throw policyFailure(bound, asked(), fault);
  return said;
}
