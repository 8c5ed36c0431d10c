import type { Context } from '@braess/kernel';
import type { ChunkPlan } from './chunk-options.js';
import { type ChunkNodeState, chunkToggle, type Outgoing } from './chunk-state.js';
import { createOnOffSource, toggleOnOff } from './on-off.js';

type BackgroundContext = Context<'marks' | 'background'>;

/** What a node does with a flow that starts and stops here. */
interface FlowSteps {
  readonly plan: ChunkPlan;
  forget(state: ChunkNodeState, context: BackgroundContext, flow: number): unknown;
  findWay(state: ChunkNodeState, context: BackgroundContext, flow: number, outgoing: Outgoing): void;
}

/** Bytes of an on-off flow: it never ends by itself. */
const ENDLESS_BYTES = 2 ** 52;

/** Starts the on-off background of a node. */
export function beginSources(steps: FlowSteps, state: ChunkNodeState, context: BackgroundContext): void {
  for (const [number, { source, destination, bytesPerSecond, meanOnNs, meanOffNs }] of (steps.plan.options.onOff ?? []).entries()) {
    if (source !== state.node) continue;
    const uniform = (): number => context.random('background');
    state.sources.push(createOnOffSource(source, destination, bytesPerSecond, meanOnNs, meanOffNs, 0, uniform));
    state.sourceNumbers.push(number);
    followSource(steps, state, context, state.sources.length - 1);
  }
}

/** A source goes on or off; at the end of the background it stays off. */
export function toggleSource(steps: FlowSteps, state: ChunkNodeState, context: BackgroundContext, place: number): void {
  const source = state.sources[place]!;
  if (context.now >= (steps.plan.options.onOffUntilNs as number)) source.on = false;
  else toggleOnOff(source, () => context.random('background'));
  followSource(steps, state, context, place);
}

/** Brings the flow of a source in line with its state. Its id is negative, so it is nobody's transfer. */
function followSource(steps: FlowSteps, state: ChunkNodeState, context: BackgroundContext, place: number): void {
  const untilNs = steps.plan.options.onOffUntilNs as number;
  const { on, destination, bytesPerSecond, nextChangeNs } = state.sources[place]!;
  const flow = -1 - state.sourceNumbers[place]!;
  steps.forget(state, context, flow);
  if (context.now >= untilNs) return;
  if (on) {
    const outgoing: Outgoing = {
      destination,
      startNs: context.now,
      link: -1,
      heldBytes: ENDLESS_BYTES,
      capBytesPerSecond: bytesPerSecond,
      timer: -1,
    };
    state.outgoing.set(flow, outgoing);
    steps.findWay(state, context, flow, outgoing);
  }
  context.send(context.self, chunkToggle, Math.min(nextChangeNs, untilNs) - context.now, place);
}
