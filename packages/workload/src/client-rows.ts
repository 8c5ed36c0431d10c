import type { PromptBlocks } from '@braess/protocol';
import { chainHash, expandBlocks } from './block-identity.js';
import { hasDelays, type RequestTable } from './requests.js';

/**
 * Constants of the client actors: which rows are whose, and which row follows which within a session. Built once a thread from the table.
 */
export interface ClientRows {
  /** Rows of each client in order of arrival; null when there is one client and it has all. */
  readonly rowsOfClient: readonly Int32Array[] | null;
  /** Next row of the same session if it waits for this one's answer, else -1; null where none waits. */
  readonly nextTurn: Int32Array | null;
  /** 1 for rows that wait for an answer instead of their arrival. */
  readonly waitsForAnswer: Uint8Array | null;
}

/** `sessionsWait`: every later turn of a session waits for the answer before, not only those with a delay. */
export function dealRows(table: RequestTable, clients: number, sessionsWait: boolean): ClientRows {
  return {
    rowsOfClient: clients === 1 ? null : rowsByClient(table, clients),
    ...(sessionsWait || hasDelays(table) ? linkTurns(table, sessionsWait) : { nextTurn: null, waitsForAnswer: null }),
  };
}

/** In turn, but a session's rows all go where its number says. */
function rowsByClient(table: RequestTable, clients: number): Int32Array[] {
  const owners = new Int32Array(table.requestCount);
  const counts = new Int32Array(clients);
  let turn = 0;
  for (let row = 0; row < table.requestCount; row++) {
    const session = table.session[row]!;
    const owner = session < 0 ? turn++ % clients : session % clients;
    owners[row] = owner;
    counts[owner]!++;
  }
  const rows = Array.from(counts, (count) => new Int32Array(count));
  const filled = new Int32Array(clients);
  for (let row = 0; row < table.requestCount; row++) rows[owners[row]!]![filled[owners[row]!]!++] = row;
  return rows;
}

function linkTurns(table: RequestTable, all: boolean): { nextTurn: Int32Array; waitsForAnswer: Uint8Array } {
  const nextTurn = new Int32Array(table.requestCount).fill(-1);
  const waitsForAnswer = new Uint8Array(table.requestCount);
  const lastOfSession = new Map<number, number>();
  for (let row = 0; row < table.requestCount; row++) {
    const session = table.session[row]!;
    if (session < 0) continue;
    const last = lastOfSession.get(session);
    if (last !== undefined && (all || table.delayNs[row]! >= 0)) {
      nextTurn[last] = row;
      waitsForAnswer[row] = 1;
    }
    lastOfSession.set(session, row);
  }
  return { nextTurn, waitsForAnswer };
}

// Filled and read within one call; never state.
let expanded = new Float64Array(1024);

/** Identities of a request's full prompt blocks at the engines' block size, chained; null for a row without hashes. */
export function promptChain(table: RequestTable, row: number, blockTokens: number): PromptBlocks {
  if (table.blockTokens === 0 || table.blockOffsets[row + 1] === table.blockOffsets[row]) return undefined;
  const blocks = Math.ceil(table.inputTokens[row]! / blockTokens);
  if (blocks > expanded.length) expanded = new Float64Array(Math.max(blocks, 2 * expanded.length));
  expandBlocks(table, row, blockTokens, expanded);
  return expanded.slice(0, Math.floor(table.inputTokens[row]! / blockTokens));
}

/**
 * The same, and behind it the blocks that the answer fills, where the next turn of the session tells them: its prompt goes on from this one, so it names
 * what lies behind. The last token of an answer has no KV.
 */
export function requestChain(table: RequestTable, row: number, blockTokens: number): PromptBlocks {
  const chain = promptChain(table, row, blockTokens);
  const next = chain === undefined ? -1 : (turnsOf(table)?.[row] ?? -1);
  if (chain === undefined || next < 0) return chain;
  const kept = Math.floor((table.inputTokens[row]! + table.outputTokens[row]! - 1) / blockTokens);
  if (kept <= chain.length) return chain;
  const longer = promptChain(table, next, blockTokens);
  if (longer === undefined || longer.length <= chain.length || chain.some((identity, block) => identity !== longer[block])) return chain;
  return longer.slice(0, kept);
}

/** Next row of the same session by row; null where no session goes on. */
function turnsOf(table: RequestTable): Int32Array | null {
  let turns = turnsOfTable.get(table);
  if (turns === undefined) {
    const { nextTurn } = linkTurns(table, true);
    turns = nextTurn.some((row) => row >= 0) ? nextTurn : null;
    turnsOfTable.set(table, turns);
  }
  return turns;
}

// Follows from the table alone; never state.
const turnsOfTable = new WeakMap<RequestTable, Int32Array | null>();

/** A number from 0 to `count` - 1 that stays the same for a session, or for a request outside of one. */
export function hashedChoice(table: RequestTable, row: number, count: number): number {
  const session = table.session[row]!;
  return chainHash(session < 0 ? 1 : 2, session < 0 ? row : session) % count;
}
