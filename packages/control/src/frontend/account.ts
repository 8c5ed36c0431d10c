import { body, message } from '@braess/kernel';
import { engineRole } from '@braess/protocol';
import { networkTiers } from '../oracle/site.js';
import { armAssignments, noteAssignment } from './assignments.js';
import { charge, slotStage } from './slots.js';
import type { FrontendContext, FrontendDesk, FrontendState } from './state.js';

/** frontend -> itself: tell the other frontends now. */
export const syncDue = message('syncDue');
/** frontend -> frontend: what the sender has under way at each engine: requests, prefill tokens, blocks, one column after the other. */
export const replicaLoad = message('replicaLoad', ['engines'], body<Float64Array>());

/** Blocks of a prompt. */
function promptBlocks(desk: FrontendDesk, inputTokens: number): number {
  return Math.ceil(inputTokens / desk.settings.blockTokens);
}

export function chargePrefill(desk: FrontendDesk, state: FrontendState, slot: number, engine: number, overlapBlocks: number): void {
  const { slots, engines } = state;
  const inputTokens = slots.inputTokens[slot]!;
  const tokens = Math.max(0, inputTokens - overlapBlocks * desk.settings.blockTokens);
  slots.charges[slot] = charge.prefillTokens | charge.prefillEngine;
  slots.chargedTokens[slot] = tokens;
  engines.activePrefillTokens[engine]! += tokens;
  engines.activeRequests[engine]!++;
  engines.activeBlocks[engine]! += promptBlocks(desk, inputTokens);
  if (engines.role[engine] === engineRole.aggregated) noteWorker(desk, state, slot, engine, 1);
}

export function chargeDecode(desk: FrontendDesk, state: FrontendState, slot: number, engine: number): void {
  state.slots.charges[slot]! |= charge.decodeEngine;
  noteWorker(desk, state, slot, engine, 1);
  state.engines.activeRequests[engine]!++;
  state.engines.activeBlocks[engine]! += promptBlocks(desk, state.slots.inputTokens[slot]!);
}

/** Counts the KV transfer that a dispatch to a decode engine starts, until it ends in whatever way, and the request, until that ends. */
export function chargeTransfer(state: FrontendState, slot: number, tier: number): void {
  if (tier < 0) return;
  state.slots.charges[slot]! |= charge.transfer | charge.placement;
  state.slots.transferTier[slot] = tier;
  countOnTier(state, slot, state.tierTransfers, state.sourceTransfers, 1);
  countOnTier(state, slot, state.tierRequests, state.sourceRequests, 1);
}

function countOnTier(state: FrontendState, slot: number, all: Float64Array, bySource: Float64Array, by: number): void {
  const tier = state.slots.transferTier[slot]!;
  all[tier]! += by;
  bySource[networkTiers * state.slots.prefillEngine[slot]! + tier]! += by;
}

/** Takes back what of `which` is still charged for the request. */
export function release(desk: FrontendDesk, state: FrontendState, slot: number, which: number): void {
  const { slots, engines } = state;
  const due = slots.charges[slot]! & which;
  if (due === 0) return;
  slots.charges[slot]! &= ~due;
  if ((due & charge.transfer) !== 0) countOnTier(state, slot, state.tierTransfers, state.sourceTransfers, -1);
  if ((due & charge.placement) !== 0) countOnTier(state, slot, state.tierRequests, state.sourceRequests, -1);
  if ((due & charge.prefillTokens) !== 0) engines.activePrefillTokens[slots.prefillEngine[slot]!]! -= slots.chargedTokens[slot]!;
  if ((due & charge.prefillEngine) !== 0) {
    leave(desk, state, slot, slots.prefillEngine[slot]!);
    if (slots.stage[slot] === slotStage.aggregated) noteWorker(desk, state, slot, slots.prefillEngine[slot]!, -1);
  }
  if ((due & charge.decodeEngine) !== 0) {
    leave(desk, state, slot, slots.decodeEngine[slot]!);
    noteWorker(desk, state, slot, slots.decodeEngine[slot]!, -1);
  }
}

/** A request joins (1) or leaves (-1) the worker that generates its tokens. */
function noteWorker(desk: FrontendDesk, state: FrontendState, slot: number, engine: number, change: number): void {
  if (desk.settings.assignmentListener === undefined) return;
  noteAssignment(state.assigned, state.slots.request[slot]!, state.engines.actors[engine]!, change);
}

function leave(desk: FrontendDesk, state: FrontendState, slot: number, engine: number): void {
  state.engines.activeRequests[engine]!--;
  state.engines.activeBlocks[engine]! -= promptBlocks(desk, state.slots.inputTokens[slot]!);
}

/** After a change of the account: makes sure the other frontends, and who listens, hear of it within a period. Idle frontends send nothing. */
export function noteLoadChange(desk: FrontendDesk, state: FrontendState, context: FrontendContext): void {
  const { assignmentListener } = desk.settings;
  if (assignmentListener !== undefined) armAssignments(state.assigned, assignmentListener, context);
  const sync = desk.settings.replicaSync;
  if (sync === undefined || state.syncArmed || sync.frontends.length < 2) return;
  state.syncArmed = true;
  context.timer(syncDue, sync.periodNs);
}

export function sendReplicaLoad(desk: FrontendDesk, state: FrontendState, context: FrontendContext): void {
  const sync = desk.settings.replicaSync as NonNullable<typeof desk.settings.replicaSync>;
  state.syncArmed = false;
  for (const frontend of sync.frontends) {
    if (frontend.id !== context.self) context.sendBody(frontend.id, replicaLoad, sync.delayNs, ownLoad(state), state.engines.count);
  }
}

/** This frontend's own share: the columns less what the peers told. */
function ownLoad(state: FrontendState): Float64Array {
  const { count, activeRequests, activePrefillTokens, activeBlocks } = state.engines;
  const own = new Float64Array(3 * count);
  own.set(activeRequests, 0);
  own.set(activePrefillTokens, count);
  own.set(activeBlocks, 2 * count);
  for (const peer of state.peerLoads.values()) for (let at = 0; at < own.length; at++) own[at]! -= peer[at]!;
  return own;
}

export function takeReplicaLoad(state: FrontendState, sender: number, load: Float64Array): void {
  const { count, activeRequests, activePrefillTokens, activeBlocks } = state.engines;
  const before = state.peerLoads.get(sender);
  for (let engine = 0; engine < count; engine++) {
    activeRequests[engine]! += load[engine]! - (before?.[engine] ?? 0);
    activePrefillTokens[engine]! += load[count + engine]! - (before?.[count + engine] ?? 0);
    activeBlocks[engine]! += load[2 * count + engine]! - (before?.[2 * count + engine] ?? 0);
  }
  state.peerLoads.set(sender, load);
}
