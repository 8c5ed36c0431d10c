import type { KvEventColumns } from '@braess/protocol';
import { type BlockAccounting, type CountingPool, countingBlocks, createCountingPool } from '../blocks.js';

/**
 * The KV blocks of an engine actor: what the scheduler asks of them, and what the actor adds. Requests are named by their slot in the engine: a
 * small dense integer, unique while the request lives, so an adapter keeps columns rather than maps. Constant functions over plain state.
 *
 * Course of a slot: `open`, then any number of (`admit`, `computed`..., `release`), as preemption releases and admits again, then `close`.
 */
export interface EngineBlocks<Pool> extends BlockAccounting<Pool> {
  /**
   * An empty pool; part of the actor's state, so plain data. Without `wantsEvents` nobody will ask for KV events; only with `wantsAnonymous` (there is a tier
   * below) for those of blocks that nobody can look up.
   */
  createPool(capacityBlocks: number, blockTokens: number, wantsEvents: boolean, wantsAnonymous: boolean): Pool;
  /** A request enters; `chain` names its full blocks (null: nothing shared). The array is the pool's to keep until `close`. `request` is its number, for errors. */
  open(pool: Pool, slot: number, chain: Float64Array | null, request: number): void;
  /** The request is gone; its blocks were released before. */
  close(pool: Pool, slot: number): void;
  /** Everything is lost: the engine died. All slots were released and closed before. */
  clear(pool: Pool): void;
  /** Leading blocks of a chain that HBM holds, without any effect; needed where there are tiers below. */
  match?(pool: Pool, chain: Float64Array): number;
  /** Rows of KV events waiting. */
  pendingEvents?(pool: Pool): number;
  /** Takes the waiting KV events out, as columns of their own (kinds are `kvEventKind` of the protocol). */
  takeEvents?(pool: Pool): KvEventColumns;
  /**
   * Takes the waiting KV events out if they tell of nothing but removed blocks, of which no more can be looked up than fit into `named`: writes the identities
   * of those, 0 behind them, and returns how many blocks were removed. Otherwise returns -1, with nothing changed.
   */
  takeRemovals?(pool: Pool, named: Float64Array): number;
}

/** Blocks that are only counted: no prefix cache, no events. */
export const countingEngineBlocks: EngineBlocks<CountingPool> = {
  ...countingBlocks,
  createPool: createCountingPool,
  open() {},
  close() {},
  clear() {},
};
