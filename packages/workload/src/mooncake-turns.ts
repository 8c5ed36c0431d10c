import { chainHash } from './block-identity.js';
import { rejectValue, type TracePlace } from './trace-error.js';
import { MAX_PROMPT_BLOCKS, tokenCount } from './trace-values.js';

/**
 * What a row of a session's later turn has: `whole` its prompt with all before, as in Dynamo's replay, or `added` what it adds, as AIPerf sends it: the prompt
 * and the answer before come before it.
 */
export type TurnPrompts = 'whole' | 'added';

/** The prompt of a session's latest turn and its answer; plain data. */
export interface TurnPromptState {
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Identities that the trace lists, the first `listedBlocks` of which the prompt fills. */
  readonly listed: readonly number[];
  readonly listedBlocks: number;
  /** Line of the row from which on the session's blocks are its own. */
  readonly ownSince: number;
}

/** Keeps the blocks of a session that nobody lists apart from others. */
const OWN_SALT = 2 ** 45;

/**
 * The prompt of a row of a session: its length and the identities of its blocks.
 *
 * @param before the turn that it goes on from; undefined where the row has its whole prompt.
 * @param listed the row's own hashes, of `ownTokens`. Of a row that goes on they say nothing: what stands before them differs from session to session, so
 * no two prompts share them.
 */
export function turnPrompt(
  before: TurnPromptState | undefined,
  ownTokens: number,
  outputTokens: number,
  listed: readonly number[] | null,
  blockTokens: number,
  place: TracePlace,
): { readonly inputTokens: number; readonly hashes: readonly number[]; readonly state: TurnPromptState } {
  if (before === undefined) {
    const state = {
      inputTokens: ownTokens,
      outputTokens,
      listed: listed ?? [],
      listedBlocks: listed === null ? 0 : Math.floor(ownTokens / blockTokens),
      ownSince: place.line,
    };
    return { inputTokens: ownTokens, hashes: listed ?? ownBlocks(state, ownTokens, blockTokens, place), state };
  }
  const sum = before.inputTokens + before.outputTokens + ownTokens;
  const inputTokens = tokenCount(sum, place, 'input_length with all turns before');
  return { inputTokens, hashes: ownBlocks(before, inputTokens, blockTokens, place), state: { ...before, inputTokens, outputTokens } };
}

/** Listed blocks as far as they were full, the session's own behind. One that a turn begins and a later one fills has one identity: what it begins with stays. */
function ownBlocks(
  { listed, listedBlocks, ownSince }: TurnPromptState,
  inputTokens: number,
  blockTokens: number,
  place: TracePlace,
): readonly number[] {
  const blocks = Math.ceil(inputTokens / blockTokens);
  if (blocks > MAX_PROMPT_BLOCKS)
    rejectValue(
      place,
      'input_length',
      inputTokens,
      `at most ${MAX_PROMPT_BLOCKS * blockTokens}: ${MAX_PROMPT_BLOCKS} blocks of ${blockTokens}`,
    );
  const hashes = listed.slice(0, Math.min(blocks, listedBlocks));
  while (hashes.length < blocks) hashes.push(chainHash(OWN_SALT + ownSince, hashes.length));
  return hashes;
}
