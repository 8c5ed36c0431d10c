import { record } from '@braess/kernel';
import { kvMoveBytes, oracleWatch } from '@braess/protocol';
import { askOfSite } from '../oracle/ask-oracle.js';
import { siteOf } from '../oracle/site.js';
import type { OraclePolicy } from '../policy/control-policies.js';
import { type BoundPolicy, policyState } from '../policy/policy.js';
import type { FrontendSettings } from './options.js';
import type { FrontendContext, FrontendDesk, FrontendState } from './state.js';

/** A frontend has done without its oracle for so long since the last such record. */
export const oracleFallback = record('oracleFallback', ['fallbackNs']);

/** What one frontend has of the oracle. Plain data. */
export interface OracleSeen {
  /** As last published; null: nothing yet. */
  knowledge: unknown;
  madeAtNs: number;
  /** Since when requests are in flight, -1 for none; before, an oracle need not speak. */
  busySinceNs: number;
  /** Moving average of |ln(transfer time / predicted)|. */
  error: number;
  accruedAtNs: number;
  fallbackNs: number;
}

/** When an oracle counts as ill. */
export interface OracleHealth {
  /** Age of what it said, ns. */
  readonly timeoutNs: number;
  /** Mean ratio of transfer times to predicted ones, either way. */
  readonly worstRatio: number;
  /** Weight of the newest transfer in that mean. */
  readonly errorWeight: number;
  /** What decides while it is ill: least load, or the policy as ever by the inventory alone (distance, nominal bandwidth and latency). */
  readonly fallback: 'least-load' | 'static-tiers';
}

export const anyHealth: OracleHealth = {
  timeoutNs: Number.POSITIVE_INFINITY,
  worstRatio: Number.POSITIVE_INFINITY,
  errorWeight: 0.1,
  fallback: 'least-load',
};

/** Whether a policy learns from telemetry, so that an oracle actor runs it; else it is a pure function of the inventory. */
export function oracleListens(policy: OraclePolicy): boolean {
  return policy.observe !== undefined || policy.beat !== undefined;
}

/** What is there to answer from before the oracle has spoken: what it publishes when it knows nothing. */
export function createOracleSeen(settings: FrontendSettings, engines: number): OracleSeen {
  const { oracle } = settings;
  const knowledge = oracle === undefined ? null : firstKnowledge(oracle, settings, engines);
  return { knowledge, madeAtNs: 0, busySinceNs: -1, error: 0, accruedAtNs: 0, fallbackNs: 0 };
}

function firstKnowledge(oracle: BoundPolicy<OraclePolicy>, settings: FrontendSettings, engines: number): unknown {
  const { policy, parameters } = oracle;
  const state = policyState(oracle, engines);
  if (policy.publish === undefined) return state;
  const made = askOfSite(oracle, 'what to publish when it knows nothing', 0, siteOf(settings.site, engines), (site) =>
    policy.publish?.({ nowNs: 0, engines, site, paths: false }, parameters, state, () => 0.5),
  );
  return made?.knowledge ?? null;
}

/** Requests are in flight again, or none any more: the oracle is told, and time without it counts in between. */
export function watchOracle(desk: FrontendDesk, state: FrontendState, context: FrontendContext): void {
  const { oracleActor, engineDelayNs } = desk.settings;
  const seen = state.oracle;
  const busy = state.slotOf.size > 0;
  if (oracleActor.length === 0 || busy === seen.busySinceNs >= 0) return;
  accrueFallback(desk, state, context);
  seen.busySinceNs = busy ? context.now : -1;
  seen.accruedAtNs = context.now;
  for (const { id } of oracleActor) context.send(id, oracleWatch, engineDelayNs, busy ? 1 : 0);
}

export function takeKnowledge(
  desk: FrontendDesk,
  state: FrontendState,
  context: FrontendContext,
  knowledge: unknown,
  madeAtNs: number,
): void {
  accrueFallback(desk, state, context);
  state.oracle.knowledge = knowledge;
  state.oracle.madeAtNs = madeAtNs;
}

/** A transfer has ended: how far off was the prediction it was chosen by? */
export function judgeOracle(desk: FrontendDesk, state: FrontendState, context: FrontendContext, slot: number): void {
  const { slots, oracle: seen } = state;
  const wayNs = slots.predictedWayNs[slot]!;
  // Said of the whole KV; blocks that the engine held did not move.
  const { kvBytesPerToken, fixedKv } = desk.settings;
  const moved = slots.transferBytes[slot]! / kvMoveBytes(slots.inputTokens[slot]!, kvBytesPerToken, fixedKv);
  const predictedNs = (slots.predictedNs[slot]! - wayNs) * moved + wayNs;
  const tookNs = slots.transferEndNs[slot]! - slots.transferStartNs[slot]!;
  if (!(predictedNs > 0 && tookNs > 0)) return;
  accrueFallback(desk, state, context);
  const { errorWeight } = desk.settings.oracleHealth;
  seen.error += errorWeight * (Math.abs(Math.log(tookNs / predictedNs)) - seen.error);
}

/** Whether decisions may go by the oracle now. */
export function oracleIsWell({ settings }: FrontendDesk, { oracle: seen }: FrontendState, nowNs: number): boolean {
  const { oracleActor, oracleHealth } = settings;
  return (oracleActor.length === 0 || nowNs <= wellUntilNs(settings, seen)) && seen.error <= Math.log(oracleHealth.worstRatio);
}

function wellUntilNs({ oracleHealth }: FrontendSettings, seen: OracleSeen): number {
  return Math.max(seen.madeAtNs, seen.busySinceNs) + oracleHealth.timeoutNs;
}

/** Books the time without the oracle since it was last booked. */
function accrueFallback({ settings }: FrontendDesk, state: FrontendState, context: FrontendContext): void {
  const seen = state.oracle;
  if (seen.busySinceNs < 0) return;
  const wrong = seen.error > Math.log(settings.oracleHealth.worstRatio);
  const sinceNs = wrong ? seen.accruedAtNs : Math.max(seen.accruedAtNs, wellUntilNs(settings, seen));
  seen.accruedAtNs = context.now;
  if (!(context.now > sinceNs)) return;
  seen.fallbackNs += context.now - sinceNs;
  context.emit(oracleFallback, context.now - sinceNs);
}
