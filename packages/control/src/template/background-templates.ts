import type { TemplateText } from './policy-template.js';

export const plannerTemplate: TemplateText = {
  source: `
import { definePlannerPolicy, engineRole, engineStatus } from '@braess/control';
import { z } from 'zod';

/** Called every period while load reports come in; orders go out through \`actions\`. */
export default definePlannerPolicy({
  name: '@name@',
  description: 'Turns an idle decode engine into a prefill engine while prompts pile up.',
  parameters: z.strictObject({
    periodMs: z.number().positive().default(10_000),
    /** Reported prompt tokens waiting per prefill engine above which one is added. */
    queuedTokens: z.number().positive().default(50_000),
  }),
  periodNs: ({ periodMs }) => Math.round(periodMs * 1e6),
  plan(view, actions, parameters) {
    const { engines, status } = view;
    let prefillEngines = 0;
    let queuedTokens = 0;
    let idle = -1;
    for (let engine = 0; engine < engines.count; engine++) {
      if (status[engine] !== engineStatus.active) continue;
      if (engines.role[engine] === engineRole.prefill) {
        prefillEngines++;
        queuedTokens += engines.queuedTokens[engine]!;
      } else if (engines.reportedAtNs[engine]! >= 0 && engines.runningSequences[engine] === 0) idle = engine;
    }
    if (idle >= 0 && queuedTokens > prefillEngines * parameters.queuedTokens) actions.changeRole(idle, engineRole.prefill);
  },
});
`,
  test: `
import assert from 'node:assert/strict';
import test from 'node:test';
import { createEngineView, loadPolicy } from '@braess/control';

const { policy, parameters } = loadPolicy('planner', { policy: './@name@.ts' }, { baseDirectory: import.meta.dirname });

function plan(queuedTokens) {
  const engines = createEngineView([
    { role: 1, queuedTokens, reportedAtNs: 5 },
    { role: 2, runningSequences: 3, reportedAtNs: 5 },
    { role: 2, runningSequences: 0, reportedAtNs: 5 },
  ]);
  const orders = [];
  const actions = { changeRole: (engine, role) => orders.push([engine, role]), startEngine: assert.fail, stopEngine: assert.fail };
  policy.plan({ nowNs: 10, engines, status: [0, 0, 0], profiles: [], blockTokens: 16, contextTokens: 4096 }, actions, parameters, null, () => 0);
  return orders;
}

test('@name@ moves the idle engine when prompts pile up, and only then', () => {
  assert.deepEqual(plan(60_000), [[2, 1]]);
  assert.deepEqual(plan(40_000), []);
});
`,
};

export const oracleTemplate: TemplateText = {
  source: `
import { defineOraclePolicy } from '@braess/control';
import { z } from 'zod';

/** Predicts the KV transfer to each candidate. What it does not write stays unknown. */
export default defineOraclePolicy({
  name: '@name@',
  description: 'A fixed bandwidth, shared by as many flows as the busiest link last reported.',
  parameters: z.strictObject({
    gigabytesPerSecond: z.number().positive().default(50),
  }),
  createState: () => ({ flows: new Map<number, number>() }),
  observe(observation, _parameters, state) {
    state.flows.set(observation.link, observation.flows);
  },
  answer(question, answer, { gigabytesPerSecond }, state) {
    let flows = 0;
    for (const count of state.flows.values()) flows = Math.max(flows, count);
    for (let place = 0; place < question.count; place++) {
      // Bytes over gigabytes a second are nanoseconds.
      answer.transferNs[question.candidates[place]!] = (question.transferBytes / gigabytesPerSecond) * (1 + flows);
    }
  },
});
`,
  test: `
import assert from 'node:assert/strict';
import test from 'node:test';
import { loadPolicy } from '@braess/control';

const { policy, parameters } = loadPolicy('oracle', { policy: './@name@.ts' }, { baseDirectory: import.meta.dirname });

test('@name@ expects a slower transfer when a link reports flows', () => {
  const state = policy.createState(parameters, 3);
  const question = { nowNs: 0, prefillEngine: 0, transferBytes: 5000, candidates: [2], count: 1 };
  const ask = () => {
    const answer = { tier: new Float64Array(3), transferNs: new Float64Array(3), congestion: new Float64Array(3) };
    policy.answer(question, answer, parameters, state, () => 0);
    return answer.transferNs[2];
  };
  assert.equal(ask(), 100);
  policy.observe({ nowNs: 0, link: 1, utilisation: 1, transferBytes: 0, flows: 3, marks: 0, pausedNs: 0 }, parameters, state);
  assert.equal(ask(), 400);
});
`,
};

export const controllerTemplate: TemplateText = {
  source: `
import { defineControllerPolicy } from '@braess/control';
import { z } from 'zod';

/** Sees scraped metrics; returns new router parameters, or null to change nothing. */
export default defineControllerPolicy({
  name: '@name@',
  description: 'Spreads requests wider while a smoothed metric is above its limit.',
  parameters: z.strictObject({
    metric: z.string().default('ttft_p99_ms'),
    limit: z.number().default(1000),
    /** Weight of the newest value in the moving average. */
    weight: z.number().gt(0).max(1).default(0.3),
  }),
  createState: () => ({ average: Number.NaN, hot: false }),
  decide(view, { metric, limit, weight }, state) {
    const value = view.metrics.get(metric);
    if (value === undefined) return null;
    state.average = Number.isNaN(state.average) ? value : state.average + weight * (value - state.average);
    const hot = state.average > limit;
    if (hot === state.hot) return null;
    state.hot = hot;
    return { tau: hot ? 0.5 : 0 };
  },
});
`,
  test: `
import assert from 'node:assert/strict';
import test from 'node:test';
import { loadPolicy } from '@braess/control';

const { policy, parameters } = loadPolicy('controller', { policy: './@name@.ts' }, { baseDirectory: import.meta.dirname });

test('@name@ switches once when the average crosses the limit, and back', () => {
  const state = policy.createState(parameters);
  const see = (value) => policy.decide({ nowNs: 0, metrics: new Map([['ttft_p99_ms', value]]) }, parameters, state, () => 0);
  assert.deepEqual([see(500), see(500), see(4000), see(4000), see(0), see(0), see(0), see(0)], [null, null, { tau: 0.5 }, null, null, null, { tau: 0 }, null]);
});
`,
};

export const evictionTemplate: TemplateText = {
  source: `
import { defineEvictionPolicy } from '@braess/control';
import { z } from 'zod';

interface State {
  /** Nodes that nobody holds, oldest first. */
  idle: number[];
}

/** \`create\` returns the functions that the KV cache calls; \`view\` and \`node\` are explained at EvictionPolicy of @braess/kvbm. */
export default defineEvictionPolicy({
  name: '@name@',
  description: 'Evicts the block that was released last.',
  parameters: z.strictObject({}),
  create: () => ({
    name: '@name@',
    parameters: {},
    createState: (): State => ({ idle: [] }),
    reserve: () => undefined,
    stored: () => undefined,
    acquired: (state: State, _view: unknown, node: number) => drop(state, node),
    released: (state: State, _view: unknown, node: number) => void state.idle.push(node),
    removed: (state: State, _view: unknown, node: number) => drop(state, node),
    victim: (state: State) => state.idle[state.idle.length - 1] ?? -1,
  }),
});

function drop(state: State, node: number): void {
  const place = state.idle.lastIndexOf(node);
  if (place >= 0) state.idle.splice(place, 1);
}
`,
  test: `
import assert from 'node:assert/strict';
import test from 'node:test';
import { loadPolicy } from '@braess/control';

const { policy, parameters } = loadPolicy('eviction', { policy: './@name@.ts' }, { baseDirectory: import.meta.dirname });

test('@name@ evicts what was released last and is not held again', () => {
  const functions = policy.create(parameters);
  const state = functions.createState(8, 8, {});
  const view = {};
  assert.equal(functions.victim(state, view), -1);
  for (const node of [1, 2, 3]) functions.released(state, view, node);
  functions.acquired(state, view, 3);
  assert.equal(functions.victim(state, view), 2);
  functions.removed(state, view, 2);
  assert.equal(functions.victim(state, view), 1);
});
`,
};
