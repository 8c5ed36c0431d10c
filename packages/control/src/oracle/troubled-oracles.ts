import { z } from 'zod';
import { defineOraclePolicy } from '../policy/control-policies.js';
import type { Random } from '../policy/policy.js';
import { answerKnown, createLinkLoads, type LinkLoads, noteLink, type TierKnowledge, tierKnowledge } from './link-congestion.js';
import { networkTiers } from './site.js';
import { counterParameters, counterPeriodNs } from './tier-oracles.js';

/** Readings of the tiers: moments, and tiers one row after the other. Plain data. */
interface History {
  readonly links: LinkLoads;
  /** Whether reports came since the last reading. */
  news: boolean;
  atNs: number[];
  rows: number[];
}

const createHistory = (): History => ({ links: createLinkLoads(), news: false, atNs: [], rows: [] });

/** Adds a row; a second one of the same moment replaces the first. */
function remember(history: History, nowNs: number, congestion: Float64Array, most: number): void {
  if (history.atNs.at(-1) === nowNs) {
    history.atNs.pop();
    history.rows.length -= networkTiers;
  }
  history.atNs.push(nowNs);
  history.rows.push(...congestion);
  if (history.atNs.length <= most) return;
  history.atNs.shift();
  history.rows.splice(0, networkTiers);
}

/** Least squares line through the rows, read off at a later moment. */
function forecast(history: History, tier: number, atNs: number): number {
  const { atNs: times, rows } = history;
  const count = times.length;
  const value = (row: number): number => rows[row * networkTiers + tier]!;
  let meanNs = 0;
  let mean = 0;
  for (let row = 0; row < count; row++) {
    meanNs += times[row]! / count;
    mean += value(row) / count;
  }
  let spread = 0;
  let slope = 0;
  for (let row = 0; row < count; row++) {
    spread += (times[row]! - meanNs) * (times[row]! - meanNs);
    slope += (times[row]! - meanNs) * (value(row) - mean);
  }
  return spread === 0 ? mean : mean + (slope / spread) * (atNs - meanNs);
}

export const trendOracle = defineOraclePolicy({
  name: 'trend',
  writesAll: true,
  description: 'The congestion of each tier that a straight line through its last readings leads to.',
  parameters: z.strictObject({
    ...counterParameters,
    /** Readings the line is drawn through. */
    readings: z.int().min(2).max(64).default(5),
    /** How far ahead of the last reading it is read off; default half a period, the mean age at use. */
    aheadSeconds: z.number().min(0).optional(),
  }),
  linkReportNs: (given) => counterPeriodNs(given),
  beatNs: (given) => counterPeriodNs(given),
  createState: createHistory,
  observe(observation, _parameters, state) {
    noteLink(state.links, observation);
    state.news = true;
  },
  publish(view, parameters, state) {
    const { readings, aheadSeconds = parameters.seconds / 2, ceiling } = parameters;
    const { congestion, links } = tierKnowledge(view, state.links, parameters);
    // A beat without reports is no reading: the old numbers at a new time would bend the line.
    if (state.news) remember(state, view.nowNs, congestion, readings);
    state.news = false;
    if (state.atNs.length === 0) return { madeAtNs: view.nowNs, knowledge: { congestion, links } };
    const ahead = state.atNs.at(-1)! + aheadSeconds * 1e9;
    const expected = congestion.map((_, tier) => Math.min(ceiling, Math.max(0, forecast(state, tier, ahead))));
    return { madeAtNs: view.nowNs, knowledge: { congestion: expected, links } };
  },
  answer: (question, answer, _parameters, knowledge) => answerKnown(question, answer, knowledge),
});

/** Adds a uniform error of at most `error` to each number, within 0 and the ceiling. */
function disturbed(values: Float64Array, error: number, ceiling: number, random: Random): Float64Array {
  return values.map((value) => Math.min(ceiling, Math.max(0, value + error * (2 * random() - 1))));
}

export const noisyOracle = defineOraclePolicy({
  name: 'noisy',
  writesAll: true,
  description: 'As periodic, with an error of up to so much in each congestion number, drawn anew each time.',
  parameters: z.strictObject({
    ...counterParameters,
    /** Greatest error, as a share of the capacity: uniform between less and more. */
    error: z.number().min(0).max(1).default(0.2),
  }),
  linkReportNs: (given) => counterPeriodNs(given),
  beatNs: (given) => counterPeriodNs(given),
  createState: createLinkLoads,
  observe: (observation, _parameters, state) => noteLink(state, observation),
  publish(view, parameters, state, random) {
    const { error, ceiling } = parameters;
    const { congestion, links } = tierKnowledge(view, state, parameters);
    const knowledge = {
      congestion: disturbed(congestion, error, ceiling, random),
      links: links === null ? null : disturbed(links, error, ceiling, random),
    };
    return { madeAtNs: view.nowNs, knowledge };
  },
  answer: (question, answer, _parameters, knowledge) => answerKnown(question, answer, knowledge),
});

/** What a liar says: the slowest tier is idle, all others are full. */
function lie(knowledge: TierKnowledge, bandwidths: ArrayLike<number>, ceiling: number): TierKnowledge {
  const known = Array.from(bandwidths).filter((bandwidth) => bandwidth > 0);
  const congestion = Float64Array.from(bandwidths, (bandwidth) => (bandwidth === Math.min(...known) ? 0 : ceiling));
  return { congestion, links: knowledge.links?.map((load) => ceiling - load) ?? null };
}

/** What a slow oracle knew: moments, and what there was to say then. Plain data. */
interface Past {
  readonly links: LinkLoads;
  readonly atNs: number[];
  readonly known: TierKnowledge[];
}

/** Adds what is known now, and drops what is older than the newest that is old enough. */
function keepPast({ atNs, known }: Past, nowNs: number, knowledge: TierKnowledge, slowNs: number): void {
  const again = atNs.at(-1) === nowNs ? 1 : 0;
  atNs.splice(atNs.length - again, again, nowNs);
  known.splice(known.length - again, again, knowledge);
  let old = 0;
  while (old + 1 < atNs.length && atNs[old + 1]! <= nowNs - slowNs) old++;
  atNs.splice(0, old);
  known.splice(0, old);
}

export const failingOracle = defineOraclePolicy({
  name: 'failing',
  writesAll: true,
  description: 'As periodic until a moment; from then on down, slow or lying, for good or for a while.',
  parameters: z
    .strictObject({
      ...counterParameters,
      mode: z.enum(['down', 'slow', 'lying']).default('down'),
      fromSeconds: z.number().min(0).default(0),
      /** When it is well again; default never. */
      untilSeconds: z.number().positive().optional(),
      /** Age of what it says while it is slow. */
      slowSeconds: z.number().positive().default(30),
    })
    .refine(({ fromSeconds, untilSeconds }) => untilSeconds === undefined || untilSeconds > fromSeconds, {
      path: ['untilSeconds'],
      message: 'must be above fromSeconds, or it never fails',
    }),
  linkReportNs: (given) => counterPeriodNs(given),
  beatNs: (given) => counterPeriodNs(given),
  createState: (): Past => ({ links: createLinkLoads(), atNs: [], known: [] }),
  observe: (observation, _parameters, state) => noteLink(state.links, observation),
  publish(view, parameters, state) {
    const { mode, fromSeconds, untilSeconds = Number.POSITIVE_INFINITY, slowSeconds, ceiling } = parameters;
    const { nowNs, site } = view;
    const knowledge = tierKnowledge(view, state.links, parameters);
    const failing = nowNs >= fromSeconds * 1e9 && nowNs < untilSeconds * 1e9;
    if (mode === 'slow') keepPast(state, nowNs, knowledge, slowSeconds * 1e9);
    if (!failing) return { madeAtNs: nowNs, knowledge };
    if (mode === 'down') return null;
    if (mode === 'lying') return { madeAtNs: nowNs, knowledge: lie(knowledge, site.tierBytesPerSecond, ceiling) };
    return { madeAtNs: state.atNs[0]!, knowledge: state.known[0]! };
  },
  answer: (question, answer, _parameters, knowledge) => answerKnown(question, answer, knowledge),
});
