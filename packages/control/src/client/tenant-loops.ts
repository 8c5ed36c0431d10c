import { outcome } from '@braess/protocol';
import { z } from 'zod';
import { type ClientActions, type ClientView, defineClientPolicy } from '../policy/plug-policies.js';

const loop = z.strictObject({
  inFlight: z.int().min(0).describe('Requests of the tenant at a time'),
  pauseMs: z.number().min(0).default(0).describe('Pause between the end of a request and the next one'),
  backoffMs: z.number().min(0).default(1000).describe('Pause after a request that did not complete'),
  /** `random`: uniform between 0 and twice the pause. */
  timing: z.enum(['fixed', 'random']).default('random'),
});

type Loop = z.output<typeof loop>;

interface State {
  /** Next row to look at, by tenant. */
  next: number[];
}

/** Tenants as players that differ in what they keep in flight, and in when they send. */
export const tenantLoops = defineClientPolicy({
  name: 'tenant-loops',
  description: 'A closed loop for each tenant over its own requests, with its own number in flight and pause.',
  parameters: z.strictObject({
    loops: z.array(loop).min(1).describe("By the tenant's number; the last one stands for all further tenants"),
  }),
  createState: (): State => ({ next: [] }),
  start(view, actions, { loops }, state, random) {
    for (const tenant of tenantsOf(view)) {
      state.next[tenant] = 0;
      for (let place = 0; place < loopOf(loops, tenant).inFlight; place++) sendNext(view, actions, loops, state, tenant, random);
    }
  },
  settled(view, request, ended, actions, { loops }, state, random) {
    sendNext(view, actions, loops, state, view.tenant[request]!, random, ended !== outcome.completed);
  },
});

function tenantsOf(view: ClientView): number[] {
  let most = 0;
  for (let request = 0; request < view.requests; request++) most = Math.max(most, view.tenant[request]!);
  return Array.from({ length: most + 1 }, (_, tenant) => tenant);
}

const loopOf = (loops: readonly Loop[], tenant: number): Loop => loops[Math.min(tenant, loops.length - 1)]!;

function sendNext(
  view: ClientView,
  actions: ClientActions,
  loops: readonly Loop[],
  state: State,
  tenant: number,
  random: () => number,
  failed = false,
): void {
  let row = state.next[tenant]!;
  while (row < view.requests && view.tenant[row] !== tenant) row++;
  state.next[tenant] = row + 1;
  if (row >= view.requests) return;
  const { pauseMs, backoffMs, timing } = loopOf(loops, tenant);
  if (failed) actions.submit(row, Math.round(backoffMs * 1e6));
  else actions.submit(row, Math.round(pauseMs * 1e6 * (timing === 'fixed' ? 1 : 2 * random())));
}
