import { describe, expect, it } from 'vitest';
import { createProject, smallScenario } from './small-cluster.js';

const project = createProject();
project.write('scenario.yaml', smallScenario);

describe('a policy that writes to what is known of the network', () => {
  const scribbler = (kind: string, body: string): string =>
    project.write(
      'policies/network-scribbler.ts',
      `import { define${kind}Policy } from '@braess/control';
import { z } from 'zod';
export default define${kind}Policy({ name: 'scribbler', description: 'Writes where it should only read.', parameters: z.strictObject({}), ${body} } as any);
`,
    );
  const choosing = (body: string): string =>
    `reads: { network: true }, choose: (view: any) => { if (view.network !== null) { ${body} } return view.candidates[0]; }`;
  const silent = 'answer: () => {}';

  it.each([
    ['Router', choosing('view.network.transferNs[view.candidates[0]] = 5;'), 'wrote to view.network.transferNs['],
    ['Router', choosing('view.network.pathCongestion[0] = 0.5;'), 'wrote to view.network.pathCongestion[0] (it was NaN, and is now 0.5)'],
    ['Router', choosing('view.network.byTier.congestion[3] = 0.25;'), 'wrote to view.network.byTier.congestion[3] (it was '],
    ['Router', choosing('view.network = null;'), 'wrote to view.network;'],
    ['Router', choosing('view.network.tier = [];'), 'which has only a getter'],
    [
      'Oracle',
      'answer: (question: any) => { question.site.tierBytesPerSecond[2] = 1; }',
      'wrote to question.site.tierBytesPerSecond[2] (it was ',
    ],
    [
      'Oracle',
      'answer: (question: any) => { question.site.tiersFrom(question.prefillEngine)[0] = 3; }',
      '.tiersFrom(0)[0] (it was 0, and is now 3)',
    ],
    [
      'Oracle',
      'answer: (question: any) => { question.site.pathStages(0, 1)[0][0] = 9; }',
      'wrote to question.site.pathStages(0, 1)[0][0] (it was ',
    ],
    ['Oracle', 'answer: (question: any) => { question.site.tiersFrom = () => []; }', 'read only property'],
    ['Oracle', `observe: (observation: any) => { observation.site.linkTier[5] = 3; }, ${silent}`, 'wrote to site.linkTier[5] (it was '],
    ['Oracle', `beat: (view: any) => { view.site.tierLinks[0] = 7; }, ${silent}`, 'wrote to site.tierLinks[0] (it was '],
    [
      'Oracle',
      `beat: () => {}, publish: (view: any) => { view.site.tiersFrom(1)[0] = 4; return null; }, ${silent}`,
      'asked what to publish when it knows nothing, wrote to site.tiersFrom(1)[0] (it was ',
    ],
    [
      'Oracle',
      `beat: () => {}, publish: (view: any) => { if (view.nowNs > 0) view.site.tiersFrom(1)[0] = 4; return null; }, ${silent}`,
      'asked what to publish, wrote to site.tiersFrom(1)[0] (it was ',
    ],
    [
      'Oracle',
      `beat: () => {}, publish: () => { throw new Error('oh'); }, ${silent}`,
      'asked what to publish when it knows nothing, threw Error: oh',
    ],
  ])('stops the run with its file and the place: %s, %s', async (kind, body, message) => {
    const file = scribbler(kind, body);
    const settings =
      kind === 'Router'
        ? [`router.decode.policy=${file}`, 'router.oracle.policy=static-tier']
        : ['router.decode.policy=netkv', `router.oracle.policy=${file}`];
    const failure = await project.run('scenario.yaml', settings).then(String, (error: Error) => error.message);
    expect(failure).toContain(`(${file})`);
    expect(failure).toContain(message);
  });

  it('and one that reads all of it runs on, and chooses what it would have chosen', async () => {
    const reading = (more: string): string => `reads: { network: true }, choose: (view: any) => {
      ${more}
      let best = view.candidates[0];
      for (let place = 0; place < view.count; place++) if (view.network?.transferNs[view.candidates[place]] < view.network?.transferNs[best]) best = view.candidates[place];
      return best; }`;
    const outcomes = [];
    for (const more of [
      '',
      'if (view.network !== null) { const { byTier, costs, tier, congestion, pathCongestion } = view.network; void [byTier, costs, tier, congestion, pathCongestion]; }',
    ]) {
      const settings = [`router.decode.policy=${scribbler('Router', reading(more))}`, 'router.oracle.policy=periodic'];
      const { summary } = await project.run('scenario.yaml', settings);
      outcomes.push([summary.completed, summary.fingerprint]);
    }
    expect(outcomes[1]).toEqual(outcomes[0]);
  });
});
