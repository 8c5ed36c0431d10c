/** A bad trace: where it is, what stands there, and what was expected. `line` counts from 1; 0 means the file as a whole. */
export class TraceError extends Error {
  readonly file: string;
  readonly line: number;
  readonly field: string;
  readonly problem: string;
  constructor(file: string, line: number, field: string, problem: string) {
    super(`${file}${line > 0 ? `:${line}` : ''}: ${field === '' ? '' : `${field}: `}${problem}`);
    this.problem = problem;
    this.name = 'TraceError';
    this.file = file;
    this.line = line;
    this.field = field;
  }
}

/** The place a value was read from; parsers pass it down instead of building messages on the hot path. */
export interface TracePlace {
  file: string;
  line: number;
}

/** Throws the error every wrong value gets: field, value found, expectation. */
export function rejectValue(place: TracePlace, field: string, value: unknown, expected: string): never {
  throw new TraceError(place.file, place.line, field, `found ${describeValue(value)}, expected ${expected}`);
}

/** A value as it is shown in messages: JSON where possible, cut to 60 characters. */
function describeValue(value: unknown): string {
  if (value === undefined) return 'nothing';
  const text = typeof value === 'number' ? String(value) : (JSON.stringify(value) ?? String(value));
  return text.length > 60 ? `${text.slice(0, 57)}...` : text;
}
