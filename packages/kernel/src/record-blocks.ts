// Taken before the guards hide it from handlers.
const atomics = Atomics;

const blockCount = 4;
const blockDoubles = 1 << 16;
/** A flag a block (1 = in use), on a cache line of their own. */
const flagBytes = 64;

/** Where the columns of a batch of records lie: a block and how many doubles of it, or, when none was free or large enough, a copy. */
export type RecordColumns = { readonly block: number; readonly length: number } | Float64Array;

/**
 * Blocks of shared memory in which a shard hands its records to the coordinator. Both use them again and again: fresh memory for every batch, three
 * times over (packed, sent, received), costs more than filling it, most of all where the system has to find the pages first.
 */
export class RecordBlocks {
  readonly #flags: Int32Array<SharedArrayBuffer>;
  readonly #doubles: Float64Array<SharedArrayBuffer>;

  constructor(buffer: SharedArrayBuffer) {
    this.#flags = new Int32Array(buffer, 0, blockCount);
    this.#doubles = new Float64Array(buffer, flagBytes);
  }

  static create(): SharedArrayBuffer {
    return new SharedArrayBuffer(flagBytes + blockCount * blockDoubles * 8);
  }

  /** For the shard: columns on their way. `columns` may be used again at once. */
  put(columns: Float64Array): RecordColumns {
    const { length } = columns;
    for (let block = 0; block < blockCount && length <= blockDoubles; block++) {
      if (atomics.load(this.#flags, block) !== 0) continue;
      this.#doubles.set(columns, block * blockDoubles);
      atomics.store(this.#flags, block, 1);
      return { block, length };
    }
    return columns.slice();
  }

  /** For the coordinator: hands the columns to `read`, which must be done with them when it returns. */
  take<T>(columns: RecordColumns, read: (columns: Float64Array) => T): T {
    if (columns instanceof Float64Array) return read(columns);
    const start = columns.block * blockDoubles;
    try {
      return read(this.#doubles.subarray(start, start + columns.length));
    } finally {
      atomics.store(this.#flags, columns.block, 0);
    }
  }
}
