import { z } from 'zod';
import { defineAdmissionPolicy } from '../policy/control-policies.js';

export const admitAll = defineAdmissionPolicy({
  name: 'admit-all',
  description: 'Every request may enter.',
  parameters: z.strictObject({}),
  admit: () => true,
});

export const admitBelowLimit = defineAdmissionPolicy({
  name: 'in-flight-limit',
  description: 'Rejects a request while this frontend has as many in flight as its limits allow.',
  parameters: z.strictObject({
    /** Requests in flight at this frontend at most. */
    maxInFlight: z.int().positive(),
    /** Requests waiting at this frontend at most. */
    maxWaiting: z.int().nonnegative().optional(),
  }),
  admit(view, _request, { maxInFlight, maxWaiting }) {
    return view.inFlight < maxInFlight && view.waiting < (maxWaiting ?? Number.POSITIVE_INFINITY);
  },
});
