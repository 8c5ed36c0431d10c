import type { ActorId, Context } from '@braess/kernel';
import { clientOutcomes } from '@braess/protocol';

/** Who hears how a client's requests end, and how often. */
export interface ClientListener {
  readonly actor: number;
  readonly periodNs: number;
  readonly delayNs: number;
}

/** Outcomes gathered since the last report. Plain data. */
export interface OutcomeGathering {
  cameNs: number[];
  endNs: number[];
  ttftNs: number[];
  itlNs: number[];
  /** Whether a report is due at the next multiple of the period. */
  armed: boolean;
}

export function createOutcomes(): OutcomeGathering {
  return { cameNs: [], endNs: [], ttftNs: [], itlNs: [], armed: false };
}

/** Time until the next whole multiple of the period, at least 1 ns. */
export function untilMultipleNs(nowNs: number, periodNs: number): number {
  return (Math.floor(nowNs / periodNs) + 1) * periodNs - nowNs;
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

export function sendOutcomes(outcomes: OutcomeGathering, listener: ClientListener, inFlight: number, context: Context): void {
  const { cameNs, endNs, ttftNs, itlNs } = outcomes;
  outcomes.armed = false;
  context.sendBody(
    listener.actor as ActorId,
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
