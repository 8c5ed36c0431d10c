import { type EngineState, passKind } from './engine-state.js';
import { elapsedNs } from './timing.js';

/** What of the pass in progress is over at a moment. */
export interface PassProgress {
  /** Time since it began, ns, 0 where the engine is idle; of prompts that are computed independently, since the first of those that overlap. */
  ns: number;
  /** The same as a share of the whole pass. */
  share: number;
  /** Tokens of the whole pass. */
  tokens: number;
}

/** Reads the pass in progress into `progress`; the passes that are over by `nowNs` have been settled. */
export function passProgress<Pool>(engine: EngineState<Pool>, nowNs: number, progress: PassProgress): void {
  progress.ns = 0;
  progress.share = 0;
  progress.tokens = 0;
  const { passKind: kind, anchorNs, curve, passesDone } = engine;
  if (kind === passKind.none) {
    if (engine.promptsSinceNs >= 0) progress.ns = nowNs - engine.promptsSinceNs;
    return;
  }
  const mixed = kind === passKind.mixed;
  const beganNs = mixed ? anchorNs : anchorNs + elapsedNs(curve, passesDone);
  const endNs = mixed ? engine.mixedEndNs : anchorNs + elapsedNs(curve, passesDone + 1);
  progress.ns = Math.min(nowNs, endNs) - beganNs;
  progress.share = progress.ns / (endNs - beganNs);
  progress.tokens = mixed ? engine.mixedDecodes : engine.decodeCount;
  if (mixed) for (let chunk = 0; chunk < engine.chunkCount; chunk++) progress.tokens += engine.chunkTokens[chunk]!;
}
