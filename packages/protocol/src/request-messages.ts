import { body, message } from '@braess/kernel';

/**
 * The life of a request, disaggregated:
 *
 *   client --submit--> frontend --prefill--> prefill engine --prefilled--> frontend --decode--> decode engine
 *   decode engine --startTransfer--> fabric --transferEnded--> decode engine --releaseKv--> prefill engine
 *   decode engine --firstToken, finished--> frontend --settled--> client
 *
 * Where KV is sent layer by layer the decode engine is chosen while the prompt is computed, and told of its end:
 *
 *   prefill engine --prefillBegun--> frontend --decode--> decode engine ... --prefilled--> frontend --kvComplete--> decode engine
 *
 * Aggregated serving is the same without the middle: frontend --prefill--> engine --answerBegun, finished--> frontend.
 * A request is named by its number in the run's workload, to engines by its `dispatchNumber`; times are simulated ns; -1 stands for "does not apply".
 */

const requests = 2 ** 32;
const recalls = 2 ** 20;

/**
 * What engines know a request by: its number, and above it how many dispatches its frontend had called off before (modulo 2^20). A request that is called off and
 * sent again is thus another one to its engine, and late word of the first says nothing of the second.
 */
export function dispatchNumber(request: number, recalled: number): number {
  return (recalled % recalls) * requests + request;
}

/** The number of the request in the run's workload. */
export function requestOfDispatch(dispatch: number): number {
  return dispatch % requests;
}

/**
 * What identifies a prompt's KV blocks: identities of its full blocks at the engines' block size, chained; undefined when nothing is shared. Where the
 * session goes on, those of the blocks follow that the answer fills and the next prompt begins with.
 */
export type PromptBlocks = Float64Array | undefined;

/** client -> frontend. `deadlineNs` is when the client gives up, -1 for never. */
export const submit = message(
  'submit',
  ['request', 'inputTokens', 'outputTokens', 'tenant', 'priority', 'deadlineNs'],
  body<PromptBlocks>(),
);

/** client -> frontend -> engine: the client gave up. */
export const cancel = message('cancel', ['request']);

/** frontend -> engine: compute the prompt, and where `decodeHere` is 1 generate the answer too. Its sender gets the reports. */
export const prefill = message('prefill', ['request', 'inputTokens', 'outputTokens', 'priority', 'decodeHere'], body<PromptBlocks>());

/** prefill engine -> frontend: the prompt's KV is complete and held. `hitTokens` were found in any tier, `computedTokens` computed. */
export const prefilled = message('prefilled', ['request', 'startNs', 'endNs', 'hitTokens', 'computedTokens']);

/**
 * engine that answers whole requests -> frontend: the prompt is computed and its first token left the engine, both at `atNs`. `prefilled` and
 * `firstToken` in one, since nothing lies between them.
 */
export const answerBegun = message('answerBegun', ['request', 'startNs', 'atNs', 'hitTokens', 'computedTokens']);

/**
 * engine -> frontend, just before `prefilled` or `answerBegun`, only where blocks of lower tiers were fetched: the part of its hit tokens from G2, G3, G4, the
 * time from the request for them to the arrival of the last (it begins with `startNs`), and the bytes that came. Of a fetch that failed the tokens are 0.
 */
export const tierHits = message('tierHits', ['request', 'hitTokensG2', 'hitTokensG3', 'hitTokensG4', 'fetchNs', 'fetchBytes']);

/** prefill engine -> frontend, only where KV is sent layer by layer: the first layer of the prompt is computed. */
export const prefillBegun = message('prefillBegun', ['request']);

/**
 * frontend -> decode engine: reserve blocks, fetch the KV from `prefillEngine`, decode. The first token is token 1 of `outputTokens`. `incomplete` is 1 while
 * the prompt is still computed: all layers but the last may be fetched, that one after `kvComplete`.
 */
export const decode = message(
  'decode',
  ['request', 'inputTokens', 'outputTokens', 'prefillEngine', 'priority', 'incomplete'],
  body<PromptBlocks>(),
);

/** frontend -> decode engine, after a `decode` that was incomplete: the prompt is computed. */
export const kvComplete = message('kvComplete', ['request']);

/** frontend -> decode engine: the prefill engine died. A request whose KV has not arrived by then fails there. */
export const kvLost = message('kvLost', ['request']);

/** decode engine -> prefill engine: the transfer has ended (or is not needed), the held blocks may go. */
export const releaseKv = message('releaseKv', ['request']);

/** decode engine -> frontend, only where the frontend counts transfers: the KV of the request has arrived. */
export const kvArrived = message('kvArrived', ['request']);

/** decode engine -> frontend: the client's first token left the engine at `atNs`. `transferStartNs` and `transferEndNs` are -1 without a transfer. */
export const firstToken = message('firstToken', ['request', 'atNs', 'transferStartNs', 'transferEndNs', 'transferBytes', 'networkTier']);

/** engine -> frontend, only where a client streams, after a pass: each of these requests has one more token. -1 stands for no request. */
export const tokens = message('tokens', ['first', 'second', 'third', 'fourth', 'fifth', 'sixth']);

/** How a request ended. `transferLost` is what an engine tells its frontend of an attempt whose KV could not come; a client hears `failed`. */
export const outcome = { completed: 0, rejected: 1, failed: 2, cancelled: 3, timedOut: 4, transferLost: 5 } as const;

/**
 * engine -> frontend: the request is over at this engine; `outcome` is a value of `outcome`. `lastTokenNs` is -1 unless it completed, `maxGapNs` the
 * longest gap between two of its tokens (within 1 ns), `preemptions` how often it was preempted.
 */
export const finished = message('finished', ['request', 'outcome', 'lastTokenNs', 'outputTokens', 'maxGapNs', 'preemptions']);

/** engine -> frontend: not accepted; `reason` is the engine's refusal code. The frontend may try another. */
export const refused = message('refused', ['request', 'reason', 'stage']);

/** frontend -> client: the request is over. Not sent where clients only send (open loop). */
export const settled = message('settled', ['request', 'outcome', 'firstTokenNs', 'lastTokenNs', 'outputTokens']);

/** controller -> client: send new requests to this frontend (an actor id); -1 goes back to the client's own choice. */
export const moveClient = message('moveClient', ['frontend']);
