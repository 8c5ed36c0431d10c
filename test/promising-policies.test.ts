import { describe, expect, it } from 'vitest';
import { createProject, smallScenario } from './small-cluster.js';

const project = createProject();
project.write('small.yaml', smallScenario);

/** Does nothing with what it is told. */
const silent = ['stored', 'acquired', 'released', 'removed'].map((name) => `${name}: () => undefined`).join(', ');

// Not declared async, so that only what it returns shows it. What would come of it after the call would not be part of the run.
describe('a policy that returns a promise stops the run', () => {
  it.each([
    ['Router', 'choose: () => Promise.resolve(0)', '2 candidates), returned [object Promise], which is no candidate', 'router.policy=FILE'],
    [
      'Admission',
      'admit: () => Promise.resolve(true)',
      'returned [object Promise]; return true or false',
      'router.admission={policy: FILE}',
    ],
    ['Planner', 'timesNs: () => [5e8], plan: () => Promise.resolve()', '3 decode), returned a promise', 'planner.policy=FILE'],
    ['Oracle', 'answer: () => Promise.resolve()', 'asked about the KV transfer of request', 'router.oracle={policy: FILE}'],
    ['Oracle', 'beat: () => Promise.resolve(), answer: () => undefined', 'at its beat, returned a promise', 'router.oracle={policy: FILE}'],
    ['Controller', 'decide: () => Promise.resolve(null)', 'returned a promise', 'controller={policy: FILE, periodSeconds: 1}'],
    [
      'Client',
      'start: (view, actions) => { actions.submit(0, 0); return Promise.resolve(); }',
      'asked to start, returned a promise',
      'workload.client={kind: policy, policy: FILE}',
    ],
    [
      'Eviction',
      `create: () => ({ name: 'late', parameters: {}, createState: () => ({}), reserve: () => undefined, ${silent}, victim: () => Promise.resolve(-1) })`,
      'returned a promise',
      'serving[0]={count: 2, role: prefill, blockTokens: 64, kvBlocks: 40, eviction: FILE}',
    ],
  ])('%s: %s', async (kind, functions, fault, setting) => {
    const file = project.write(
      `late-${kind}.mjs`,
      `import { define${kind}Policy } from '@braess/control';
import { z } from 'zod';
export default define${kind}Policy({ name: 'late', description: 'Promises.', parameters: z.strictObject({}), ${functions} });
`,
    );
    const settings = [setting.replace('FILE', file), 'router.decode={policy: netkv}'];
    const failure = await project.run('small.yaml', settings).then(String, (error: Error) => error.message);
    expect(failure).toContain(`${kind.toLowerCase()} policy 'late`);
    expect(failure).toContain(file);
    expect(failure).toContain(fault);
  });
});
