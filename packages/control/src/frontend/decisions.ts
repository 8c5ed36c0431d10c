import type { AdmissionView } from '../policy/control-policies.js';
import { routerStage } from '../policy/router-policy.js';
import { activeBlocks, prefillBlocks } from '../router/kv.js';
import type { FrontendSettings } from './options.js';
import { admissionDecision, decisionColumns, routingDecision } from './request-records.js';
import type { FrontendContext, FrontendDesk, FrontendState } from './state.js';

/** Whether the decisions about a request are recorded. */
export function isRecorded({ decisions }: FrontendSettings, request: number): boolean {
  return decisions.every > 0 && request % decisions.every === 0;
}

/** Emits what a routing decision saw: the chosen engine and those with the best scores, in that order. */
export function recordDecision(desk: FrontendDesk, state: FrontendState, context: FrontendContext, chosen: number, policy: string): void {
  const { view, request, settings } = desk;
  const listed = recordedCandidates(desk, chosen, settings.decisions.candidates);
  const rows = new Float64Array(listed.length * decisionColumns.length);
  for (const [row, engine] of listed.entries()) {
    const reportedNs = state.engines.reportedAtNs[engine]!;
    rows.set(
      [
        state.engines.actors[engine]!,
        engine === chosen ? 1 : 0,
        view.scores[engine]!,
        view.overlapBlocks[engine]!,
        view.stage === routerStage.decode ? Number.NaN : prefillBlocks(view, engine, request),
        activeBlocks(view, engine, request),
        view.network === null ? Number.NaN : view.network.transferNs[engine]! / 1e6,
        view.network === null ? Number.NaN : view.network.congestion[engine]!,
        view.network === null ? -1 : view.network.tier[engine]!,
        reportedNs < 0 ? -1 : view.nowNs - reportedNs,
      ],
      row * decisionColumns.length,
    );
  }
  context.emitBody(routingDecision, { policy, rows }, request.request, view.stage, view.count);
}

/** Emits what an admission policy answered, and saw. */
export function recordAdmission(context: FrontendContext, view: AdmissionView, request: number, admitted: boolean, policy: string): void {
  const { count, activePrefillTokens } = view.engines;
  let tokens = 0;
  for (let engine = 0; engine < count; engine++) tokens += activePrefillTokens[engine]!;
  context.emitBody(admissionDecision, { policy }, request, admitted ? 1 : 0, view.inFlight, view.waiting, tokens);
}

/** The chosen one and those of the lowest scores, of equal ones the first: few of what may be thousands, so each is put in its place at once. */
function recordedCandidates({ view }: FrontendDesk, chosen: number, most: number): number[] {
  const { candidates, count, scores } = view;
  const listed = [chosen];
  const keys = [Number.NEGATIVE_INFINITY];
  for (let place = 0; place < count; place++) {
    const engine = candidates[place]!;
    const score = scores[engine]!;
    const key = Number.isNaN(score) ? Number.POSITIVE_INFINITY : score;
    if (engine === chosen || (listed.length >= most && !(key < keys[most - 1]!))) continue;
    let at = Math.min(listed.length, most - 1);
    for (; at > 1 && key < keys[at - 1]!; at--) {
      listed[at] = listed[at - 1]!;
      keys[at] = keys[at - 1]!;
    }
    listed[at] = engine;
    keys[at] = key;
  }
  return listed;
}
