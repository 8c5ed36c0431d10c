import { parseScenario, traceSetting, writeWorkload } from '@braess/cluster';
import { queryRun } from '@braess/telemetry';
import { describe, expect, it } from 'vitest';
import { disaggregated, runText, testFile } from './small-runs.js';

const chat = `{ tenant: chat, source: { kind: independent, arrivals: { kind: gamma, ratePerSecond: 15, cv: 3 }, inputTokens: { kind: constant, tokens: 200 },
  outputTokens: { kind: constant, tokens: 40 } } }`;
const batch = `{ tenant: batch, source: { kind: independent, arrivals: { kind: constant, ratePerSecond: 5 }, inputTokens: { kind: constant, tokens: 3000 },
  outputTokens: { kind: constant, tokens: 10 } } }`;
const mixture = `workload.source={ kind: mixture, parts: [${chat}, ${batch}] }`;

describe('tenants with lengths and arrivals of their own', () => {
  it('are served together, alike on any number of shards, each with its figures', async () => {
    const settings = [
      mixture,
      'workload.tenants=[{ name: batch }, { name: chat, priority: 1, slo: { ttftMs: 1000 } }]',
      'workload.requests=80',
    ];
    const [one, two] = [await runText(disaggregated, settings), await runText(disaggregated, settings, { shards: 2 })];
    expect(two.fingerprint).toBe(one.fingerprint);
    const { rows } = await queryRun(
      one.folder,
      'select tenant, count(*), min(input_tokens), max(input_tokens) from requests group by 1 order by 1',
    );
    const [ofBatch, ofChat] = rows as [[string, number, number, number], [string, number, number, number]];
    expect([ofBatch[0], ofBatch[2], ofBatch[3], ofChat[0], ofChat[2], ofChat[3]]).toEqual(['batch', 3000, 3000, 'chat', 200, 200]);
    expect(Number(ofBatch[1]) + Number(ofChat[1])).toBe(80);
  });

  it('run again from the trace that their requests are written to', async () => {
    const agents = `{ tenant: agents, source: { kind: sessions, sessionArrivals: { kind: poisson, ratePerSecond: 3 }, turns: { kind: constant, tokens: 3 },
      firstTokens: { kind: constant, tokens: 300 }, turnTokens: { kind: constant, tokens: 50 }, outputTokens: { kind: constant, tokens: 20 }, meanThinkS: 0.5, maxInputTokens: 4000 } }`;
    const settings = [`workload.source={ kind: mixture, parts: [${chat}, ${agents}] }`, 'workload.sessions={ next: arrival }'];
    const file = testFile('written.csv', '');
    await writeWorkload(parseScenario(disaggregated, 'mixture.yaml', settings), file);
    const [made, replayed] = [await runText(disaggregated, settings), await runText(disaggregated, [...settings, traceSetting(file)])];
    expect(made.hitRates.total).toBeGreaterThan(0.05);
    expect(replayed.fingerprint).toBe(made.fingerprint);
  });

  it('leave each other as they are: a change to one changes no arrival of the other', async () => {
    const arrivals = async (...settings: string[]): Promise<unknown> => {
      const { folder } = await runText(disaggregated, [mixture, 'workload.requests=null', 'untilSeconds=3', ...settings]);
      return (await queryRun(folder, "select arrival_ns from requests where tenant = 'chat' order by 1")).rows;
    };
    const before = await arrivals();
    expect(before).not.toEqual([]);
    expect(
      await arrivals('workload.source.parts[1].source.inputTokens.tokens=90', 'workload.source.parts[1].source.arrivals.ratePerSecond=9'),
    ).toEqual(before);
  });

  it('may come from traces, too; what contradicts itself is refused at its place', async () => {
    const file = testFile('mixed.csv', 'arrival_s,input_tokens,output_tokens\n0.1,50,5\n0.2,60,5\n');
    const traced = `workload.source={ kind: mixture, parts: [${batch}, { tenant: trace, source: { kind: trace, file: ${file} } }] }`;
    const { folder } = await runText(disaggregated, [traced, 'workload.requests=5']);
    expect((await queryRun(folder, "select input_tokens from requests where tenant = 'trace' order by 1")).rows).toEqual([[50], [60]]);
    const refused = (...settings: string[]) => expect(runText(disaggregated, [mixture, ...settings])).rejects;
    await refused('workload.tenants=[{ name: chat }]').toThrow(
      /workload\.tenants.*are chat, but the parts of the source name their own: chat, batch/,
    );
    await refused('workload.source.parts[1].source.arrivals={ kind: gamma, ratePerSecond: 1.0e+400, cv: 1 }').toThrow(/parts\[1\]/);
    await refused('workload.requests=null').toThrow(/without end/);
  });
});

it('delays of sessions stay in the trace that they are written to, so that it runs as theirs does', async () => {
  const turns = (session: number): string =>
    [{ timestamp: 40 * session }, { delay: 150 }, { delay: 20.5 }]
      .map((when) => `${JSON.stringify({ session_id: `s${session}`, ...when, input_length: 200, output_length: 4 + session })}\n`)
      .join('');
  const given = traceSetting(testFile('turns.jsonl', [0, 1, 2, 3].map(turns).join('')));
  const scenario = 'serving: [{ count: 1 }]\nworkload: { source: { kind: trace, file: none } }\n';
  const copy = testFile('turns.csv', '');
  await writeWorkload(parseScenario(scenario, 'served.yaml', [given]), copy);
  const [read, written] = [await runText(scenario, [given]), await runText(scenario, [traceSetting(copy)], { shards: 2 })];
  expect(read.completed).toBe(12);
  expect(written.fingerprint).toBe(read.fingerprint);
});
