import { z } from 'zod';
import { defineOraclePolicy, type OracleView } from '../policy/control-policies.js';
import { answerByTier } from './link-congestion.js';
import { networkTiers } from './site.js';

/** Round trips of one pair in a rolling window; plain data. */
interface RoundTrips {
  atNs: number[];
  ns: number[];
}

interface PingState {
  /** By pair: from x engines + to. */
  readonly pairs: Map<number, RoundTrips>;
  /** Distance by pair as last measured, -1 for never. */
  tiers: Int8Array;
}

/** Calls for each pair that KV may move between: sources are named by the frontends' candidates later, so every pair of engines on two places counts. */
function eachPair({ engines, site }: OracleView, call: (from: number, to: number) => void): void {
  for (let from = 0; from < engines; from++) {
    if (!site.isSource(from)) continue;
    for (let to = 0; to < engines; to++) if (to !== from && site.isTarget(to)) call(from, to);
  }
}

function median(values: readonly number[]): number {
  const sorted = values.slice().sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** Probes come no closer together: more would measure little but each other. */
const leastSeconds = 0.1;
const mostSeconds = 3600;

const idle = new Float64Array(networkTiers);

export const rttMedianOracle = defineOraclePolicy({
  name: 'rtt-median',
  writesAll: true,
  description: 'Pings each pair; the median round trip of a rolling window says the tier. Knows no topology and no load.',
  parameters: z
    .strictObject({
      seconds: z.number().min(leastSeconds).max(mostSeconds).default(10),
      windowSeconds: z.number().positive().default(60),
      probeBytes: z.int().positive().max(1e12).default(64),
      /** Round trips, us, at which the next tier begins, shortest first. */
      cutsUs: z
        .array(z.number().positive())
        .min(1)
        .max(4)
        .refine((cuts) => cuts.every((cut, place) => place === 0 || cut > cuts[place - 1]!), {
          error: ({ input }) => `is ${JSON.stringify(input)}; each cut must be above the one before: sort them`,
        })
        .default([50, 200]),
      /** Network distance that each of the classes between the cuts stands for; default rack, pod, across pods. */
      tiers: z
        .array(
          z
            .int()
            .min(0)
            .max(networkTiers - 1),
        )
        .min(1)
        .default([1, 2, 3]),
    })
    .refine(({ cutsUs, tiers }) => tiers.length === cutsUs.length + 1, {
      path: ['tiers'],
      error: ({ input }) => {
        const { cutsUs, tiers } = input as { cutsUs: readonly number[]; tiers: readonly number[] };
        return `has ${tiers.length} entries for the ${cutsUs.length + 1} classes that ${cutsUs.length} cuts make; give cutsUs one fewer than tiers`;
      },
    }),
  beatNs: ({ seconds }) => Math.round(seconds * 1e9),
  createState: (_parameters, engines): PingState => ({ pairs: new Map(), tiers: new Int8Array(engines * engines).fill(-1) }),
  beat(view, actions, { probeBytes }) {
    eachPair(view, (from, to) => actions.probe(from, to, probeBytes, probeBytes));
  },
  probed(observation, { windowSeconds, cutsUs, tiers }, state) {
    const { from, to, forthNs, backNs, lost, nowNs } = observation;
    if (lost) return;
    const pair = from * Math.round(Math.sqrt(state.tiers.length)) + to;
    const trips = state.pairs.get(pair) ?? { atNs: [], ns: [] };
    trips.atNs.push(nowNs);
    trips.ns.push(forthNs + backNs);
    while (trips.atNs[0]! < nowNs - windowSeconds * 1e9) {
      trips.atNs.shift();
      trips.ns.shift();
    }
    state.pairs.set(pair, trips);
    const us = median(trips.ns) / 1e3;
    state.tiers[pair] = tiers[cutsUs.filter((cut) => us >= cut).length]!;
  },
  publish: (view, _parameters, state) => ({ madeAtNs: view.nowNs, knowledge: { engines: view.engines, tiers: state.tiers } }),
  answer(question, answer, _parameters, { engines, tiers }) {
    const first = question.prefillEngine * engines;
    answerByTier(question, answer, tiers.subarray(first, first + engines), idle);
  },
});

interface Measured {
  /** By tier: smoothed bandwidth of the probes, NaN before the first; and which pair's turn it is. */
  bytesPerSecond: Float64Array;
  turn: Float64Array;
  beats: number;
}

/** Tiers in turn, and the pairs of a tier in turn: a probe each beat, so that probes do not measure each other. */
function nextPair(view: OracleView, state: Measured): readonly [number, number] | undefined {
  const tier = state.beats++ % networkTiers;
  // Counted, then looked up: a list of them would be as large as the square of the cluster.
  const ofTier = (call: (from: number, to: number) => void): void => {
    eachPair(view, (from, to) => {
      if (view.site.tierBetween(from, to) === tier) call(from, to);
    });
  };
  let pairs = 0;
  ofTier(() => pairs++);
  if (pairs === 0) return undefined;
  let left = state.turn[tier]!++ % pairs;
  let found: readonly [number, number] | undefined;
  ofTier((from, to) => {
    if (left-- === 0) found = [from, to];
  });
  return found;
}

export const activeOracle = defineOraclePolicy({
  name: 'active',
  writesAll: true,
  description: 'Measures each tier with a transfer of its own between one pair after the other: sees the true share, and takes some of it.',
  parameters: z.strictObject({
    /** Time from one probe of a tier to the next; those of other tiers fall in between. */
    seconds: z.number().min(leastSeconds).max(mostSeconds).default(10),
    /** Size of a probe, 10^6 bytes. */
    megabytes: z.number().min(1e-6).max(1e6).default(64),
    /** Weight of the newest probe in the moving average. */
    weight: z.number().gt(0).max(1).default(0.5),
    ceiling: z.number().gt(0).lt(1).default(0.99),
  }),
  beatNs: ({ seconds }) => Math.max(1, Math.round((seconds * 1e9) / networkTiers)),
  createState: (): Measured => ({
    bytesPerSecond: new Float64Array(networkTiers).fill(Number.NaN),
    turn: new Float64Array(networkTiers),
    beats: 0,
  }),
  beat(view, actions, { megabytes }, state) {
    const pair = nextPair(view, state);
    if (pair !== undefined) actions.probe(pair[0], pair[1], Math.round(megabytes * 1e6), 0);
  },
  probed(observation, { weight }, state) {
    const { from, to, forthNs, forthBytes, lost, site } = observation;
    const tier = site.tierBetween(from, to);
    const moveNs = forthNs - site.tierLatencyNs[tier]!;
    const measured = lost || !(moveNs > 0) ? 0 : (forthBytes * 1e9) / moveNs;
    const before = state.bytesPerSecond[tier]!;
    state.bytesPerSecond[tier] = Number.isNaN(before) ? measured : before + weight * (measured - before);
  },
  publish(view, { ceiling }, state) {
    const { tierBytesPerSecond, flowsPerTransfer } = view.site;
    // A probe is one flow.
    const congestion = state.bytesPerSecond.map((measured, tier) =>
      Number.isNaN(measured) ? 0 : Math.min(ceiling, Math.max(0, 1 - (measured * flowsPerTransfer) / tierBytesPerSecond[tier]!)),
    );
    return { madeAtNs: view.nowNs, knowledge: { congestion } };
  },
  answer(question, answer, _parameters, { congestion }) {
    answerByTier(question, answer, question.site.tiersFrom(question.prefillEngine), congestion);
  },
});
