import { routerStage } from '../policy/router-policy.js';
import { activeBlocks, prefillBlocks } from '../router/kv.js';
import { decisionColumns, routingDecision } from './request-records.js';
import type { FrontendContext, FrontendDesk, FrontendState } from './state.js';

/** Emits what a decision saw: the chosen engine and those with the best scores, in that order. */
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
  context.emitBody(routingDecision, { policy, rows }, state.decisions++, request.request, view.stage, view.count);
}

function recordedCandidates(desk: FrontendDesk, chosen: number, most: number): number[] {
  const { view } = desk;
  const others: number[] = [];
  for (let place = 0; place < view.count; place++) if (view.candidates[place] !== chosen) others.push(view.candidates[place]!);
  const key = (engine: number): number => {
    const score = view.scores[engine]!;
    return Number.isNaN(score) ? Number.POSITIVE_INFINITY : score;
  };
  others.sort((a, b) => (key(a) === key(b) ? a - b : key(a) - key(b)));
  return [chosen, ...others].slice(0, most);
}
