import type { ActorId, Context } from '@braess/kernel';
import { cancelTransfer, kvArrived, kvMoveBytes, noFixedKv, releaseKv, startTransfer, transferEnded } from '@braess/protocol';
import { transferDone } from '../engine.js';
import { type EngineActorState, requestKind } from './engine-actor-state.js';
import { boundaryDelayNs, type EngineScope, speechDelayNs } from './engine-scope.js';
import { dropInquiry, fetchBlocks, type Inquiry } from './onboarding.js';

/** Slots in the number of a transfer; the rest of it counts, so that a reused slot never takes another's transfer for its own. */
const transferSlots = 2 ** 20;

/** Numbers go up to 2^32 (the fabric's flow ids); by the time the count begins again, the transfers of its beginning are long over. */
const transferRounds = 2 ** 12;

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
  const dispatch = columns.request[slot]!;
  const sources = fabric.nodesOf(columns.prefillEngine[slot]!, dispatch);
  const shares = sharesOf(sources, fabric.nodesOf(context.self, dispatch));
  for (let part = 0; part < columns.transferParts[slot]!; part++) {
    const to = transferActor(scope, partNode(sources, part % shares, shares));
    context.send(to, cancelTransfer, fabric.delayNs + extraNs, columns.transfer[slot]! + part * transferSlots);
  }
}

/** How many pairs of nodes move the KV of a request side by side. */
function sharesOf(sources: readonly number[], destinations: readonly number[]): number {
  return Math.max(1, sources.length, destinations.length);
}

/** The node of a part: ranks of either side take neighbouring parts. */
function partNode(nodes: readonly number[], part: number, parts: number): number {
  return nodes[Math.floor((part * nodes.length) / parts)]!;
}

function release<Pool>(scope: EngineScope<Pool>, state: EngineActorState<Pool>, context: Context, slot: number): void {
  const from = state.columns.prefillEngine[slot]!;
  // What is still computed there is not held for this engine yet, and may be fetched by another.
  if (from < 0 || state.columns.incomplete[slot] === 1) return;
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

/** Asks for the whole KV of a request; for all but its last layer while the prompt is still computed. */
function startMove<Pool>(
  scope: EngineScope<Pool>,
  state: EngineActorState<Pool>,
  context: Context,
  slot: number,
  creditTokens: number,
): void {
  const { columns, engine } = state;
  const { kvBytesPerToken, fixedKv = noFixedKv, overlapLayers = 1 } = scope.options;
  const bytes = kvMoveBytes(engine.requests.promptTokens[slot]! - creditTokens, kvBytesPerToken, fixedKv);
  const lastBytes = columns.incomplete[slot] === 1 ? Math.ceil(bytes / overlapLayers) : 0;
  const { fabric } = scope.options;
  const [from, dispatch] = [columns.prefillEngine[slot]!, columns.request[slot]!];
  const shares = fabric === undefined || from < 0 ? 1 : sharesOf(fabric.nodesOf(from, dispatch), fabric.nodesOf(context.self, dispatch));
  const parts = lastBytes > 0 ? 2 * shares : shares;
  // Parts are numbered in a row.
  if (state.transferCount + parts > transferRounds) state.transferCount = 0;
  columns.transfer[slot] = state.transferCount * transferSlots + slot;
  columns.transferParts[slot] = parts;
  columns.partsLeft[slot] = parts;
  columns.transferStartNs[slot] = -1;
  columns.transferBytes[slot] = 0;
  columns.lastLayerBytes[slot] = lastBytes;
  state.transferCount += parts;
  moveParts(scope, state, context, slot, 0, bytes - lastBytes, boundaryDelayNs(state, context.now));
}

/** The prompt is computed: what was asked for before lacks its last layer. */
export function completeMove<Pool>(scope: EngineScope<Pool>, state: EngineActorState<Pool>, context: Context, slot: number): void {
  const { columns } = state;
  if (columns.incomplete[slot] === 0) return;
  columns.incomplete[slot] = 0;
  // What is not begun yet will be whole.
  if (columns.transfer[slot]! < 0) return;
  const first = columns.transferParts[slot]! / 2;
  moveParts(scope, state, context, slot, first, columns.lastLayerBytes[slot]!, speechDelayNs(state, context.now));
}

/** Starts the parts from `first` on, one a pair of GPUs, which together move so many bytes. */
function moveParts<Pool>(
  scope: EngineScope<Pool>,
  state: EngineActorState<Pool>,
  context: Context,
  slot: number,
  first: number,
  bytes: number,
  extraNs: number,
): void {
  const { fabric, transfer } = scope.options;
  const from = state.columns.prefillEngine[slot]!;
  const number = state.columns.transfer[slot]! + first * transferSlots;
  if (fabric !== undefined && from >= 0) {
    const dispatch = state.columns.request[slot]!;
    const [sources, destinations] = [fabric.nodesOf(from, dispatch), fabric.nodesOf(context.self, dispatch)];
    const shares = sharesOf(sources, destinations);
    for (let part = 0; part < shares; part++) {
      const source = partNode(sources, part, shares);
      const partBytes = Math.round(((part + 1) * bytes) / shares) - Math.round((part * bytes) / shares);
      context.send(
        transferActor(scope, source),
        startTransfer,
        fabric.delayNs + extraNs,
        number + part * transferSlots,
        source,
        partNode(destinations, part, shares),
        shares === 1 ? bytes : partBytes,
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
  const ended = columns.transferBytes[slot]!;
  if (status !== 0) {
    if (columns.transferParts[slot]! > 1) cancelParts(scope, state, context, slot, speechDelayNs(state, context.now));
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
  const { rules, kvBytesPerToken } = scope.options;
  if (fetchedBlocks === 0) inquiry.lost = true;
  columns.fetchBytes[inquiry.slot] = columns.fetchBytes[inquiry.slot]! + fetchedBlocks * rules.blockTokens * kvBytesPerToken;
  if (--inquiry.fetching > 0) return;
  columns.fetchNs[inquiry.slot] = context.now - inquiry.fetchStartNs;
  let presentTokens = (inquiry.fromBlock + inquiry.take) * rules.blockTokens;
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
