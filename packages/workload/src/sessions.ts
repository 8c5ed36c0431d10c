import { type ArrivalSpec, type ArrivalState, checkArrivals, createArrivalState, nextArrivalNs } from './arrivals.js';
import { chainHash } from './block-identity.js';
import { exponentialQuantile } from './distributions.js';
import type { WorkloadStreams } from './generate.js';
import { checkLength, type LengthSpec, sampleLength } from './lengths.js';
import { chooseGroup, createPrefixGroups, type PrefixGroupSpec, type PrefixGroups } from './prefix-groups.js';
import type { RequestRow } from './requests.js';
import { chooseWeighted, createTenantChoice, type TenantSpec, type WeightedChoice } from './tenants.js';
import { popTurn, pushTurn, type TimedTurn } from './turn-heap.js';

/**
 * Multi-turn sessions: each turn's prompt is the previous prompt, its answer and a new text. Turns follow each other after an assumed
 * answering time plus an exponential thinking time, so the trace can be replayed open loop. The answer's tokens count into the next
 * prompt, and a turn shares all whole blocks of the prompt before.
 */
export interface SessionWorkloadSpec {
  kind: 'sessions';
  sessionArrivals: ArrivalSpec;
  /** Number of turns a session. */
  turns: LengthSpec;
  /** The first turn's own text, after the shared prefix. */
  firstTokens: LengthSpec;
  /** New text of each later turn. */
  turnTokens: LengthSpec;
  outputTokens: LengthSpec;
  /** Mean of the exponential time between an answer's end and the next turn. */
  meanThinkS: number;
  /** Assumed time a turn takes to be answered: fixed part and part a token. */
  answerS?: number;
  answerMsPerToken?: number;
  /** A session ends rather than exceed this. */
  maxInputTokens: number;
  prefix?: PrefixGroupSpec;
  tenants?: TenantSpec[];
  /** Tokens a block hash stands for; default 16. */
  blockTokens?: number;
}

interface PendingTurn extends TimedTurn {
  tenant: number;
  group: number;
  turnsLeft: number;
  inputTokens: number;
}

/** Plain data. */
export interface SessionWorkloadState {
  kind: 'sessions';
  spec: SessionWorkloadSpec;
  blockTokens: number;
  arrivals: ArrivalState;
  nextSessionNs: number;
  sessions: number;
  groups: PrefixGroups | null;
  tenantChoice: WeightedChoice | null;
  /** Binary heap. */
  pending: PendingTurn[];
  /** Sessions cut off by maxInputTokens. */
  cutSessions: number;
}

/** Sessions in think time are all held in memory. */
const MAX_PENDING_TURNS = 4_194_304;
/** Keeps session ids apart from group ids, and partial blocks from full ones. */
const SESSION_SALT = 2 ** 43;
const PARTIAL_SALT = 2 ** 44;

export function createSessionWorkload(spec: SessionWorkloadSpec, blockTokens: number, streams: WorkloadStreams): SessionWorkloadState {
  checkSpec(spec);
  const arrivals = createArrivalState();
  return {
    kind: 'sessions',
    spec,
    blockTokens,
    arrivals,
    nextSessionNs: nextArrivalNs(spec.sessionArrivals, arrivals, streams.arrivals, streams.phases),
    sessions: 0,
    groups: spec.prefix === undefined ? null : createPrefixGroups(spec.prefix, blockTokens, streams.prefixes),
    tenantChoice: spec.tenants === undefined ? null : createTenantChoice(spec.tenants),
    pending: [],
    cutSessions: 0,
  };
}

/** The next turn of any session, in order of arrival, written to `row`. */
export function nextSessionTurn(state: SessionWorkloadState, streams: WorkloadStreams, row: RequestRow): void {
  const waiting = state.pending[0];
  const turn = waiting !== undefined && waiting.arrivalNs <= state.nextSessionNs ? popTurn(state.pending) : startSession(state, streams);
  row.arrivalNs = turn.arrivalNs;
  row.inputTokens = turn.inputTokens;
  row.outputTokens = sampleLength(state.spec.outputTokens, streams.outputs);
  row.tenant = turn.tenant;
  row.session = turn.session;
  row.hashes = turnHashes(state, turn);
  scheduleNextTurn(state, turn, row.outputTokens, streams);
}

function startSession(state: SessionWorkloadState, streams: WorkloadStreams): PendingTurn {
  const spec = state.spec;
  const group = state.groups === null ? -1 : chooseGroup(state.groups, streams.prefixes);
  const prefixTokens = group < 0 ? 0 : state.groups!.prefixTokens[group]!;
  const arrivalNs = state.nextSessionNs;
  state.nextSessionNs = nextArrivalNs(spec.sessionArrivals, state.arrivals, streams.arrivals, streams.phases);
  return {
    arrivalNs,
    session: state.sessions++,
    tenant: state.tenantChoice === null ? 0 : chooseWeighted(state.tenantChoice, streams.tenants),
    group,
    turnsLeft: sampleLength(spec.turns, streams.sessions) - 1,
    inputTokens: Math.min(spec.maxInputTokens, prefixTokens + sampleLength(spec.firstTokens, streams.inputs)),
  };
}

function scheduleNextTurn(state: SessionWorkloadState, turn: PendingTurn, outputTokens: number, streams: WorkloadStreams): void {
  if (turn.turnsLeft === 0) return;
  const spec = state.spec;
  const inputTokens = turn.inputTokens + outputTokens + sampleLength(spec.turnTokens, streams.inputs);
  const thinkS = spec.meanThinkS * exponentialQuantile(streams.thinks());
  if (inputTokens > spec.maxInputTokens) {
    state.cutSessions++;
    return;
  }
  const answerS = (spec.answerS ?? 0) + ((spec.answerMsPerToken ?? 0) * outputTokens) / 1000;
  const arrivalNs = turn.arrivalNs + Math.round((answerS + thinkS) * 1e9);
  if (state.pending.length >= MAX_PENDING_TURNS) {
    throw new RangeError(
      `sessions: ${MAX_PENDING_TURNS} sessions wait for their next turn at once; lower the rate, the turns or meanThinkS`,
    );
  }
  pushTurn(state.pending, { ...turn, arrivalNs, turnsLeft: turn.turnsLeft - 1, inputTokens });
}

/** Group blocks where the group's prompt fills them, session blocks after; a partial last block has an id of its own. */
function turnHashes(state: SessionWorkloadState, turn: PendingTurn): Float64Array {
  const blockTokens = state.blockTokens;
  const full = Math.floor(turn.inputTokens / blockTokens);
  const hashes = new Float64Array(Math.ceil(turn.inputTokens / blockTokens));
  let index = 0;
  if (turn.group >= 0) {
    const groups = state.groups!;
    const first = groups.offsets[turn.group]!;
    const shared = Math.min(full, groups.offsets[turn.group + 1]! - first);
    for (; index < shared; index++) hashes[index] = groups.hashes[first + index]!;
  }
  for (; index < full; index++) hashes[index] = chainHash(SESSION_SALT + turn.session, index);
  if (index < hashes.length) hashes[index] = chainHash(SESSION_SALT + turn.session, PARTIAL_SALT + turn.inputTokens);
  return hashes;
}

function checkSpec(spec: SessionWorkloadSpec): void {
  checkArrivals(spec.sessionArrivals, 'sessions.sessionArrivals');
  checkLength(spec.turns, 'sessions.turns');
  checkLength(spec.firstTokens, 'sessions.firstTokens');
  checkLength(spec.turnTokens, 'sessions.turnTokens');
  checkLength(spec.outputTokens, 'sessions.outputTokens');
  for (const [name, value] of [
    ['meanThinkS', spec.meanThinkS],
    ['answerS', spec.answerS ?? 0],
    ['answerMsPerToken', spec.answerMsPerToken ?? 0],
  ] as const) {
    if (!(value >= 0 && Number.isFinite(value))) throw new RangeError(`sessions.${name} is ${value}; must be 0 or more`);
  }
  if (!(Number.isInteger(spec.maxInputTokens) && spec.maxInputTokens >= 1)) {
    throw new RangeError(`sessions.maxInputTokens is ${spec.maxInputTokens}; must be a whole number of tokens, 1 or more`);
  }
}
