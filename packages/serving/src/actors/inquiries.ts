import type { ActorId, Context } from '@braess/kernel';
import { finished, outcome } from '@braess/protocol';
import { settleEngine } from '../engine.js';
import type { EngineActorState } from './engine-actor-state.js';
import { submitRequest } from './engine-requests.js';
import type { EngineScope } from './engine-scope.js';
import { askNextTier, dropInquiry, findableBlocks, type Inquiry, planInquiry } from './onboarding.js';

/** Looks a prompt up in the tiers before it is submitted; false when HBM holds all that can be found. */
export function startInquiry<Pool>(
  scope: EngineScope<Pool>,
  state: EngineActorState<Pool>,
  context: Context,
  request: number,
  frontend: number,
  kind: number,
  inputTokens: number,
  outputTokens: number,
  priority: number,
  chain: Float64Array,
): boolean {
  const { blocks, rules } = scope.options;
  settleEngine(state.engine, blocks, context.now);
  const fromBlock = blocks.match?.(state.engine.pool, chain) ?? 0;
  if (!(fromBlock < findableBlocks(chain, inputTokens, rules.blockTokens))) return false;
  const question = state.inquiryCount++;
  const inquiry: Inquiry = {
    request,
    frontend,
    inputTokens,
    outputTokens,
    priority,
    kind,
    chain,
    arrivalNs: context.now,
    fromBlock,
    answered: 0,
    held: [],
    estimateNs: [],
    take: 0,
    fetching: 0,
    fetchStartNs: -1,
    lost: false,
    slot: -1,
  };
  state.inquiries.set(question, inquiry);
  state.slots.set(request, -1 - question);
  askNextTier(scope, state, context, question, inquiry);
  return true;
}

/** One tier has answered: the next is asked, or the request is submitted. */
export function takeAnswer<Pool>(
  scope: EngineScope<Pool>,
  state: EngineActorState<Pool>,
  context: Context,
  question: number,
  held: number,
  estimateNs: number,
): void {
  const inquiry = state.inquiries.get(question);
  if (inquiry === undefined) return;
  inquiry.answered++;
  inquiry.held.push(held);
  inquiry.estimateNs.push(estimateNs);
  if (state.slots.get(inquiry.request) !== -1 - question) {
    // Given up while the question was on its way.
    dropInquiry(scope, state, context, question);
    return;
  }
  if (askNextTier(scope, state, context, question, inquiry)) return;
  planInquiry(scope, state, context, question, inquiry);
  const { request, frontend, kind, inputTokens, outputTokens, priority, chain, arrivalNs } = inquiry;
  const awaitsKv = inquiry.take > 0;
  state.slots.delete(request);
  const slot = submitRequest(
    scope,
    state,
    context,
    request,
    frontend,
    kind,
    inputTokens,
    outputTokens,
    priority,
    -1,
    chain,
    arrivalNs,
    awaitsKv,
  );
  if (slot < 0 || !awaitsKv) {
    dropInquiry(scope, state, context, question);
    return;
  }
  inquiry.slot = slot;
  // The pool has it now, and two parts of a state may not share one.
  inquiry.chain = new Float64Array(0);
  state.columns.inquiry[slot] = question;
}

/** Cancels a request that is being looked up; what is pinned for it is let go when the answer under way comes. */
export function giveUpInquiry<Pool>(state: EngineActorState<Pool>, question: number): void {
  state.slots.delete((state.inquiries.get(question) as Inquiry).request);
}

/** The engine died: requests that are being looked up fail. */
export function failInquiries<Pool>(scope: EngineScope<Pool>, state: EngineActorState<Pool>, context: Context, extraNs: number): void {
  for (const [question, inquiry] of state.inquiries) {
    if (inquiry.slot >= 0 || state.slots.get(inquiry.request) !== -1 - question) continue;
    state.slots.delete(inquiry.request);
    context.send(
      inquiry.frontend as ActorId,
      finished,
      scope.options.controlDelayNs + extraNs,
      inquiry.request,
      outcome.failed,
      -1,
      0,
      0,
      0,
    );
  }
}
