import { chainHash } from './block-identity.js';
import { createWorkload, identityTokens, nextRequest, type WorkloadLimit, type WorkloadSpec, type WorkloadStreams } from './generate.js';
import {
  appendRequest,
  createRequestTableBuilder,
  DEFAULT_TENANT,
  finishRequestTable,
  type RequestRow,
  type RequestTable,
  requestRow,
} from './requests.js';

/** Requests in order of arrival, one after the other. */
export interface RequestSource {
  /** Tokens a hash stands for; 0 without prefix identity. */
  readonly blockTokens: number;
  /** Names of tenants and sessions by the numbers in its rows. */
  tenantName(tenant: number): string;
  sessionName(session: number): string;
  /** Writes the next request to `row`; false at the end. */
  next(row: RequestRow): boolean;
}

/** Part of a mixture: its requests, and the tenant that sends them (default: as the requests say). */
export interface MixturePart {
  readonly requests: RequestSource;
  readonly tenant?: string;
}

/** Requests of a generator, without end. */
export function generatedRequests(spec: WorkloadSpec, streams: WorkloadStreams): RequestSource {
  const state = createWorkload(spec, streams);
  return {
    blockTokens: identityTokens(state),
    tenantName: () => DEFAULT_TENANT,
    sessionName: (session) => `session${session}`,
    next: (row) => {
      nextRequest(state, streams, row);
      return true;
    },
  };
}

/** Requests of a table, to its end. */
export function tableRequests(table: RequestTable): RequestSource {
  let next = 0;
  return {
    blockTokens: table.blockTokens,
    tenantName: (tenant) => table.tenantNames[tenant]!,
    sessionName: (session) => table.sessionNames[session]!,
    next: (row) => {
      if (next >= table.requestCount) return false;
      Object.assign(row, requestRow(table, next++));
      return true;
    },
  };
}

/** Keeps the blocks of a mixture's parts apart. */
const PART_SALT = 2 ** 46;

/**
 * Superposition: the requests of all parts by arrival, of equal ones the earlier part's first. Parts share no blocks and no sessions.
 * @throws RangeError when parts have prefix identities of different block sizes.
 */
export function mixRequests(parts: readonly MixturePart[], { requests = Infinity, untilNs = Infinity }: WorkloadLimit): RequestTable {
  const builder = createRequestTableBuilder(commonBlockTokens(parts));
  const tenants = new Map<string, number>();
  const sessions = new Map<string, number>();
  const heads = parts.map(({ requests: source }) => nextHead(source));
  while (builder.table.requestCount < requests) {
    const part = firstPart(heads);
    const row = heads[part];
    if (row === undefined || row === null || row.arrivalNs >= untilNs) break;
    const { requests: source, tenant = source.tenantName(row.tenant) } = parts[part]!;
    const hashes = Float64Array.from(row.hashes, (hash) => chainHash(PART_SALT + part, hash));
    appendRequest(builder, {
      ...row,
      hashes,
      tenant: numberOf(tenants, tenant),
      session: row.session < 0 ? -1 : numberOf(sessions, `${part}/${source.sessionName(row.session)}`),
      name: '',
    });
    heads[part] = nextHead(source, row);
  }
  return { ...finishRequestTable(builder), tenantNames: [...tenants.keys()], sessionNames: [...sessions.keys()] };
}

/** The request that a source gives next; null at its end. */
function nextHead(source: RequestSource, row = emptyRow()): RequestRow | null {
  return source.next(row) ? row : null;
}

function emptyRow(): RequestRow {
  return { arrivalNs: 0, inputTokens: 0, outputTokens: 0, tenant: 0, session: -1, name: '', hashes: [], delayNs: -1 };
}

/** The part whose next request comes first; -1 when all have ended. */
function firstPart(heads: readonly (RequestRow | null)[]): number {
  let first = -1;
  for (const [part, row] of heads.entries())
    if (row !== null && (first < 0 || row.arrivalNs < (heads[first] as RequestRow).arrivalNs)) first = part;
  return first;
}

function numberOf(numbers: Map<string, number>, name: string): number {
  let number = numbers.get(name);
  if (number === undefined) numbers.set(name, (number = numbers.size));
  return number;
}

function commonBlockTokens(parts: readonly MixturePart[]): number {
  const sizes = [...new Set(parts.map(({ requests }) => requests.blockTokens).filter((tokens) => tokens > 0))];
  if (sizes.length > 1)
    throw new RangeError(
      `its parts have blocks of ${sizes.join(' and ')} tokens, and a workload has blocks of one size; set their blockTokens (of a Mooncake trace hashTokens, 512 as mooncake-like has), or leave prefixes out`,
    );
  return sizes[0] ?? 0;
}
