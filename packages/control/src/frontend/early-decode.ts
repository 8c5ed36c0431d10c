import { cancel, kvComplete } from '@braess/protocol';
import { release } from './account.js';
import { slotOfRequest } from './request-index.js';
import { charge, slotStage } from './slots.js';
import type { FrontendContext, FrontendDesk, FrontendState } from './state.js';

/** The slot of a request that engines know by this number now, else -1. */
export function slotOfDispatch({ slots, slotOf }: FrontendState, dispatch: number): number {
  const slot = slotOfRequest(slotOf, dispatch);
  return slot >= 0 && slots.dispatch[slot] === dispatch ? slot : -1;
}

/** The slot of a request whose prompt is still computed and whose decode engine is the sender, else -1. */
export function earlySlot(state: FrontendState, dispatch: number, sender: number): number {
  const { slots, engines } = state;
  const slot = slotOfDispatch(state, dispatch);
  if (slot < 0 || slots.stage[slot] !== slotStage.prefill || slots.early[slot] === 0) return -1;
  return engines.actors[slots.decodeEngine[slot]!] === sender ? slot : -1;
}

/** The prompt is computed: its decode engine may have the last layer. False where none was asked early. */
export function completeEarly(desk: FrontendDesk, state: FrontendState, context: FrontendContext, slot: number): boolean {
  const { slots, engines } = state;
  if (slots.early[slot] === 0) return false;
  slots.early[slot] = 0;
  slots.stage[slot] = slotStage.decode;
  context.send(engines.actors[slots.decodeEngine[slot]!]!, kvComplete, desk.settings.engineDelayNs, slots.dispatch[slot]!);
  return true;
}

/** Forgets the decode engine that was asked early, which refused, died, lost the KV, or (`tell`) is told that it is not needed. */
export function dropEarly(desk: FrontendDesk, state: FrontendState, context: FrontendContext, slot: number, tell: boolean): void {
  const { slots, engines } = state;
  if (slots.early[slot] === 0) return;
  release(desk, state, slot, charge.decodeEngine | charge.transfer | charge.placement);
  if (tell) {
    state.recalled++;
    context.send(engines.actors[slots.decodeEngine[slot]!]!, cancel, desk.settings.engineDelayNs, slots.dispatch[slot]!);
  }
  slots.early[slot] = 0;
  slots.decodeEngine[slot] = -1;
}
