import type { ActorId, Context } from '@braess/kernel';
import { fetch, lookup, requestOfDispatch } from '@braess/protocol';
import { createPassShape, mixedPassNs } from '../timing.js';
import type { EngineActorState } from './engine-actor-state.js';
import type { EngineTiers } from './engine-options.js';
import type { EngineScope } from './engine-scope.js';

/** What the tiers hold of a prompt behind its blocks in HBM. Tier i holds the `held[i]` blocks that follow those of the tiers before it. */
export interface OnboardChoice {
  readonly fromBlock: number;
  readonly held: readonly number[];
  /** Time a fetch of all blocks of a tier would take, as the tier estimates it; the tiers work side by side. */
  readonly estimateNs: readonly number[];
  readonly promptTokens: number;
  readonly blockTokens: number;
}

/** How many of the blocks to bring up, from the front; `prefillNs(start, end)` is the time to compute tokens start..end-1. */
export type OnboardPlanner = (choice: OnboardChoice, prefillNs: (startToken: number, endToken: number) => number) => number;

/** A prompt whose blocks are looked up in the tiers, and until they are in HBM. */
export interface Inquiry {
  request: number;
  frontend: number;
  inputTokens: number;
  outputTokens: number;
  priority: number;
  kind: number;
  chain: Float64Array;
  arrivalNs: number;
  fromBlock: number;
  /** Tiers that have answered. */
  answered: number;
  held: number[];
  estimateNs: number[];
  /** Blocks to bring up, and fetches that have not ended. */
  take: number;
  fetching: number;
  /** When they were asked for, -1 before. */
  fetchStartNs: number;
  /** A fetch brought nothing. */
  lost: boolean;
  /** Slot once submitted, -1 before. */
  slot: number;
}

/** Cuts the plan at the end of a tier's share: the cut after which transfer and prefill of the rest take least. */
export const leastTimePlan: OnboardPlanner = (choice, prefillNs) => {
  let blocks = 0;
  let best = 0;
  let transferNs = 0;
  let leastNs = prefillNs(choice.fromBlock * choice.blockTokens, choice.promptTokens);
  for (let tier = 0; tier < choice.held.length; tier++) {
    if (choice.held[tier] === 0) continue;
    blocks += choice.held[tier]!;
    transferNs = Math.max(transferNs, choice.estimateNs[tier]!);
    const ns = transferNs + prefillNs((choice.fromBlock + blocks) * choice.blockTokens, choice.promptTokens);
    if (ns >= leastNs) continue;
    leastNs = ns;
    best = blocks;
  }
  return best;
};

/** Blocks of a prompt that may be found: the last token is always computed. */
export function findableBlocks(chain: Float64Array, inputTokens: number, blockTokens: number): number {
  return Math.min(chain.length, Math.floor((inputTokens - 1) / blockTokens));
}

function heldInTiers(inquiry: Inquiry): number {
  let blocks = 0;
  for (const held of inquiry.held) blocks += held;
  return blocks;
}

/** Asks the next tier for what is missing behind the blocks found so far; false when there is nothing more to ask. */
export function askNextTier<Pool>(
  scope: EngineScope<Pool>,
  state: EngineActorState<Pool>,
  context: Context,
  question: number,
  inquiry: Inquiry,
): boolean {
  const from = inquiry.fromBlock + heldInTiers(inquiry);
  const limit = findableBlocks(inquiry.chain, inquiry.inputTokens, scope.options.rules.blockTokens);
  const tier = inquiry.answered;
  if (from >= limit || tier >= state.tiers.length) return false;
  const chain = inquiry.chain.slice(0, limit);
  context.sendBody(state.tiers[tier] as ActorId, lookup, tierDelayNs(scope, state, tier), { chain }, question, from);
  return true;
}

/** Decides how many blocks to bring up and lets go of the tiers that are not needed. */
export function planInquiry<Pool>(
  scope: EngineScope<Pool>,
  state: EngineActorState<Pool>,
  context: Context,
  question: number,
  inquiry: Inquiry,
): void {
  const { timing, rules, speedFactor } = state.engine;
  const plan = scope.options.tiers?.plan ?? leastTimePlan;
  const choice: OnboardChoice = {
    fromBlock: inquiry.fromBlock,
    held: inquiry.held,
    estimateNs: inquiry.estimateNs,
    promptTokens: inquiry.inputTokens,
    blockTokens: rules.blockTokens,
  };
  const held = heldInTiers(inquiry);
  const { maxChunkTokens = rules.maxBatchedTokens } = rules;
  const take = held === 0 ? 0 : plan(choice, (start, end) => prefillNs(timing, maxChunkTokens, speedFactor, start, end));
  if (!(Number.isInteger(take) && take >= 0 && take <= held))
    throw new Error(
      `onboard plan for request ${requestOfDispatch(inquiry.request)}: ${take} blocks of ${held} held; must be a whole number up to that`,
    );
  inquiry.take = take;
  let before = 0;
  for (let tier = 0; tier < inquiry.held.length; tier++) {
    const share = inquiry.held[tier]!;
    if (before >= take) unpin(scope, state, context, question, inquiry, tier);
    before += share;
  }
}

/** Fetches what is to be brought up once `creditBlocks` were found in HBM at admission; the number of fetches sent. */
export function fetchBlocks<Pool>(
  scope: EngineScope<Pool>,
  state: EngineActorState<Pool>,
  context: Context,
  question: number,
  inquiry: Inquiry,
  creditBlocks: number,
): number {
  const end = inquiry.fromBlock + inquiry.take;
  const blockBytes = scope.options.rules.blockTokens * scope.options.kvBytesPerToken;
  // Blocks evicted from HBM since the look-up leave a gap, behind which nothing is of use.
  const begin = creditBlocks < inquiry.fromBlock ? end : creditBlocks;
  let first = inquiry.fromBlock;
  for (let tier = 0; tier < inquiry.held.length; tier++) {
    const last = Math.min(end, first + inquiry.held[tier]!);
    const blocks = last - Math.max(first, begin);
    first += inquiry.held[tier]!;
    if (inquiry.held[tier] === 0) continue;
    if (blocks <= 0) {
      unpin(scope, state, context, question, inquiry, tier);
      continue;
    }
    context.send(state.tiers[tier] as ActorId, fetch, tierDelayNs(scope, state, tier), question, blocks, blocks * blockBytes);
    state.columns.tierTokens[(scope.options.tiers as EngineTiers).levels[tier]! - 2]![inquiry.slot] =
      blocks * scope.options.rules.blockTokens;
    inquiry.held[tier] = 0;
    inquiry.fetching++;
    inquiry.fetchStartNs = context.now;
  }
  return inquiry.fetching;
}

/** Gives up an inquiry: the tiers unpin what they hold for it. */
export function dropInquiry<Pool>(scope: EngineScope<Pool>, state: EngineActorState<Pool>, context: Context, question: number): void {
  const inquiry = state.inquiries.get(question);
  if (inquiry === undefined) return;
  for (let tier = 0; tier < inquiry.held.length; tier++) unpin(scope, state, context, question, inquiry, tier);
  state.inquiries.delete(question);
}

/** Lets go of what a tier holds for a question. */
function unpin<Pool>(
  scope: EngineScope<Pool>,
  state: EngineActorState<Pool>,
  context: Context,
  question: number,
  inquiry: Inquiry,
  tier: number,
): void {
  if (inquiry.held[tier] === 0) return;
  inquiry.held[tier] = 0;
  context.send(state.tiers[tier] as ActorId, fetch, tierDelayNs(scope, state, tier), question, 0, 0);
}

function tierDelayNs<Pool>(scope: EngineScope<Pool>, state: EngineActorState<Pool>, tier: number): number {
  const tiers = scope.options.tiers;
  if (tiers === undefined) throw new Error('engine: it has tier actors but its kind has no tiers option; give one');
  return tiers.lastIsRemote && tier === state.tiers.length - 1 ? tiers.remoteDelayNs : tiers.localDelayNs;
}

/** Reused; never state. */
const shape = createPassShape();

/** Time to compute tokens start..end-1 of a prompt alone, in chunks of so many. */
function prefillNs(
  timing: Parameters<typeof mixedPassNs>[0],
  chunkTokens: number,
  speedFactor: number,
  start: number,
  end: number,
): number {
  let sumNs = 0;
  for (let before = start; before < end; ) {
    const tokens = Math.min(chunkTokens, end - before);
    shape.prefillSequences = 1;
    shape.prefillTokens = tokens;
    shape.prefillPairs = tokens * (before + (tokens + 1) / 2);
    shape.prefillContextTokens = before + tokens;
    before += tokens;
    shape.prefillSampled = before === end ? 1 : 0;
    sumNs += mixedPassNs(timing, shape, speedFactor);
  }
  return sumNs;
}
