import type { RowType } from '@braess/kernel';
import { OUTCOME, outcome, REASON, settled } from '@braess/protocol';
import { noteLoadChange, release } from './account.js';
import { decodeQueueOf } from './decode-queues.js';
import { watchOracle } from './oracle-watch.js';
import { removeRequest } from './request-index.js';
import { requestEnded, requestInFlight } from './request-records.js';
import { allCharges, freeSlot, slotStage, slotsInFlight } from './slots.js';
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
  emitRequest(requestEnded, state, context, slot, recorded(ended), reason, lastTokenNs, maxGapNs);
  if (desk.settings.answerClients) answer(desk, state, context, slot, ended, lastTokenNs);
  removeRequest(state.slotOf, request);
  freeSlot(slots, slot);
  if (state.endTimer >= 0 && state.slotOf.size === 0) {
    // A paced run need not wait for it.
    context.cancelTimer(state.endTimer);
    state.endTimer = -1;
  }
  watchOracle(desk, state, context);
  noteLoadChange(desk, state, context);
}

/** What is known of the requests in flight, where the run is cut. */
export function recordInFlight(state: FrontendState, context: FrontendContext): void {
  state.endTimer = -1;
  for (const slot of slotsInFlight(state.slots)) emitRequest(requestInFlight, state, context, slot, OUTCOME.inFlight, REASON.none, -1, -1);
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
  if (ended === outcome.completed) return OUTCOME.completed;
  return ended === outcome.rejected ? OUTCOME.rejected : OUTCOME.failed;
}

/** Reused; never state. Its places are the columns of `requestEnded` and `requestInFlight`. */
const row = new Float64Array(requestEnded.fields.length);

function emitRequest(
  type: RowType,
  state: FrontendState,
  context: FrontendContext,
  slot: number,
  ended: number,
  reason: number,
  lastTokenNs: number,
  maxGapNs: number,
): void {
  const { slots, engines } = state;
  const hits = 4 * slot;
  const prefillEngine = slots.prefillEngine[slot]!;
  const aggregated = prefillEngine >= 0 && slots.stage[slot] === slotStage.aggregated;
  const decodeEngine = aggregated ? prefillEngine : slots.decodeEngine[slot]!;
  const moved = slots.transferStartNs[slot]! >= 0;
  row[0] = slots.request[slot]!;
  row[1] = slots.tenant[slot]!;
  row[2] = ended;
  row[3] = reason;
  row[4] = slots.attempts[slot]!;
  row[5] = slots.preemptions[slot]!;
  row[6] = moved ? slots.networkTier[slot]! : -1;
  row[7] = prefillEngine < 0 ? -1 : engines.actors[prefillEngine]!;
  row[8] = decodeEngine < 0 ? -1 : engines.actors[decodeEngine]!;
  row[9] = slots.inputTokens[slot]!;
  row[10] = slots.generatedTokens[slot]!;
  row[11] = slots.hitTokens[hits]!;
  row[12] = slots.hitTokens[hits + 1]!;
  row[13] = slots.hitTokens[hits + 2]!;
  row[14] = slots.hitTokens[hits + 3]!;
  row[15] = moved ? slots.transferBytes[slot]! : 0;
  row[16] = slots.arrivalNs[slot]!;
  row[17] = slots.queuedNs[slot]!;
  row[18] = slots.prefillStartNs[slot]!;
  row[19] = slots.prefillEndNs[slot]!;
  row[20] = slots.transferStartNs[slot]!;
  row[21] = moved ? slots.transferEndNs[slot]! : -1;
  row[22] = slots.firstTokenNs[slot]!;
  row[23] = lastTokenNs;
  row[24] = maxGapNs;
  row[25] = slots.tierFetchNs[slot]!;
  row[26] = slots.tierFetchBytes[slot]!;
  context.emitRow(type, row);
}
