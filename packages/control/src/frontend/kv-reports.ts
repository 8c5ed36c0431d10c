import type { KvEventColumns } from '@braess/protocol';
import { engineOf } from './engines.js';
import type { FrontendSettings } from './options.js';
import type { FrontendState } from './state.js';

interface Report {
  readonly sender: number;
  readonly sequence: number;
}

interface Removal extends Report {
  readonly block0: number;
  readonly block1: number;
  readonly block2: number;
  readonly block3: number;
}

/** Takes what an engine's cache gained and lost. */
export function takeKvEvents(settings: FrontendSettings, state: FrontendState, report: Report & { readonly body: KvEventColumns }): void {
  const { overlap } = settings;
  if (isLost(state) || overlap === undefined) return;
  overlap.apply(state.overlap, engineTold(state, report), report.body);
}

/** Takes the few blocks that it lost. */
export function takeKvRemoved(settings: FrontendSettings, state: FrontendState, report: Removal): void {
  const { overlap } = settings;
  if (isLost(state) || overlap === undefined) return;
  const engine = engineTold(state, report);
  overlap.remove(state.overlap, engine, report.block0);
  // One by one: most reports name one block, and a list of them would be made for each.
  if (report.block1 > 0) overlap.remove(state.overlap, engine, report.block1);
  if (report.block2 > 0) overlap.remove(state.overlap, engine, report.block2);
  if (report.block3 > 0) overlap.remove(state.overlap, engine, report.block3);
}

function isLost(state: FrontendState): boolean {
  if (state.telemetryLost) state.counters.droppedReports++;
  return state.telemetryLost;
}

/** Number of the engine that reports; notes a gap in its sequence. */
function engineTold({ engines, counters }: FrontendState, { sender, sequence }: Report): number {
  const engine = engineOf(engines, sender);
  const before = engines.kvSequence[engine]!;
  if (before >= 0 && sequence !== before + 1) counters.kvEventGaps++;
  engines.kvSequence[engine] = sequence;
  return engine;
}
