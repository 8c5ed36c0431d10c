import { outcome, settled } from '@braess/protocol';
import { noteLoadChange, release } from './account.js';
import { decodeQueueOf } from './decode-queues.js';
import { watchOracle } from './oracle-watch.js';
import { recordedOutcome, requestEnded, requestHits, requestPlace, requestTimes, requestTransfer } from './request-records.js';
import { allCharges, freeSlot, slotStage } from './slots.js';
import type { FrontendContext, FrontendDesk, FrontendState } from './state.js';
import { removeWaiting } from './waiting-queue.js';

/** Ends a request: account, counters, records, the client's answer, and the slot is free. `ended` is a value of the protocol's `outcome`. */
export function settle(
  desk: FrontendDesk,
  state: FrontendState,
  context: FrontendContext,
  slot: number,
  ended: number,
  reason: number,
  lastTokenNs = -1,
  maxGapNs = -1,
): void {
  const { slots } = state;
  const request = slots.request[slot]!;
  release(desk, state, slot, allCharges);
  if (slots.heapPlace[slot]! >= 0)
    removeWaiting(
      slots.stage[slot] === slotStage.waitingDecode ? decodeQueueOf(desk, state, slot) : state.firstQueue,
      slots.heapPlace,
      slot,
    );
  if (slots.deadlineTimer[slot]! >= 0) context.cancelTimer(slots.deadlineTimer[slot]!);
  count(state, ended);
  emitRequest(state, context, slot, recorded(ended), reason, lastTokenNs, maxGapNs);
  if (desk.settings.answerClients) answer(desk, state, context, slot, ended, lastTokenNs);
  state.slotOf.delete(request);
  freeSlot(slots, slot);
  watchOracle(desk, state, context);
  noteLoadChange(desk, state, context);
}

function answer(
  desk: FrontendDesk,
  state: FrontendState,
  context: FrontendContext,
  slot: number,
  ended: number,
  lastTokenNs: number,
): void {
  const { slots } = state;
  context.send(
    slots.client[slot]!,
    settled,
    desk.settings.clientDelayNs,
    slots.request[slot]!,
    ended,
    slots.firstTokenNs[slot]!,
    lastTokenNs,
    slots.generatedTokens[slot]!,
  );
}

function count(state: FrontendState, ended: number): void {
  const { counters } = state;
  if (ended === outcome.completed) counters.completed++;
  else if (ended === outcome.rejected) counters.rejected++;
  else if (ended === outcome.failed) counters.failed++;
  else if (ended === outcome.cancelled) counters.cancelled++;
  else counters.timedOut++;
}

/** The run folder knows completed, rejected and failed; cancelled and timed out are reasons to fail. */
function recorded(ended: number): number {
  if (ended === outcome.completed) return recordedOutcome.completed;
  return ended === outcome.rejected ? recordedOutcome.rejected : recordedOutcome.failed;
}

function emitRequest(
  state: FrontendState,
  context: FrontendContext,
  slot: number,
  ended: number,
  reason: number,
  lastTokenNs: number,
  maxGapNs: number,
): void {
  const { slots, engines } = state;
  const { hitTokens } = slots;
  const request = slots.request[slot]!;
  const hits = 4 * slot;
  if (hitTokens[hits]! + hitTokens[hits + 1]! + hitTokens[hits + 2]! + hitTokens[hits + 3]! > 0)
    context.emit(requestHits, request, hitTokens[hits]!, hitTokens[hits + 1]!, hitTokens[hits + 2]!, hitTokens[hits + 3]!);
  if (slots.transferStartNs[slot]! >= 0)
    context.emit(
      requestTransfer,
      request,
      slots.transferStartNs[slot]!,
      slots.transferEndNs[slot]!,
      slots.transferBytes[slot]!,
      slots.networkTier[slot]!,
    );
  context.emit(
    requestTimes,
    slots.arrivalNs[slot]!,
    slots.queuedNs[slot]!,
    slots.prefillStartNs[slot]!,
    slots.prefillEndNs[slot]!,
    slots.firstTokenNs[slot]!,
    lastTokenNs,
  );
  const prefillEngine = slots.prefillEngine[slot]!;
  const aggregated = prefillEngine >= 0 && slots.stage[slot] === slotStage.aggregated;
  const decodeEngine = aggregated ? prefillEngine : slots.decodeEngine[slot]!;
  context.emit(
    requestPlace,
    prefillEngine < 0 ? -1 : engines.actors[prefillEngine]!,
    decodeEngine < 0 ? -1 : engines.actors[decodeEngine]!,
    slots.inputTokens[slot]!,
    slots.generatedTokens[slot]!,
    maxGapNs,
    slots.preemptions[slot]!,
  );
  context.emit(requestEnded, request, slots.tenant[slot]!, ended, reason, slots.attempts[slot]!);
}
