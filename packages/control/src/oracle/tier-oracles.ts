import { z } from 'zod';
import { defineOraclePolicy } from '../policy/control-policies.js';
import { answerByTier, congestionParameters, createLinkCongestion, noteLink, tierCongestion } from './link-congestion.js';
import { networkTiers } from './site.js';

const idle = new Float64Array(networkTiers);
const byTier = z.array(z.number().positive()).length(networkTiers).optional();

export const staticTierOracle = defineOraclePolicy({
  name: 'static-tier',
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
  description: 'The load of every link at each change, as late as the message that tells it.',
  parameters: z.strictObject(congestionParameters),
  linkReportNs: () => 0,
  createState: createLinkCongestion,
  observe(observation, _parameters, state) {
    noteLink(state, observation);
  },
  answer(question, answer, parameters, state) {
    answerByTier(question, answer, question.site.tiersFrom(question.prefillEngine), tierCongestion(state, question, parameters));
  },
});

export const periodicOracle = defineOraclePolicy({
  name: 'periodic',
  description: 'One congestion number a tier from the counters of its links, read each period: as old as the period.',
  parameters: z.strictObject({
    /** Period of the counters, 0.1 to 60 s. */
    seconds: z.number().min(0.1).max(60).default(1),
    ...congestionParameters,
  }),
  linkReportNs: ({ seconds }) => Math.round(seconds * 1e9),
  createState: createLinkCongestion,
  observe(observation, _parameters, state) {
    noteLink(state, observation);
  },
  answer(question, answer, parameters, state) {
    answerByTier(question, answer, question.site.tiersFrom(question.prefillEngine), tierCongestion(state, question, parameters));
  },
});
