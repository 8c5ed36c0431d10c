import { parseScenario, planCluster, validateScenario } from '@braess/cluster';
import { queryRun } from '@braess/telemetry';
import { describe, expect, it } from 'vitest';
import { runText, testFile } from './small-runs.js';

/** Prompts of 81 tokens, five full blocks of which a group has in common, one each second: groups 0, 1, 2, 3 and over again. */
const rows = Array.from({ length: 40 }, (_, index) => `${index + 1},81,2,g${index % 4},80`);
const trace = testFile('in-turn.csv', `arrival_s,input_tokens,output_tokens,prefix_group,prefix_tokens\n${rows.join('\n')}\n`);

const inTurn = `
name: in-turn
cluster: { racksPerPod: 2, gpusPerServer: 1 }
serving:
  - { count: 1, role: prefill, prefixCaching: false }
  - { count: 1, role: decode }
workload:
  source: { kind: trace, file: ${trace} }
`;
/** Llama-3.1-8B in bf16: 32 layers, 8 KV heads of 128, keys and values. */
const tokenBytes = 32 * 8 * 128 * 2 * 2;

/** Tokens whose KV was moved for each request, in order. */
async function movedTokens(...settings: string[]): Promise<number[]> {
  const run = await runText(inTurn, settings);
  expect(run.completed).toBe(40);
  const { rows: moved } = await queryRun(run.folder, 'select transfer_bytes from requests order by request_id');
  return moved.map(([bytes]) => Number(bytes) / tokenBytes);
}

describe('serving.cacheBlocks', () => {
  const cold = 81;
  const warm = 1;

  it('holds as much as it says, whatever memory there is: prompts in turn are found from the size of all of them on', async () => {
    // An ended request leaves its five blocks named and none besides (82 tokens are five blocks and two tokens). Least recently used and in turn: all or nothing.
    const first = [cold, cold, cold, cold];
    const later = (tokens: number): number[] => new Array<number>(36).fill(tokens);
    expect(await movedTokens('serving[1].cacheBlocks=20')).toEqual([...first, ...later(warm)]);
    expect(await movedTokens('serving[1].cacheBlocks=15')).toEqual([...first, ...later(cold)]);
    expect(await movedTokens('serving[1].cacheBlocks=0')).toEqual([...first, ...later(cold)]);
    expect(await movedTokens()).toEqual([...first, ...later(warm)]);
  });

  it('keeps what is left of the last to be cut: a block beyond those of three groups is one found of the fourth', async () => {
    // 16 blocks: the oldest prefix loses its last four blocks when the fourth request ends, and the next request of that group brings them again,
    // which costs the next oldest its last four, and so on.
    expect((await movedTokens('serving[1].cacheBlocks=16')).slice(4)).toEqual(new Array<number>(36).fill(cold - 16));
  });

  it('is in what validate prints, the least of itself and memory, and is refused without prefix caching', async () => {
    const blocks = async (...settings: string[]): Promise<number[]> =>
      (await validateScenario(parseScenario(inTurn, 'in-turn.yaml', settings))).groups.map(({ cacheBlocks }) => cacheBlocks);
    expect(await blocks('serving[1].cacheBlocks=16')).toEqual([0, 16]);
    expect(await blocks('serving[1].kvBlocks=100', 'serving[1].cacheBlocks=300')).toEqual([0, 100]);
    expect(() => planCluster(parseScenario(inTurn, 'in-turn.yaml', ['serving[0].cacheBlocks=16']))).toThrow(
      'serving[0].cacheBlocks is 16 without prefixCaching, which keeps none; leave one of the two out',
    );
  });
});
