import { policyFailure, thrownFault } from '../policy/policy.js';
import { isWatched, ViewWatch } from '../policy/untouched.js';
import { isRecorded, recordAdmission } from './decisions.js';
import { waitingRequests } from './decode-queues.js';
import { fillRequest } from './routing.js';
import type { FrontendContext, FrontendDesk, FrontendState } from './state.js';

/** Whether the admission policy, which there is, lets a request in. @throws KernelError `handler-failed` for a policy that throws, changes its view or gives no boolean. */
export function mayEnter(desk: FrontendDesk, state: FrontendState, context: FrontendContext, slot: number): boolean {
  const admission = desk.settings.admission as NonNullable<typeof desk.settings.admission>;
  const { engines, slotOf } = state;
  fillRequest(desk, state, context, slot);
  desk.context = context;
  const view = { nowNs: context.now, inFlight: slotOf.size - 1, waiting: waitingRequests(state), engines };
  const asked = `whether to admit request ${desk.request.request}`;
  const watch = isWatched(admission, desk.request.request) ? new ViewWatch({ view, request: desk.request }) : undefined;
  let answer: unknown;
  try {
    answer = admission.policy.admit(view, desk.request, admission.parameters, state.admission, desk.random.admission);
  } catch (thrown) {
    throw policyFailure(admission, asked, thrownFault(thrown), thrown);
  }
  const written = watch?.written();
  if (written !== undefined) throw policyFailure(admission, asked, written);
  if (typeof answer !== 'boolean') throw policyFailure(admission, asked, `returned ${String(answer)}; return true or false`);
  if (isRecorded(desk.settings, desk.request.request)) recordAdmission(context, view, desk.request.request, answer, admission.policy.name);
  return answer;
}
