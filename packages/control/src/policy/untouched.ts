import { type BoundPolicy, builtInSource } from './policy.js';

/** What stood at a place, and, of a column, its values. */
interface Copy {
  readonly path: string;
  readonly holder: Readonly<Record<string, unknown>>;
  readonly key: string;
  readonly value: unknown;
  readonly column: Column | undefined;
}

/** Looks whether a policy of somebody's own has written where it should only read. */
export interface Watch {
  /** What has been written since, as the end of a sentence; undefined: nothing. */
  written(): string | undefined;
}

/** One row of columns that are too long to be copied at each call. */
export class RowWatch implements Watch {
  readonly #columns: Readonly<Record<string, NumberColumn>>;
  readonly #row: number;
  readonly #was: readonly (number | undefined)[];

  constructor(columns: Readonly<Record<string, NumberColumn>>, row: number) {
    this.#columns = columns;
    this.#row = row;
    this.#was = Object.values(columns).map((column) => column[row]);
  }

  written(): string | undefined {
    for (const [place, [name, column]] of Object.entries(this.#columns).entries()) {
      const [was, is] = [this.#was[place], column[this.#row]];
      if (!Object.is(is, was)) return wrote(`view.${name}[${this.#row}]`, was, is);
    }
    return undefined;
  }
}

interface NumberColumn {
  readonly [row: number]: number;
}

/** A view before a policy of somebody's own was asked: its columns are the simulation's own, so a write would change the run without a word. */
export class ViewWatch implements Watch {
  readonly #copies: Copy[] = [];

  /** `views` by the name that messages give them; what stands at the paths of `writable` is the policy's to write. */
  constructor(views: Readonly<Record<string, object>>, writable: readonly string[] = []) {
    for (const [name, view] of Object.entries(views)) this.#keep(view as Record<string, unknown>, name, writable);
  }

  #keep(holder: Readonly<Record<string, unknown>>, path: string, writable: readonly string[]): void {
    for (const [key, value] of Object.entries(holder)) {
      const place = `${path}.${key}`;
      if (writable.includes(place)) continue;
      if (typeof value !== 'number' && (typeof value !== 'object' || value === null)) continue;
      const column = isColumn(value) ? value.slice() : undefined;
      this.#copies.push({ path: place, holder, key, value, column });
      if (typeof value === 'object' && column === undefined) this.#keep(value as Record<string, unknown>, place, writable);
    }
  }

  written(): string | undefined {
    for (const { path, holder, key, value, column } of this.#copies) {
      if (!Object.is(holder[key], value)) return wrote(path, value, holder[key]);
      if (column === undefined) continue;
      const now = value as Column;
      for (let row = 0; row < column.length; row++)
        if (!Object.is(now[row], column[row])) return wrote(`${path}[${row}]`, column[row], now[row]);
    }
    return undefined;
  }
}

interface Column {
  readonly length: number;
  readonly [row: number]: unknown;
  slice(): Column;
}

function isColumn(value: unknown): value is Column {
  return Array.isArray(value) || (ArrayBuffer.isView(value) && !(value instanceof DataView));
}

function wrote(place: string, was: unknown, is: unknown): string {
  const values = typeof was === 'number' ? ` (it was ${was}, and is now ${String(is)})` : '';
  return `wrote to ${place}${values}; views are for reading: keep what changes in the policy's own state`;
}

/**
 * Whether a decision about a request is watched: none of a built-in policy, whose writes its tests would show; of others those of the first requests and
 * then each 16th, since to copy all columns costs as much as many a decision. By the request's number, so the same on any number of shards.
 */
export function isWatched(bound: BoundPolicy, request: number): boolean {
  return bound.source !== builtInSource && (request < 256 || request % 16 === 0);
}
