import { z } from 'zod';
import { defineOraclePolicy } from '../policy/control-policies.js';
import { answerByTier, answerKnown, congestionParameters, createLinkLoads, noteLink, tierKnowledge } from './link-congestion.js';
import { networkTiers } from './site.js';

const idle = new Float64Array(networkTiers);
const byTier = z.array(z.number().positive()).length(networkTiers).optional();

/** What reads link counters: the period, and how links become tiers. */
export const counterParameters = {
  /** Period of the counters, 0.1 to 60 s. */
  seconds: z.number().min(0.1).max(60).default(1),
  ...congestionParameters,
};

export const counterPeriodNs = ({ seconds }: { readonly seconds: number }): number => Math.round(seconds * 1e9);

export const staticTierOracle = defineOraclePolicy({
  name: 'static-tier',
  writesAll: true,
  description: 'Topology distance with the bandwidth and latency of each tier; hears of no load.',
  parameters: z.strictObject({
    /** By tier: same node, rack, pod, across pods, across zones; default what the topology states. */
    bytesPerSecond: byTier,
    latencyNs: byTier,
  }),
  answer(question, answer, { bytesPerSecond, latencyNs }) {
    answerByTier(question, answer, question.site.tiersFrom(question.prefillEngine), idle, bytesPerSecond, latencyNs);
  },
});

export const exactOracle = defineOraclePolicy({
  name: 'exact',
  writesAll: true,
  description: 'The load of every link at each change, as late as the messages that tell it.',
  parameters: z.strictObject(congestionParameters),
  linkReportNs: () => 0,
  createState: createLinkLoads,
  observe: (observation, _parameters, state) => noteLink(state, observation),
  publish: (view, parameters, state) => ({ madeAtNs: view.nowNs, knowledge: tierKnowledge(view, state, parameters) }),
  answer: (question, answer, _parameters, knowledge) => answerKnown(question, answer, knowledge),
});

export const periodicOracle = defineOraclePolicy({
  name: 'periodic',
  writesAll: true,
  description: 'One congestion number a tier from the counters of its links, read each period: as old as the period.',
  parameters: z.strictObject(counterParameters),
  linkReportNs: (given) => counterPeriodNs(given),
  beatNs: (given) => counterPeriodNs(given),
  createState: createLinkLoads,
  observe: (observation, _parameters, state) => noteLink(state, observation),
  publish: (view, parameters, state) => ({ madeAtNs: view.nowNs, knowledge: tierKnowledge(view, state, parameters) }),
  answer: (question, answer, _parameters, knowledge) => answerKnown(question, answer, knowledge),
});
