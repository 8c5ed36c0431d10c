import { z } from 'zod';
import { defineOraclePolicy } from '../policy/control-policies.js';
import { byReport } from '../router/decode/choose.js';
import { addWorkSeconds, missingShare } from '../router/decode/costs.js';
import { answerKnown, createLinkLoads, noteLink, tierKnowledge } from './link-congestion.js';
import { counterParameters, counterPeriodNs } from './tier-oracles.js';

export const costTripleOracle = defineOraclePolicy({
  name: 'cost-triple',
  writesAll: true,
  description:
    'Three costs a candidate: compute (s of queue and next pass), cache (share of the prompt not held), network (s of transfer).',
  parameters: z.strictObject({
    ...counterParameters,
    /** Load by the frontend's own account, or by the engines' last load reports. */
    load: z.enum(['account', 'report']).default('report'),
  }),
  readsReports: (given) => byReport(given),
  linkReportNs: (given) => counterPeriodNs(given),
  beatNs: (given) => counterPeriodNs(given),
  createState: createLinkLoads,
  observe: (observation, _parameters, state) => noteLink(state, observation),
  publish: (view, parameters, state) => ({ madeAtNs: view.nowNs, knowledge: tierKnowledge(view, state, parameters) }),
  answer(question, answer, { load }, knowledge) {
    answerKnown(question, answer, knowledge);
    const { candidates, count, inputTokens, transferBytes, fixedBytes } = question;
    const fixedShare = fixedBytes / transferBytes;
    addWorkSeconds(question, inputTokens, load === 'report', null, answer.computeCost);
    for (let place = 0; place < count; place++) {
      const engine = candidates[place]!;
      const missing = missingShare(question, engine, inputTokens);
      answer.cacheCost[engine] = missing;
      const latencyNs = answer.latencyNs[engine]!;
      const moved = missing + (1 - missing) * fixedShare;
      answer.networkCost[engine] = ((answer.transferNs[engine]! - latencyNs) * moved + latencyNs) / 1e9;
    }
  },
});
