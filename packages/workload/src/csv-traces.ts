import { rejectValue, TraceError, type TracePlace } from './trace-error.js';
import { type LineParser, type NameTable, nameNumber, type TraceRow } from './trace-format.js';
import { fractionNs, secondsCellNs, tokenCell, wholeNumber } from './trace-values.js';

const NO_HASHES: readonly number[] = [];

/** Columns of a CSV file by lower-case name. Quotes are not used by any of the formats and are refused. */
export interface CsvColumns {
  names: string[];
  positions: Map<string, number>;
  /** The present row's cells. */
  cells: string[];
}

export function parseHeader(line: string, place: TracePlace): CsvColumns {
  const names = splitCells(line, place).map((name) => name.trim().toLowerCase());
  const positions = new Map<string, number>();
  for (const [position, name] of names.entries()) {
    if (positions.has(name)) rejectValue(place, 'header', name, 'each column once');
    positions.set(name, position);
  }
  return { names, positions, cells: names.map(() => '') };
}

/** The position of a column that must be there. */
export function requiredColumn(columns: CsvColumns, name: string, place: TracePlace): number {
  return columns.positions.get(name) ?? rejectValue(place, 'header', columns.names.join(','), `a column ${name}`);
}

/** A row's cells, as many as the header has; valid until the next row (split() would cost half of the reading time). */
export function rowCells(line: string, columns: CsvColumns, place: TracePlace): string[] {
  const cells = columns.cells;
  let start = 0;
  let count = 0;
  for (let comma = line.indexOf(','); comma >= 0 && count < cells.length; comma = line.indexOf(',', start)) {
    cells[count++] = line.slice(start, comma);
    start = comma + 1;
  }
  if (count === cells.length - 1 && !line.includes('"')) {
    cells[count] = line.slice(start);
    return cells;
  }
  const found = splitCells(line, place).length;
  throw new TraceError(place.file, place.line, '', `has ${found} cells, expected ${cells.length}: ${columns.names.join(',')}`);
}

function splitCells(line: string, place: TracePlace): string[] {
  if (line.includes('"')) rejectValue(place, 'line', line, 'cells without quotes');
  return line.split(',');
}

/** Azure LLM inference traces of 2023 and 2024: TIMESTAMP,ContextTokens,GeneratedTokens. Arrivals count from the first row's second. */
export function azureParser(header: string, headerPlace: TracePlace): LineParser {
  const columns = parseHeader(header, headerPlace);
  const timestamp = requiredColumn(columns, 'timestamp', headerPlace);
  const context = requiredColumn(columns, 'contexttokens', headerPlace);
  const generated = requiredColumn(columns, 'generatedtokens', headerPlace);
  let originS = Number.NaN;
  return {
    blockTokens: 0,
    parse(line, place) {
      const cells = rowCells(line, columns, place);
      const time = timestampParts(cells[timestamp]!, place);
      if (Number.isNaN(originS)) originS = time.seconds;
      return plainRow(
        (time.seconds - originS) * 1e9 + time.fractionNs,
        tokenCell(cells[context], place, 'ContextTokens'),
        tokenCell(cells[generated], place, 'GeneratedTokens'),
        place,
      );
    },
  };
}

const TIMESTAMP = /^(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:Z|([+-])(\d\d):?(\d\d))?$/;

/** "2023-11-16 18:15:46.6805900", with or without zone (2024 has +00:00), as whole seconds since 1970 and nanoseconds. */
function timestampParts(cell: string, place: TracePlace): { seconds: number; fractionNs: number } {
  const match = TIMESTAMP.exec(cell);
  if (match === null) return rejectValue(place, 'TIMESTAMP', cell, 'a time such as 2023-11-16 18:15:46.6805900');
  const [year, month, day, hour, minute, second] = [match[1], match[2], match[3], match[4], match[5], match[6]].map(Number) as number[];
  const inRange =
    month! >= 1 && month! <= 12 && day! >= 1 && day! <= daysInMonth(year!, month!) && hour! < 24 && minute! < 60 && second! < 60;
  if (!inRange) return rejectValue(place, 'TIMESTAMP', cell, 'a time that exists');
  const zoneMinutes = match[8] === undefined ? 0 : (match[8] === '-' ? -1 : 1) * (Number(match[9]) * 60 + Number(match[10]));
  const minutes = (daysSince1970(year!, month!, day!) * 24 + hour!) * 60 + minute! - zoneMinutes;
  return { seconds: minutes * 60 + second!, fractionNs: match[7] === undefined ? 0 : fractionNs(match[7]) };
}

function daysInMonth(year: number, month: number): number {
  return daysSince1970(month === 12 ? year + 1 : year, month === 12 ? 1 : month + 1, 1) - daysSince1970(year, month, 1);
}

/** Days from 1970-01-01 in the Gregorian calendar, counting years from March so that the leap day is the last. */
function daysSince1970(year: number, month: number, day: number): number {
  const marchYear = month <= 2 ? year - 1 : year;
  const monthFromMarch = (month + 9) % 12;
  const leapDays = Math.floor(marchYear / 4) - Math.floor(marchYear / 100) + Math.floor(marchYear / 400);
  return marchYear * 365 + leapDays + Math.floor((monthFromMarch * 153 + 2) / 5) + day - 1 - 719468;
}

/** BurstGPT: Timestamp (s), Model, Request tokens, Response tokens, Total tokens, Log Type; later releases add Session ID. */
export function burstGptParser(header: string, headerPlace: TracePlace, sessions: NameTable): LineParser {
  const columns = parseHeader(header, headerPlace);
  const timestamp = requiredColumn(columns, 'timestamp', headerPlace);
  const request = requiredColumn(columns, 'request tokens', headerPlace);
  const response = requiredColumn(columns, 'response tokens', headerPlace);
  const total = columns.positions.get('total tokens') ?? -1;
  const session = columns.positions.get('session id') ?? -1;
  return {
    blockTokens: 0,
    parse(line, place) {
      const cells = rowCells(line, columns, place);
      const row = plainRow(
        secondsCellNs(cells[timestamp], place, 'Timestamp'),
        tokenCell(cells[request], place, 'Request tokens'),
        tokenCell(cells[response], place, 'Response tokens'),
        place,
      );
      if (total >= 0 && wholeNumber(cells[total]) !== row.inputTokens + row.outputTokens) {
        rejectValue(place, 'Total tokens', cells[total], `${row.inputTokens + row.outputTokens}, request and response tokens together`);
      }
      if (session >= 0 && cells[session] !== '') row.session = nameNumber(sessions, cells[session]!, place);
      return row;
    },
  };
}

/** A row with nothing but its time and lengths. */
export function plainRow(arrivalNs: number, inputTokens: number, outputTokens: number, place: TracePlace): TraceRow {
  return { arrivalNs, inputTokens, outputTokens, tenant: 0, session: -1, name: '', hashes: NO_HASHES, line: place.line };
}
