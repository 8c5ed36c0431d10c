import { engineRole } from '@braess/protocol';
import { z } from 'zod';
import { defineAdmissionPolicy } from '../policy/control-policies.js';
import type { EngineView } from '../policy/router-policy.js';

export const admitAll = defineAdmissionPolicy({
  name: 'admit-all',
  description: 'Every request may enter.',
  parameters: z.strictObject({}),
  admit: () => true,
});

/** Price of a prompt token by load, and what each tenant may spend. */
export const pricedAdmission = defineAdmissionPolicy({
  name: 'priced',
  description:
    'Prompt tokens cost more the more of them wait; each tenant earns a steady income, and a request that it cannot pay is rejected.',
  parameters: z.strictObject({
    /** Income of each tenant, tokens a second at price 1. */
    tokensPerSecond: z.number().positive(),
    /** What a tenant can save up, in seconds of income. */
    burstSeconds: z.number().positive().default(10),
    /** Prompt tokens under way at an engine, on average, up to which entry is free; at twice as many a token costs 1, at three times 2. */
    freeTokens: z.number().positive().default(8192),
  }),
  createState: () => ({ savings: new Map<number, number>(), sinceNs: new Map<number, number>() }),
  admit({ engines, nowNs }, { tenant, inputTokens }, { tokensPerSecond, burstSeconds, freeTokens }, state) {
    const most = tokensPerSecond * burstSeconds;
    const earned = (tokensPerSecond * (nowNs - (state.sinceNs.get(tenant) ?? 0))) / 1e9;
    const savings = Math.min(most, (state.savings.get(tenant) ?? most) + earned);
    const price = Math.max(0, loadOf(engines) / freeTokens - 1);
    const cost = price * inputTokens;
    const enters = cost <= savings;
    state.sinceNs.set(tenant, nowNs);
    state.savings.set(tenant, enters ? savings - cost : savings);
    return enters;
  },
});

/** Prompt tokens under way at an engine that computes prompts, on average. */
function loadOf({ count, role, activePrefillTokens }: EngineView): number {
  let tokens = 0;
  let computing = 0;
  for (let engine = 0; engine < count; engine++) {
    if (role[engine] === engineRole.decode) continue;
    computing++;
    tokens += activePrefillTokens[engine]!;
  }
  return computing === 0 ? 0 : tokens / computing;
}

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
