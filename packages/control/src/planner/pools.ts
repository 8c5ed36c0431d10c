import { engineRole, engineStatus, isMoving } from '@braess/protocol';
import type { PlannerActions, PlannerView, SpeedProfile } from '../policy/control-policies.js';

/** One role's active engines, summed over their last load reports. */
export interface PoolLoad {
  /** Numbers of the active engines. */
  readonly engines: readonly number[];
  readonly queuedTokens: number;
  readonly sequences: number;
  /** KV blocks in use, and with those that waiting sequences will want if they are as large as the running ones. */
  readonly usedBlocks: number;
  readonly wantedBlocks: number;
  readonly totalBlocks: number;
}

function poolLoad(view: PlannerView, role: number): PoolLoad {
  const { engines: columns, status } = view;
  const engines: number[] = [];
  const sum = { queuedTokens: 0, sequences: 0, usedBlocks: 0, wantedBlocks: 0, totalBlocks: 0 };
  for (let engine = 0; engine < columns.count; engine++) {
    if (columns.role[engine] !== role || status[engine] !== engineStatus.active) continue;
    engines.push(engine);
    sum.queuedTokens += columns.queuedTokens[engine]!;
    sum.sequences += columns.runningSequences[engine]! + columns.waitingSequences[engine]!;
    sum.usedBlocks += columns.usedBlocks[engine]!;
    sum.wantedBlocks += kvUse(view, engine) * columns.totalBlocks[engine]!;
    sum.totalBlocks += columns.totalBlocks[engine]!;
  }
  return { engines, ...sum };
}

/** (scheduled + queued) / maximum KV blocks of an engine; waiting sequences count as large as the running ones. Can pass 1; 0 before a report. */
export function kvUse({ engines }: PlannerView, engine: number): number {
  const running = engines.runningSequences[engine]!;
  const total = engines.totalBlocks[engine]!;
  if (total === 0) return 0;
  const queued = running === 0 ? 0 : (engines.usedBlocks[engine]! / running) * engines.waitingSequences[engine]!;
  return (engines.usedBlocks[engine]! + queued) / total;
}

/** Engines that drain, switch or start. */
export function movingEngines({ engines, status }: PlannerView): number {
  let moving = 0;
  for (let engine = 0; engine < engines.count; engine++) if (isMoving(status[engine]!)) moving++;
  return moving;
}

/** The engine of a pool that is quickest to drain: least queued, then fewest sequences, then the lowest number. */
function easiestToMove({ engines: columns }: PlannerView, pool: PoolLoad): number {
  let best = pool.engines[0]!;
  const sequences = (engine: number): number => columns.runningSequences[engine]! + columns.waitingSequences[engine]!;
  for (const engine of pool.engines) {
    const queued = columns.queuedTokens[engine]! - columns.queuedTokens[best]!;
    if (queued < 0 || (queued === 0 && sequences(engine) < sequences(best))) best = engine;
  }
  return best;
}

/** One engine from a pool to the other; nothing when the pool has only `least`. True when ordered. */
export function convert(view: PlannerView, actions: PlannerActions, from: PoolLoad, role: number, least = 1): boolean {
  if (from.engines.length <= least) return false;
  actions.changeRole(easiestToMove(view, from), role);
  return true;
}

/** Gives one engine of a pool back; nothing when the pool has only `least`. True when ordered. */
export function giveBack(view: PlannerView, actions: PlannerActions, from: PoolLoad, least: number): boolean {
  if (from.engines.length <= least) return false;
  actions.stopEngine(easiestToMove(view, from));
  return true;
}

/** An engine that is off, for a role: one that had it last before others, none that has just been ordered; -1 when there is none. */
export function offEngine({ engines, status }: PlannerView, role: number, ordered = -1): number {
  let found = -1;
  for (let engine = 0; engine < engines.count; engine++) {
    if (status[engine] !== engineStatus.off || engine === ordered) continue;
    if (engines.role[engine] === role) return engine;
    if (found < 0) found = engine;
  }
  return found;
}

export const prefillPool = (view: PlannerView): PoolLoad => poolLoad(view, engineRole.prefill);
export const decodePool = (view: PlannerView): PoolLoad => poolLoad(view, engineRole.decode);

/** Profile of a pool: of its first engine, else of engine 0. */
export function profileOf(view: PlannerView, pool: PoolLoad): SpeedProfile {
  return view.profiles[pool.engines[0] ?? 0] as SpeedProfile;
}
