import { type ArrivalSpec, type ArrivalState, checkArrivals, createArrivalState, nextArrivalNs } from './arrivals.js';
import type { Uniform } from './distributions.js';
import { checkLength, type LengthSpec, sampleLength } from './lengths.js';
import { createMooncakeLike, type MooncakeLikeSpec, type MooncakeLikeState, nextMooncakeLike } from './mooncake-like.js';
import { MOONCAKE_BLOCK_TOKENS } from './mooncake-trace.js';
import { chooseGroup, createPrefixGroups, type PrefixGroupSpec, type PrefixGroups } from './prefix-groups.js';
import {
  appendRequest,
  createRequestTableBuilder,
  finishRequestTable,
  joinRequestTables,
  type RequestRow,
  type RequestTable,
} from './requests.js';
import { createSessionWorkload, nextSessionTurn, type SessionWorkloadSpec, type SessionWorkloadState } from './sessions.js';
import { chooseWeighted, createTenantChoice, type TenantSpec, type WeightedChoice } from './tenants.js';

/** Shared beginnings of independent requests. */
export interface IndependentPrefixSpec extends PrefixGroupSpec {
  /** Share of the requests that begin with a shared prompt; default all. */
  share?: number;
  /** Whether it stands before the drawn input tokens or is the beginning of them; default added. */
  part?: 'added' | 'included';
}

/** Independent requests: an arrival process, lengths, and optionally shared system prompts. */
export interface IndependentWorkloadSpec {
  kind: 'independent';
  arrivals: ArrivalSpec;
  /** The request's own text; a group's shared prefix comes on top, unless it is included. */
  inputTokens: LengthSpec;
  outputTokens: LengthSpec;
  prefix?: IndependentPrefixSpec;
  tenants?: TenantSpec[];
  /** Tokens a block hash stands for; default 16. */
  blockTokens?: number;
}

/** What can be generated. */
export type WorkloadSpec = IndependentWorkloadSpec | SessionWorkloadSpec | MooncakeLikeSpec;

/** One stream of uniform numbers a purpose, so that changing one part of a workload leaves the others' draws alone. */
export interface WorkloadStreams {
  arrivals: Uniform;
  phases: Uniform;
  inputs: Uniform;
  outputs: Uniform;
  sessions: Uniform;
  thinks: Uniform;
  prefixes: Uniform;
  tenants: Uniform;
}

/** Plain data. */
export interface IndependentWorkloadState {
  kind: 'independent';
  spec: IndependentWorkloadSpec;
  blockTokens: number;
  arrivals: ArrivalState;
  groups: PrefixGroups | null;
  tenantChoice: WeightedChoice | null;
}

/** A generator under way; plain data, so an actor may hold it. */
export type WorkloadState = IndependentWorkloadState | SessionWorkloadState | MooncakeLikeState;

const DEFAULT_BLOCK_TOKENS = 16;
const BATCH_REQUESTS = 8192;
const NO_HASHES: readonly number[] = [];

/** Names of the streams, for whoever supplies them. */
export const WORKLOAD_STREAMS: (keyof WorkloadStreams)[] = [
  'arrivals',
  'phases',
  'inputs',
  'outputs',
  'sessions',
  'thinks',
  'prefixes',
  'tenants',
];

/** Checks the specification and prepares a generator, which keeps a copy of it. */
export function createWorkload(workload: WorkloadSpec, streams: WorkloadStreams): WorkloadState {
  const spec = structuredClone(workload);
  if (spec.kind === 'mooncake-like') return createMooncakeLike(spec, MOONCAKE_BLOCK_TOKENS);
  const blockTokens = spec.blockTokens ?? DEFAULT_BLOCK_TOKENS;
  if (!(Number.isInteger(blockTokens) && blockTokens >= 1))
    throw new RangeError(`blockTokens is ${blockTokens}; must be a whole number, 1 or more`);
  if (spec.kind === 'sessions') return createSessionWorkload(spec, blockTokens, streams);
  if (spec.kind === 'independent') return createIndependent(spec, blockTokens, streams);
  throw new RangeError(`kind is ${String((spec satisfies never as WorkloadSpec).kind)}; one of independent, sessions, mooncake-like`);
}

/** The next request, in order of arrival, written to `row`; the name is left empty (requests are numbered). */
export function nextRequest(state: WorkloadState, streams: WorkloadStreams, row: RequestRow): void {
  switch (state.kind) {
    case 'independent':
      nextIndependent(state, streams, row);
      break;
    case 'sessions':
      nextSessionTurn(state, streams, row);
      break;
    case 'mooncake-like':
      nextMooncakeLike(state, streams, row);
      break;
    default:
      state satisfies never;
  }
}

/** When to stop: after so many requests, or before the first arrival at or after a time. At least one is given. */
export interface WorkloadLimit {
  requests?: number;
  untilNs?: number;
}

/** A whole table of generated requests. */
export function generateRequests(spec: WorkloadSpec, streams: WorkloadStreams, limit: WorkloadLimit): RequestTable {
  const batches = [...generateBatches(spec, streams, limit)];
  return batches.length > 0 ? joinRequestTables(batches) : finishBatch(createRequestTableBuilder(0), spec, []);
}

/** Generated requests in batches of 8,192, memory bounded by one batch and the generator's state. */
export function* generateBatches(spec: WorkloadSpec, streams: WorkloadStreams, limit: WorkloadLimit): Generator<RequestTable> {
  const requests = limit.requests ?? Number.POSITIVE_INFINITY;
  const untilNs = limit.untilNs ?? Number.POSITIVE_INFINITY;
  if (!(requests < Number.POSITIVE_INFINITY || untilNs < Number.POSITIVE_INFINITY)) {
    throw new RangeError('generateBatches: neither requests nor untilNs is limited; give at least one');
  }
  const state = createWorkload(spec, streams);
  const row: RequestRow = { arrivalNs: 0, inputTokens: 0, outputTokens: 0, tenant: 0, session: -1, name: '', hashes: [] };
  const sessionNames: string[] = [];
  let made = 0;
  let builder = createRequestTableBuilder(identityTokens(state), 0, Math.min(requests, BATCH_REQUESTS));
  while (made < requests) {
    nextRequest(state, streams, row);
    if (row.arrivalNs >= untilNs) break;
    appendRequest(builder, row);
    if (row.session >= sessionNames.length) sessionNames.push(`session${row.session}`);
    made++;
    if (builder.table.requestCount < BATCH_REQUESTS) continue;
    yield finishBatch(builder, spec, sessionNames);
    builder = createRequestTableBuilder(identityTokens(state), made, BATCH_REQUESTS);
  }
  if (builder.table.requestCount > 0) yield finishBatch(builder, spec, sessionNames);
}

function finishBatch(builder: ReturnType<typeof createRequestTableBuilder>, spec: WorkloadSpec, sessionNames: string[]): RequestTable {
  const table = finishRequestTable(builder);
  if (spec.kind !== 'mooncake-like' && spec.tenants !== undefined) table.tenantNames = spec.tenants.map((tenant) => tenant.name);
  table.sessionNames = sessionNames;
  return table;
}

/** Block size of the identity a workload carries; independent requests without groups have none. */
export function identityTokens(state: WorkloadState): number {
  return state.kind === 'independent' && state.groups === null ? 0 : state.blockTokens;
}

function createIndependent(spec: IndependentWorkloadSpec, blockTokens: number, streams: WorkloadStreams): IndependentWorkloadState {
  checkArrivals(spec.arrivals, 'arrivals');
  checkLength(spec.inputTokens, 'inputTokens');
  checkLength(spec.outputTokens, 'outputTokens');
  const { share = 1 } = spec.prefix ?? {};
  if (!(share >= 0 && share <= 1)) throw new RangeError(`prefix.share is ${share}; must be from 0 to 1`);
  return {
    kind: 'independent',
    spec,
    blockTokens,
    arrivals: createArrivalState(),
    groups: spec.prefix === undefined ? null : createPrefixGroups(spec.prefix, blockTokens, streams.prefixes),
    tenantChoice: spec.tenants === undefined ? null : createTenantChoice(spec.tenants),
  };
}

function nextIndependent(state: IndependentWorkloadState, streams: WorkloadStreams, row: RequestRow): void {
  const { spec, groups } = state;
  row.arrivalNs = nextArrivalNs(spec.arrivals, state.arrivals, streams.arrivals, streams.phases);
  row.inputTokens = sampleLength(spec.inputTokens, streams.inputs);
  row.outputTokens = sampleLength(spec.outputTokens, streams.outputs);
  row.tenant = state.tenantChoice === null ? 0 : chooseWeighted(state.tenantChoice, streams.tenants);
  row.session = -1;
  row.hashes = NO_HASHES;
  if (groups === null) return;
  const { share = 1, part = 'added' } = spec.prefix as IndependentPrefixSpec;
  if (share < 1 && streams.prefixes() >= share) return;
  const group = chooseGroup(groups, streams.prefixes);
  const first = groups.offsets[group]!;
  if (part === 'added') row.inputTokens += groups.prefixTokens[group]!;
  const blocks = Math.min(groups.offsets[group + 1]! - first, Math.floor(row.inputTokens / state.blockTokens));
  row.hashes = groups.hashes.subarray(first, first + blocks);
}
