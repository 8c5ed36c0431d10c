import { chainHash, hashName } from './block-identity.js';
import { type CsvColumns, parseHeader, plainRow, requiredColumn, rowCells } from './csv-traces.js';
import { DEFAULT_TENANT, hasDelays, type RequestTable, requestName } from './requests.js';
import { rejectValue, type TracePlace } from './trace-error.js';
import { clearNames, type LineParser, type NameTable, nameNumber, type TraceRow } from './trace-format.js';
import { MAX_PROMPT_BLOCKS, nanosecondsCell, secondsCellNs, tokenCell, wholeNumber } from './trace-values.js';

const HASH_COLUMN = 'block_hashes_';
const KNOWN_COLUMNS = [
  'request_id',
  'arrival_s',
  'arrival_ns',
  'input_tokens',
  'output_tokens',
  'tenant',
  'session',
  'delay_ns',
  'prefix_group',
  'prefix_tokens',
];

/**
 * The plain CSV. Columns in any order: arrival_s (decimal seconds) or arrival_ns (integer), input_tokens, output_tokens; optional request_id,
 * tenant, session, delay_ns (the row comes so long after the end of its session's previous one), and prefix identity in one of two forms:
 * prefix_group with prefix_tokens (requests of a group share their first prefix_tokens tokens, in whole blocks of `blockTokens`), or block_hashes_N
 * (ids of the blocks of N tokens, "7 12-19", as `plainCsvRows` writes).
 */
export function plainCsvParser(
  header: string,
  headerPlace: TracePlace,
  tenants: NameTable,
  sessions: NameTable,
  blockTokens: number,
): LineParser {
  const columns = parseHeader(header, headerPlace);
  const hashColumn = checkColumns(columns, headerPlace);
  const hashTokens = hashColumn < 0 ? 0 : Number(columns.names[hashColumn]!.slice(HASH_COLUMN.length));
  const seconds = columns.positions.get('arrival_s') ?? -1;
  const arrival = seconds >= 0 ? seconds : requiredColumn(columns, 'arrival_ns', headerPlace);
  const input = requiredColumn(columns, 'input_tokens', headerPlace);
  const output = requiredColumn(columns, 'output_tokens', headerPlace);
  const position = (name: string): number => columns.positions.get(name) ?? -1;
  const [id, tenant, session, delay, group, prefix] = [
    position('request_id'),
    position('tenant'),
    position('session'),
    position('delay_ns'),
    position('prefix_group'),
    position('prefix_tokens'),
  ] as [number, number, number, number, number, number];
  if (tenant >= 0) clearNames(tenants);
  const groups: PrefixChains = { hashes: new Map(), blockTokens };
  return {
    blockTokens: hashColumn >= 0 ? hashTokens : group >= 0 ? blockTokens : 0,
    parse(line, place) {
      const cells = rowCells(line, columns, place);
      const arrivalNs =
        seconds >= 0 ? secondsCellNs(cells[arrival], place, 'arrival_s') : nanosecondsCell(cells[arrival], place, 'arrival_ns');
      const row = plainRow(
        arrivalNs,
        tokenCell(cells[input], place, 'input_tokens'),
        tokenCell(cells[output], place, 'output_tokens'),
        place,
      );
      if (id >= 0) row.name = cells[id] !== '' ? cells[id]! : rejectValue(place, 'request_id', '', 'a non-empty text');
      if (tenant >= 0) row.tenant = nameNumber(tenants, cells[tenant] === '' ? DEFAULT_TENANT : cells[tenant]!, place);
      if (session >= 0 && cells[session] !== '') row.session = nameNumber(sessions, cells[session]!, place);
      if (delay >= 0 && cells[delay] !== '') row.delayNs = delayCell(cells[delay]!, row, place);
      if (hashColumn >= 0) row.hashes = parseHashes(cells[hashColumn]!, row.inputTokens, hashTokens, place);
      else if (group >= 0) row.hashes = groupHashes(groups, cells[group]!, cells[prefix]!, row, place);
      return row;
    },
  };
}

function delayCell(cell: string, row: TraceRow, place: TracePlace): number {
  if (row.session < 0) rejectValue(place, 'delay_ns', cell, 'nothing in a row without a session: it counts from the turn before');
  return nanosecondsCell(cell, place, 'delay_ns');
}

/** Refuses unknown or contradicting columns; returns the position of the block hashes or -1. */
function checkColumns(columns: CsvColumns, place: TracePlace): number {
  let hashColumn = -1;
  for (const [position, name] of columns.names.entries()) {
    if (KNOWN_COLUMNS.includes(name)) continue;
    const tokens = name.startsWith(HASH_COLUMN) ? wholeNumber(name.slice(HASH_COLUMN.length)) : -1;
    if (tokens < 1 || hashColumn >= 0)
      rejectValue(place, 'header', name, `one of ${KNOWN_COLUMNS.join(', ')}, or one ${HASH_COLUMN}<tokens>`);
    hashColumn = position;
  }
  const has = (name: string): boolean => columns.positions.has(name);
  if (has('arrival_s') && has('arrival_ns')) rejectValue(place, 'header', 'arrival_s and arrival_ns', 'one of the two');
  if (has('prefix_group') !== has('prefix_tokens'))
    rejectValue(place, 'header', columns.names.join(','), 'prefix_group and prefix_tokens together');
  if (hashColumn >= 0 && has('prefix_group')) rejectValue(place, 'header', 'prefix_group and block hashes', 'one of the two');
  return hashColumn;
}

/** Chained block ids of each prefix group, grown on demand. */
interface PrefixChains {
  hashes: Map<string, number[]>;
  blockTokens: number;
}

function groupHashes(chains: PrefixChains, group: string, prefixCell: string, row: TraceRow, place: TracePlace): number[] {
  const prefixTokens = wholeNumber(prefixCell === '' ? '0' : prefixCell);
  if (prefixTokens < 0 || prefixTokens > row.inputTokens) {
    rejectValue(place, 'prefix_tokens', prefixCell, `a whole number from 0 to input_tokens, ${row.inputTokens}`);
  }
  if (group === '' && prefixTokens > 0) rejectValue(place, 'prefix_group', group, 'a name, since prefix_tokens is not 0');
  const count = Math.floor(prefixTokens / chains.blockTokens);
  if (count === 0) return [];
  if (count > MAX_PROMPT_BLOCKS)
    rejectValue(
      place,
      'prefix_tokens',
      prefixCell,
      `at most ${MAX_PROMPT_BLOCKS * chains.blockTokens}: ${MAX_PROMPT_BLOCKS} blocks of ${chains.blockTokens}`,
    );
  let known = chains.hashes.get(group);
  if (known === undefined) chains.hashes.set(group, (known = []));
  while (known.length < count) known.push(chainHash(known.at(-1) ?? hashName(group), known.length));
  return known.slice(0, count);
}

function parseHashes(cell: string, inputTokens: number, blockTokens: number, place: TracePlace): number[] {
  const field = `${HASH_COLUMN}${blockTokens}`;
  const limit = Math.min(Math.ceil(inputTokens / blockTokens), MAX_PROMPT_BLOCKS);
  const hashes: number[] = [];
  if (cell === '') return hashes;
  for (const part of cell.split(' ')) {
    const dash = part.indexOf('-');
    const from = hashNumber(dash < 0 ? part : part.slice(0, dash));
    const to = dash < 0 ? from : hashNumber(part.slice(dash + 1));
    if (from < 0 || to < from) rejectValue(place, field, part, 'a whole number below 2^53, or a range such as 12-19');
    if (hashes.length + to - from + 1 > limit)
      rejectValue(place, field, cell, `at most ${limit} hashes: the prompt has ${inputTokens} tokens`);
    for (let hash = from; hash <= to; hash++) hashes.push(hash);
  }
  return hashes;
}

function hashNumber(text: string): number {
  const value = /^\d{1,16}$/.test(text) ? Number(text) : -1;
  return value <= Number.MAX_SAFE_INTEGER ? value : -1;
}

/** The header `plainCsvRows` writes under; all batches of a trace must have delays, or none. */
export function plainCsvHeader(table: RequestTable): string {
  const identity = table.blockTokens === 0 ? '' : `,${HASH_COLUMN}${table.blockTokens}`;
  return `request_id,arrival_ns,input_tokens,output_tokens,tenant,session${hasDelays(table) ? ',delay_ns' : ''}${identity}\n`;
}

/** The rows of a table as plain CSV that reads back to the same table: arrivals in integer ns, names, prefix identity. */
export function* plainCsvRows(table: RequestTable): Generator<string> {
  for (let row = 0; row < table.requestCount; row++) {
    const session = table.session[row]!;
    const fields = `${cellName(requestName(table, row))},${table.arrivalNs[row]},${table.inputTokens[row]},${table.outputTokens[row]}`;
    const names = `,${cellName(table.tenantNames[table.tenant[row]!]!)},${session < 0 ? '' : cellName(table.sessionNames[session]!)}`;
    const delay = !hasDelays(table) ? '' : table.delayNs[row]! < 0 ? ',' : `,${table.delayNs[row]}`;
    yield `${fields}${names}${delay}${table.blockTokens === 0 ? '' : `,${writtenHashes(table, row)}`}\n`;
  }
}

function cellName(name: string): string {
  if (/[",\r\n]/.test(name) || name === '') {
    throw new Error(`plain CSV: the name ${JSON.stringify(name)} is empty or holds a comma, quote or line break; rename it`);
  }
  return name;
}

/** Runs of three and more consecutive ids shrink to a range. */
function writtenHashes(table: RequestTable, row: number): string {
  const hashes = table.blockHashes;
  const end = table.blockOffsets[row + 1]!;
  const parts: string[] = [];
  for (let index = table.blockOffsets[row]!; index < end; ) {
    let last = index;
    while (last + 1 < end && hashes[last + 1] === hashes[last]! + 1) last++;
    if (last - index < 2) last = index;
    parts.push(last === index ? String(hashes[index]) : `${hashes[index]}-${hashes[last]}`);
    index = last + 1;
  }
  return parts.join(' ');
}
