import { NetworkAnswer } from '../oracle/network-answer.js';
import type { NetworkSite } from '../oracle/site.js';
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
  readonly #answers: { readonly path: string; readonly answer: NetworkAnswer; readonly twin: NetworkAnswer }[] = [];

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
      // Its columns are filled when they are asked for.
      if (value instanceof NetworkAnswer) this.#answers.push({ path: place, answer: value, twin: value.twin() });
      else if (typeof value === 'object' && column === undefined) this.#keep(value as Record<string, unknown>, place, writable);
    }
  }

  written(): string | undefined {
    for (const { path, holder, key, value, column } of this.#copies) {
      if (!Object.is(holder[key], value)) return wrote(path, value, holder[key]);
      const written = column === undefined ? undefined : writtenColumn(path, column, value as Column);
      if (written !== undefined) return written;
    }
    for (const { path, answer, twin } of this.#answers) {
      const found = answer.difference(twin);
      if (found !== undefined) return wrote(`${path}.${found.place}`, found.was, found.is);
    }
    return undefined;
  }
}

/** What an oracle policy of somebody's own may know of the network: `site`, to be given to it in place of the simulation's. */
export class SiteWatch implements Watch {
  readonly site: NetworkSite;
  readonly #columns: ViewWatch;
  /** Columns that functions gave, where, and what they held. */
  readonly #given = new Map<Column, { readonly path: string; readonly was: Column }>();

  constructor(path: string, site: NetworkSite) {
    this.#columns = new ViewWatch({ [path]: site });
    this.site = Object.freeze({
      ...site,
      tiersFrom: (engine) => this.#give(`${path}.tiersFrom(${engine})`, site.tiersFrom(engine)),
      pathStages: (from, to) => {
        const stages = site.pathStages(from, to);
        const place = `${path}.pathStages(${from}, ${to})`;
        for (const [stage, links] of stages.entries()) this.#give(`${place}[${stage}]`, links);
        return this.#give(place, stages);
      },
    } satisfies NetworkSite);
  }

  #give<Given>(path: string, column: Given): Given {
    const given = column as Column;
    if (!this.#given.has(given)) this.#given.set(given, { path, was: given.slice() });
    return column;
  }

  written(): string | undefined {
    for (const [column, { path, was }] of this.#given) {
      const written = writtenColumn(path, was, column);
      if (written !== undefined) return written;
    }
    return this.#columns.written();
  }
}

function writtenColumn(path: string, was: Column, is: Column): string | undefined {
  for (let row = 0; row < was.length; row++) if (!Object.is(is[row], was[row])) return wrote(`${path}[${row}]`, was[row], is[row]);
  return undefined;
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
 * Whether a call is watched, a decision about a request by the request's number: none of a built-in policy, whose writes its tests would show; of others the
 * first ones and then each 16th, since to copy all columns costs as much as many a decision. So it is the same on any number of shards.
 */
export function isWatched(bound: BoundPolicy, number: number): boolean {
  return bound.source !== builtInSource && (number < 256 || number % 16 === 0);
}
