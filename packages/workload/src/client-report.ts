import type { ActorId, Context } from '@braess/kernel';
import { clientOutcomes, type MeasureListener } from '@braess/protocol';

/** Outcomes gathered since the last report. Plain data. */
export interface OutcomeGathering {
  cameNs: number[];
  endNs: number[];
  ttftNs: number[];
  itlNs: number[];
  /** Whether a report is due at the next moment of the listener. */
  armed: boolean;
}

export function createOutcomes(): OutcomeGathering {
  return { cameNs: [], endNs: [], ttftNs: [], itlNs: [], armed: false };
}

/** What `settled` told of a request's tokens; -1 for never. */
export interface TokenTimes {
  readonly firstTokenNs: number;
  readonly lastTokenNs: number;
  readonly outputTokens: number;
}

export function noteOutcome(outcomes: OutcomeGathering, cameNs: number, endNs: number, times: TokenTimes | undefined): void {
  const { firstTokenNs = -1, lastTokenNs = -1, outputTokens = 0 } = times ?? {};
  outcomes.cameNs.push(cameNs);
  outcomes.endNs.push(endNs);
  outcomes.ttftNs.push(firstTokenNs < 0 ? -1 : firstTokenNs - cameNs);
  outcomes.itlNs.push(lastTokenNs < 0 || outputTokens < 2 ? -1 : (lastTokenNs - firstTokenNs) / (outputTokens - 1));
}

export function sendOutcomes(outcomes: OutcomeGathering, listener: MeasureListener, inFlight: number, context: Context): void {
  const { cameNs, endNs, ttftNs, itlNs } = outcomes;
  outcomes.armed = false;
  context.sendBody(
    listener.actor.id as ActorId,
    clientOutcomes,
    listener.delayNs,
    {
      cameNs: Float64Array.from(cameNs),
      endNs: Float64Array.from(endNs),
      ttftNs: Float64Array.from(ttftNs),
      itlNs: Float64Array.from(itlNs),
    },
    inFlight,
  );
  outcomes.cameNs = [];
  outcomes.endNs = [];
  outcomes.ttftNs = [];
  outcomes.itlNs = [];
}
