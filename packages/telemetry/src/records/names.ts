/** Text that repeats (metric, policy, note names) is stored once and referred to by a small number. Plain data. */
export interface NameTable {
  /** Name by id. */
  names: string[];
  /** Id by name. */
  ids: Map<string, number>;
  maxNames: number;
}

/** `maxNames` bounds the table: ids are stored in 16 bits by the column tables, so it is at most 65,535. */
export function createNameTable(initial: readonly string[] = [], maxNames = 65_535): NameTable {
  const table: NameTable = { names: [], ids: new Map(), maxNames };
  for (const name of initial) internName(table, name);
  return table;
}

/** Id of `name`, giving it the next free id when it is new. Throws when the table is full. */
export function internName(table: NameTable, name: string): number {
  const known = table.ids.get(name);
  if (known !== undefined) return known;
  if (table.names.length >= table.maxNames) {
    throw new RangeError(
      `name table is full: "${name}" would be name ${table.names.length + 1} of at most ${table.maxNames}; use fewer distinct names (do not put request ids or numbers into them)`,
    );
  }
  const id = table.names.length;
  table.names.push(name);
  table.ids.set(name, id);
  return id;
}
