/**
 * How far each shard may run: the conservative bound. A shard's first event lies at `firstNs`; a message of shard i reaches shard j no earlier
 * than max(first event of i + direct lookahead, promised silence of i towards j), where the first event of i may itself come from
 * another shard. The bound of j is the earliest possible arrival over all such chains, the way from j back to itself included.
 *
 * Solved by label setting (Dijkstra): every hop moves time forward, so the shard with the least label is final.
 */
export class WindowBounds {
  /** For each shard, events strictly before this are safe to run. */
  readonly boundNs: Float64Array;
  readonly #shardCount: number;
  readonly #directNs: Float64Array;
  readonly #labels: Float64Array;
  readonly #final: Uint8Array;

  /** @param directNs shards x shards, cheapest direct delay, Infinity where nothing can pass. */
  constructor(shardCount: number, directNs: Float64Array) {
    this.#shardCount = shardCount;
    this.#directNs = directNs;
    this.boundNs = new Float64Array(shardCount);
    this.#labels = new Float64Array(shardCount);
    this.#final = new Uint8Array(shardCount);
  }

  /** @param firstNs first event by shard. @param silentUntilNs shards x shards, promised silence (0 for none). */
  compute(firstNs: Float64Array, silentUntilNs: Float64Array): void {
    const count = this.#shardCount;
    // A loop, since a call of `fill` or `set` costs more than a handful of stores, and rounds are short.
    for (let shard = 0; shard < count; shard++) {
      this.#labels[shard] = firstNs[shard] as number;
      this.#final[shard] = 0;
      this.boundNs[shard] = Number.POSITIVE_INFINITY;
    }
    for (let settled = 0; settled < count; settled++) {
      const from = this.#leastOpen();
      this.#final[from] = 1;
      const label = this.#labels[from] as number;
      if (label === Number.POSITIVE_INFINITY) return;
      for (let to = 0; to < count; to++) {
        if (to === from) continue;
        const arrivalNs = Math.max(label + (this.#directNs[from * count + to] as number), silentUntilNs[from * count + to] as number);
        if (arrivalNs < (this.boundNs[to] as number)) this.boundNs[to] = arrivalNs;
        if (this.#final[to] === 0 && arrivalNs < (this.#labels[to] as number)) this.#labels[to] = arrivalNs;
      }
    }
  }

  #leastOpen(): number {
    let least = -1;
    for (let shard = 0; shard < this.#shardCount; shard++) {
      if (this.#final[shard] === 0 && (least < 0 || (this.#labels[shard] as number) < (this.#labels[least] as number))) least = shard;
    }
    return least;
  }
}
