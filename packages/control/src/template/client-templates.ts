import type { TemplateText } from './policy-template.js';

export const clientTemplate: TemplateText = {
  source: `
import { defineClientPolicy } from '@braess/control';
import { z } from 'zod';

/** Decides when requests of the workload are sent. */
export default defineClientPolicy({
  name: '@name@',
  description: 'Keeps a number of requests in flight, with a random pause before each next one.',
  parameters: z.strictObject({
    inFlight: z.int().positive().default(8),
    pauseMs: z.number().nonnegative().default(100),
  }),
  createState: () => ({ next: 0 }),
  start(view, actions, { inFlight }, state) {
    while (state.next < Math.min(inFlight, view.requests)) actions.submit(state.next++, 0);
  },
  settled(view, _request, _outcome, actions, { pauseMs }, state, random) {
    if (state.next < view.requests) actions.submit(state.next++, Math.round(random() * pauseMs * 1e6));
  },
});
`,
  test: `
import assert from 'node:assert/strict';
import test from 'node:test';
import { loadPolicy } from '@braess/control';

const spec = { policy: './@name@.ts', parameters: { inFlight: 2, pauseMs: 10 } };
const { policy, parameters } = loadPolicy('client', spec, { baseDirectory: import.meta.dirname });

test('@name@ sends two requests at once, then one for each that ends', () => {
  const state = policy.createState(parameters, 3);
  const view = { nowNs: 0, requests: 3, arrivalNs: [0, 0, 0] };
  const sent = [];
  const actions = { submit: (request, delayNs) => sent.push([request, delayNs]), wake: () => undefined };
  policy.start(view, actions, parameters, state, () => 0.5);
  for (const request of [0, 1, 2]) policy.settled(view, request, 0, actions, parameters, state, () => 0.5);
  assert.deepEqual(sent, [[0, 0], [1, 0], [2, 5_000_000]]);
});
`,
};

export const actorTemplate: TemplateText = {
  source: `
import { defineActorPolicy } from '@braess/control';
import { actorKind, message, record } from '@braess/kernel';
import { z } from 'zod';

const tick = message('@identifier@Tick');
const beat = record('@identifier@Beat', ['count']);

/** A whole actor: it may send any message to the actors in \`setting.actors\`, whose ids are known inside state functions and handlers. */
export default defineActorPolicy({
  name: '@name@',
  description: 'Emits a record at a fixed period, a number of times.',
  parameters: z.strictObject({
    periodMs: z.number().positive().default(1000),
    times: z.int().positive().default(10),
  }),
  build(cell, { periodMs, times }) {
    const periodNs = Math.round(periodMs * 1e6);
    const kind = actorKind({
      name: '@name@',
      messages: { @identifier@Tick: tick },
      state: () => ({ count: 0 }),
      start: (_state, context) => {
        context.timer(tick, periodNs);
      },
      on: {
        @identifier@Tick: (state, _message, context) => {
          context.emit(beat, ++state.count);
          if (state.count < times) context.timer(tick, periodNs);
        },
      },
    });
    cell.actor('@name@', kind, undefined);
  },
});
`,
  test: `
import assert from 'node:assert/strict';
import test from 'node:test';
import { loadPolicy } from '@braess/control';
import { defineProgram, modelOf, Simulation } from '@braess/kernel';

const spec = { policy: './@name@.ts', parameters: { periodMs: 2, times: 3 } };
const { policy, parameters } = loadPolicy('actor', spec, { baseDirectory: import.meta.dirname });

test('@name@ emits its records at the right times', () => {
  const program = defineProgram(undefined, 'test', (world) => policy.build(world.cell('control'), parameters, { actors: new Map() }, world));
  const simulation = new Simulation(modelOf(program, undefined), { strict: true, keepRecords: true });
  simulation.runUntil();
  assert.deepEqual(simulation.takeRecords().map(({ timeNs, fields }) => [timeNs, fields[0]]), [[2e6, 1], [4e6, 2], [6e6, 3]]);
});
`,
};
