import type { OraclePolicy } from '../policy/control-policies.js';
import { type BoundPolicy, policyFailure, promiseFault, thrownFault } from '../policy/policy.js';
import { isWatched, SiteWatch } from '../policy/untouched.js';
import type { NetworkSite } from './site.js';

/**
 * Runs a function of an oracle policy, which gets the site: that of the simulation, or where the `number`th call is watched one by which writes are told.
 * @throws KernelError `handler-failed` naming policy, file and what it was asked when it throws, returns a promise or writes to the site.
 */
export function askOfSite<Said>(
  bound: BoundPolicy<OraclePolicy>,
  asked: string,
  number: number,
  site: NetworkSite,
  run: (site: NetworkSite) => Said,
): Said {
  const watch = isWatched(bound, number) ? new SiteWatch('site', site) : undefined;
  let said: Said;
  try {
    said = run(watch?.site ?? site);
  } catch (thrown) {
    throw policyFailure(bound, asked, thrownFault(thrown), thrown);
  }
  const fault = promiseFault(said) ?? watch?.written();
  if (fault !== undefined) throw policyFailure(bound, asked, fault);
  return said;
}
