import type { ActorId, Context } from '@braess/kernel';
import { engineRole, fewBlocks, type KvEventColumns, kvEventKind, kvEvents, kvRemoved, offload, offloadFew } from '@braess/protocol';
import { quietGrowth } from '../blocks.js';
import { growthAhead } from '../engine.js';
import { type EngineActorState, heardEvictions } from './engine-actor-state.js';
import type { EngineTiers } from './engine-options.js';
import { type EngineScope, engineEventsDue, speechDelayNs, unknownDelay, untilMultipleNs } from './engine-scope.js';

/** KV events go out at once (period 0) or at the end of the period. A period is also awaited where decodes may evict unseen before the next event. */
export function tendEvents<Pool>(scope: EngineScope<Pool>, state: EngineActorState<Pool>, context: Context, extraNs: number): void {
  const { blocks, kvEvents: reports } = scope.options;
  if (blocks.pendingEvents === undefined || state.eventsSet) return;
  const { engine } = state;
  const pending = blocks.pendingEvents(engine.pool) > 0;
  const periodNs = reports?.periodNs ?? 0;
  if (periodNs === 0) {
    if (pending) sendEvents(scope, state, context, extraNs === unknownDelay ? speechDelayNs(state, context.now) : extraNs);
    return;
  }
  if (!pending && (engine.decodeCount === 0 || isQuiet(scope, state))) return;
  state.eventsSet = true;
  context.timer(engineEventsDue, untilMultipleNs(context.now, periodNs));
}

/** Whether nothing that is heard of is evicted before the engine's next event. */
function isQuiet<Pool>({ options }: EngineScope<Pool>, state: EngineActorState<Pool>): boolean {
  const growth = growthAhead(state.engine);
  const heard = heardEvictions(options, state.tiers.length) ?? 'named';
  return quietGrowth(options.blocks, state.engine.pool, heard, growth) >= growth;
}

export function sendEvents<Pool>(scope: EngineScope<Pool>, state: EngineActorState<Pool>, context: Context, extraNs: number): void {
  const { blocks } = scope.options;
  const { pool } = state.engine;
  if (blocks.pendingEvents!(pool) === 0) return;
  const removed = blocks.takeRemovals?.(pool, removedBlocks) ?? -1;
  if (removed >= 0) {
    sendRemoved(scope, state, context, extraNs, removed);
    return;
  }
  const taken = blocks.takeEvents!(pool);
  sendOffload(scope, state, context, taken);
  const to = scope.eventsTo.list;
  const named = namedRows(taken);
  if (to.length === 0 || named === 0) return;
  const sequence = state.kvSequence++;
  // Lost ones leave a gap in the sequence numbers.
  if (state.telemetryLost) return;
  for (let index = 0; index < to.length; index++) {
    const columns = named === taken.kinds.length && index === to.length - 1 ? taken : copyNamed(taken, named);
    context.sendBody(to[index] as ActorId, kvEvents, scope.options.controlDelayNs + extraNs, columns, context.self, sequence);
  }
}

/** Names of removed blocks; reused, never state. */
const removedBlocks = new Float64Array(fewBlocks);

/** Tells of `removed` blocks, those of `removedBlocks` among them, where that is all there is to tell. */
function sendRemoved<Pool>(
  scope: EngineScope<Pool>,
  state: EngineActorState<Pool>,
  context: Context,
  extraNs: number,
  removed: number,
): void {
  const block0 = removedBlocks[0]!;
  const block1 = removedBlocks[1]!;
  const block2 = removedBlocks[2]!;
  const block3 = removedBlocks[3]!;
  if (offloadNow(scope, state) === 'on-eviction')
    context.send(
      state.tiers[0] as ActorId,
      offloadFew,
      tierDelayNs(scope, state),
      removed,
      kvBytes(scope, removed),
      block0,
      block1,
      block2,
      block3,
    );
  const to = scope.eventsTo.list;
  if (to.length === 0 || block0 === 0) return;
  const sequence = state.kvSequence++;
  if (state.telemetryLost) return;
  const delayNs = scope.options.controlDelayNs + extraNs;
  for (let index = 0; index < to.length; index++)
    context.send(to[index] as ActorId, kvRemoved, delayNs, sequence, block0, block1, block2, block3);
}

/** Rows a router can use: not those of blocks that nobody can look up (how they are grouped depends on when the engine was looked at). */
function namedRows(columns: KvEventColumns): number {
  let rows = 0;
  for (let row = 0; row < columns.kinds.length; row++) if (isNamed(columns, row)) rows++;
  return rows;
}

function isNamed(columns: KvEventColumns, row: number): boolean {
  return columns.identities[row]! > 0 || columns.kinds[row] === kvEventKind.cleared;
}

function copyNamed(columns: KvEventColumns, rows: number): KvEventColumns {
  const copy = {
    kinds: new Uint8Array(rows),
    identities: new Float64Array(rows),
    parents: new Float64Array(rows),
    blocks: new Int32Array(rows),
  };
  for (let row = 0, at = 0; at < rows; row++) {
    if (!isNamed(columns, row)) continue;
    copy.kinds[at] = columns.kinds[row]!;
    copy.identities[at] = columns.identities[row]!;
    copy.parents[at] = columns.parents[row]!;
    copy.blocks[at++] = columns.blocks[row]!;
  }
  return copy;
}

/** What is copied down to the first tier now. A decode engine's blocks came from where they are kept already. */
function offloadNow<Pool>({ options: { tiers } }: EngineScope<Pool>, state: EngineActorState<Pool>): EngineTiers['offload'] {
  return tiers === undefined || state.tiers.length === 0 || state.engine.role === engineRole.decode ? 'never' : tiers.offload;
}

/** Copies to the first tier what was stored (write-through) or evicted since the last time. */
function sendOffload<Pool>(scope: EngineScope<Pool>, state: EngineActorState<Pool>, context: Context, columns: KvEventColumns): void {
  const mode = offloadNow(scope, state);
  if (mode === 'never') return;
  const wanted = mode === 'write-through' ? kvEventKind.stored : kvEventKind.removed;
  const { kinds } = columns;
  let named = 0;
  let blocks = 0;
  for (let row = 0; row < kinds.length; row++) {
    if (kinds[row] !== wanted) continue;
    blocks += columns.blocks[row]!;
    if (columns.identities[row]! > 0) named++;
  }
  if (blocks === 0) return;
  const list = { identities: new Float64Array(named), parents: new Float64Array(named) };
  for (let row = 0, at = 0; row < kinds.length; row++) {
    if (kinds[row] !== wanted || !(columns.identities[row]! > 0)) continue;
    list.identities[at] = columns.identities[row]!;
    list.parents[at++] = columns.parents[row]!;
  }
  context.sendBody(state.tiers[0] as ActorId, offload, tierDelayNs(scope, state), list, blocks, kvBytes(scope, blocks));
}

function kvBytes<Pool>({ options: { rules, kvBytesPerToken } }: EngineScope<Pool>, blocks: number): number {
  return blocks * rules.blockTokens * kvBytesPerToken;
}

/** Delay of messages to the first tier. */
function tierDelayNs<Pool>({ options }: EngineScope<Pool>, state: EngineActorState<Pool>): number {
  const tiers = options.tiers as EngineTiers;
  return tiers.lastIsRemote && state.tiers.length === 1 ? tiers.remoteDelayNs : tiers.localDelayNs;
}
