import type { ActorId, Context } from '@braess/kernel';
import { cancelTransfer, kvArrived, releaseKv, startTransfer, transferEnded } from '@braess/protocol';
import { transferDone } from '../engine.js';
import { type EngineActorState, requestKind } from './engine-actor-state.js';
import { boundaryDelayNs, type EngineScope, speechDelayNs } from './engine-scope.js';
import { dropInquiry, fetchBlocks, type Inquiry } from './onboarding.js';

/** Slots in the number of a transfer; the rest of it counts, so that a reused slot never takes another's transfer for its own. */
const transferSlots = 2 ** 20;

/** Gives up what is on its way to a request: a transfer, or blocks of the tiers. */
export function abandonKv<Pool>(
  scope: EngineScope<Pool>,
  state: EngineActorState<Pool>,
  context: Context,
  slot: number,
  extraNs: number,
): void {
  const { columns } = state;
  if (columns.inquiry[slot]! >= 0) dropInquiry(scope, state, context, columns.inquiry[slot]!);
  columns.inquiry[slot] = -1;
  // A decode that has its KV has released it; before, the prefill engine holds it for nobody else.
  if (columns.kind[slot] !== requestKind.decodeOnly || columns.transferEndNs[slot]! >= 0) return;
  if (columns.transfer[slot]! >= 0) cancelParts(scope, state, context, slot, extraNs);
  columns.transfer[slot] = -1;
  release(scope, state, context, slot);
}

/** Gives up the parts of a transfer; one that has ended is not known any more. */
function cancelParts<Pool>(scope: EngineScope<Pool>, state: EngineActorState<Pool>, context: Context, slot: number, extraNs: number): void {
  const { columns } = state;
  const { fabric } = scope.options;
  if (fabric === undefined) return;
  const parts = columns.transferParts[slot]!;
  const sources = fabric.nodesOf(columns.prefillEngine[slot]!);
  for (let part = 0; part < parts; part++) {
    const to = transferActor(scope, partNode(sources, part, parts));
    context.send(to, cancelTransfer, fabric.delayNs + extraNs, columns.transfer[slot]! + part * transferSlots);
  }
}

/** The node of a part: ranks of either side take neighbouring parts. */
function partNode(nodes: readonly number[], part: number, parts: number): number {
  return nodes[Math.floor((part * nodes.length) / parts)]!;
}

function release<Pool>(scope: EngineScope<Pool>, state: EngineActorState<Pool>, context: Context, slot: number): void {
  const from = state.columns.prefillEngine[slot]!;
  if (from < 0) return;
  state.columns.prefillEngine[slot] = -1;
  context.send(from as ActorId, releaseKv, scope.options.serverDelayNs, state.columns.request[slot]!);
}

/** Blocks are reserved: fetches what the tiers hold, or starts the transfer from the prefill engine. */
export function bringKv<Pool>(
  scope: EngineScope<Pool>,
  state: EngineActorState<Pool>,
  context: Context,
  slot: number,
  creditTokens: number,
): void {
  const { columns } = state;
  const question = columns.inquiry[slot]!;
  if (question >= 0) {
    const inquiry = state.inquiries.get(question) as Inquiry;
    if (fetchBlocks(scope, state, context, question, inquiry, creditTokens / scope.options.rules.blockTokens) > 0) return;
    state.inquiries.delete(question);
    columns.inquiry[slot] = -1;
    transferDone(state.engine, scope.options.blocks, slot, context.now, creditTokens);
    return;
  }
  startMove(scope, state, context, slot, creditTokens);
}

function startMove<Pool>(
  scope: EngineScope<Pool>,
  state: EngineActorState<Pool>,
  context: Context,
  slot: number,
  creditTokens: number,
): void {
  const { columns, engine } = state;
  const { fabric, transfer, kvBytesPerToken } = scope.options;
  const from = columns.prefillEngine[slot]!;
  const bytes = (engine.requests.promptTokens[slot]! - creditTokens) * kvBytesPerToken;
  const number = state.transferCount * transferSlots + slot;
  const viaFabric = fabric !== undefined && from >= 0;
  const [sources, destinations] = viaFabric ? [fabric.nodesOf(from), fabric.nodesOf(context.self)] : [noNodes, noNodes];
  const parts = Math.max(1, sources.length, destinations.length);
  state.transferCount += parts;
  columns.transfer[slot] = number;
  columns.transferParts[slot] = parts;
  columns.partsLeft[slot] = parts;
  columns.transferStartNs[slot] = -1;
  columns.transferBytes[slot] = viaFabric ? 0 : bytes;
  if (viaFabric) {
    const delayNs = fabric.delayNs + boundaryDelayNs(state, context.now);
    for (let part = 0; part < parts; part++) {
      const source = partNode(sources, part, parts);
      const partBytes = Math.round(((part + 1) * bytes) / parts) - Math.round((part * bytes) / parts);
      context.send(
        transferActor(scope, source),
        startTransfer,
        delayNs,
        number + part * transferSlots,
        source,
        partNode(destinations, part, parts),
        parts === 1 ? bytes : partBytes,
        1,
      );
    }
    return;
  }
  const { latencyNs, bytesPerSecond } = transfer ?? { latencyNs: 0, bytesPerSecond: 50e9 };
  const moveNs = from < 0 ? 0 : latencyNs + Math.ceil((bytes / bytesPerSecond) * 1e9);
  context.send(context.self, transferEnded, moveNs, number, 0, context.now, bytes, -1, context.now + moveNs);
}

/** A transfer is over: the request decodes, or fails when its KV did not arrive. */
export function endMove<Pool>(
  scope: EngineScope<Pool>,
  state: EngineActorState<Pool>,
  context: Context,
  number: number,
  status: number,
  startNs: number,
  movedBytes: number,
  networkTier: number,
): number {
  const { columns, engine, totals } = state;
  const slot = number % transferSlots;
  // Of a request that was cancelled or lost meanwhile.
  if (slot >= columns.capacity || columns.transfer[slot]! < 0) return -1;
  const part = (number - columns.transfer[slot]!) / transferSlots;
  if (!(part >= 0 && part < columns.transferParts[slot]!)) return -1;
  const ended = columns.transferParts[slot] === 1 ? 0 : columns.transferBytes[slot]!;
  if (status !== 0) {
    if (columns.transferParts[slot]! > 1) cancelParts(scope, state, context, slot, boundaryDelayNs(state, context.now));
    columns.transfer[slot] = -1;
    release(scope, state, context, slot);
    return slot;
  }
  const firstNs = columns.transferStartNs[slot]!;
  columns.transferStartNs[slot] = firstNs < 0 ? startNs : Math.min(firstNs, startNs);
  columns.transferBytes[slot] = ended + movedBytes;
  columns.networkTier[slot] = Math.max(columns.networkTier[slot]!, networkTier);
  totals.transferBytes += movedBytes;
  columns.partsLeft[slot] = columns.partsLeft[slot]! - 1;
  if (columns.partsLeft[slot]! > 0) return -1;
  columns.transfer[slot] = -1;
  release(scope, state, context, slot);
  columns.transferEndNs[slot] = context.now;
  if (scope.options.arrivalReports === true) {
    const delayNs = scope.options.controlDelayNs + speechDelayNs(state, context.now);
    context.send(columns.frontend[slot] as ActorId, kvArrived, delayNs, columns.request[slot]!);
  }
  transferDone(engine, scope.options.blocks, slot, context.now);
  // After the passes that are over have taken their blocks.
  scope.options.blocks.computed?.(engine.pool, slot, engine.requests.promptTokens[slot]! - 1);
  return -1;
}

/** The blocks of the tiers have arrived: the rest of the prompt is computed. */
export function endFetch<Pool>(
  scope: EngineScope<Pool>,
  state: EngineActorState<Pool>,
  context: Context,
  question: number,
  inquiry: Inquiry,
  fetchedBlocks: number,
): void {
  const { engine, columns } = state;
  if (fetchedBlocks === 0) inquiry.lost = true;
  if (--inquiry.fetching > 0) return;
  let presentTokens = (inquiry.fromBlock + inquiry.take) * scope.options.rules.blockTokens;
  if (inquiry.lost) {
    // Blocks that did not come leave a gap: only what HBM held is of use.
    presentTokens = engine.requests.cachedTokens[inquiry.slot]!;
    for (const tier of columns.tierTokens) tier[inquiry.slot] = 0;
  }
  state.inquiries.delete(question);
  columns.inquiry[inquiry.slot] = -1;
  transferDone(engine, scope.options.blocks, inquiry.slot, context.now, presentTokens);
  scope.options.blocks.computed?.(engine.pool, inquiry.slot, presentTokens);
}

/** Who takes the transfers that leave a node. */
function transferActor<Pool>(scope: EngineScope<Pool>, node: number): ActorId {
  return (scope.options.fabric?.endpointOf?.(node) ?? scope.fabricId.list[0]) as ActorId;
}

const noNodes: readonly number[] = [];
