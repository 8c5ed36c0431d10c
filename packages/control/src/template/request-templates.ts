import type { TemplateText } from './policy-template.js';

export const routerTemplate: TemplateText = {
  source: `
import { defineRouterPolicy } from '@braess/control';
import { z } from 'zod';

/** Cost of an engine for a request: the lowest wins, ties at random. Use \`choose\` instead of \`cost\` to pick an engine yourself. */
export default defineRouterPolicy({
  name: '@name@',
  description: 'Fewest prompt tokens to compute, less a bonus for each cached block.',
  parameters: z.strictObject({
    /** Tokens that a cached block is worth. */
    bonusTokens: z.number().nonnegative().default(16),
  }),
  // What is not listed here is not computed for the view.
  reads: { overlap: true },
  cost(view, engine, request, { bonusTokens }) {
    return view.engines.activePrefillTokens[engine]! + request.inputTokens - bonusTokens * view.overlapBlocks[engine]!;
  },
});
`,
  test: `
import assert from 'node:assert/strict';
import test from 'node:test';
import { chooseEngine, createRouterView, loadPolicy, routerStage } from '@braess/control';

const load = (parameters) => loadPolicy('router', { policy: './@name@.ts', parameters }, { baseDirectory: import.meta.dirname });
const request = { request: 1, inputTokens: 64, outputTokens: 10, tenant: 0, priority: 0, attempt: 1 };
const view = createRouterView({
  stage: routerStage.prefill,
  blockTokens: 16,
  engines: [{ activePrefillTokens: 100, overlapBlocks: 3 }, { activePrefillTokens: 70 }, { activePrefillTokens: 500 }],
});

test('@name@ weighs cached blocks against load', () => {
  assert.equal(chooseEngine(load({}), view, request, null, () => 0), 0);
  assert.equal(chooseEngine(load({ bonusTokens: 0 }), view, request, null, () => 0), 1);
});

test('@name@ refuses parameters that it does not know', () => {
  assert.throws(() => load({ bonus: 1 }), /it takes bonusTokens/);
});
`,
};

export const admissionTemplate: TemplateText = {
  source: `
import { defineAdmissionPolicy } from '@braess/control';
import { z } from 'zod';

/** Decides whether a request may enter: true lets it in, false rejects it. */
export default defineAdmissionPolicy({
  name: '@name@',
  description: 'Rejects long prompts while many requests are in flight.',
  parameters: z.strictObject({
    maxInFlight: z.int().positive().default(256),
    longTokens: z.int().positive().default(8192),
  }),
  admit(view, request, { maxInFlight, longTokens }) {
    return view.inFlight < maxInFlight || request.inputTokens < longTokens;
  },
});
`,
  test: `
import assert from 'node:assert/strict';
import test from 'node:test';
import { createEngineView, loadPolicy } from '@braess/control';

const { policy, parameters } = loadPolicy('admission', { policy: './@name@.ts' }, { baseDirectory: import.meta.dirname });
const request = { request: 1, inputTokens: 10_000, outputTokens: 10, tenant: 0, priority: 0, attempt: 1 };
const admit = (inFlight, inputTokens) =>
  policy.admit({ nowNs: 0, inFlight, waiting: 0, engines: createEngineView([{}]) }, { ...request, inputTokens }, parameters, null, () => 0);

test('@name@ rejects a long prompt under load only', () => {
  assert.equal(admit(10, 10_000), true);
  assert.equal(admit(256, 10_000), false);
  assert.equal(admit(256, 100), true);
});
`,
};
