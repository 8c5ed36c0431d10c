import type { Chart } from '../reproduce/suite.js';
import { scenarioFile } from '../scenario-files.js';
import { strategicTables } from './strategic-tenants.js';
import { percent, type Study, type StudyCell, type StudyContext, said, table } from './study.js';

const file = scenarioFile('regimes.yaml');

/** Loads that the published experiments leave out, beside theirs: 128 tokens in, 256 out, five templates. */
const workloads = [
  { name: 'as published', settings: [] },
  { name: 'random output lengths', settings: ['workload.source.outputTokens={ kind: exponential, meanTokens: 256, maxTokens: 2000 }'] },
  { name: 'long contexts', settings: ['workload.source.inputTokens={ kind: lognormal, meanTokens: 12000, sigma: 0.8, maxTokens: 60000 }'] },
  {
    name: 'thousands of prefixes',
    settings: [
      'workload.source.prefix={ groups: 3000, popularity: { kind: zipf, exponent: 1 }, prefixTokens: { kind: constant, tokens: 4096 } }',
    ],
  },
  {
    name: 'many turns',
    settings: [
      'workload.source={ kind: sessions, sessionArrivals: { kind: poisson, ratePerSecond: 200 }, turns: { kind: constant, tokens: 8 }, firstTokens: { kind: constant, tokens: 3000 }, turnTokens: { kind: constant, tokens: 300 }, outputTokens: { kind: constant, tokens: 256 }, meanThinkS: 0, maxInputTokens: 30000 }',
    ],
  },
];

const cells = [
  { tau: 0, omega: 1 },
  { tau: 0, omega: 0 },
  { tau: 0.7, omega: 1 },
  { tau: 0.8, omega: 0.1 },
];

/** Past the paper: other work, more decode engines, and tenants as players. */
export const regimesStudy: Study = {
  name: 'regimes',
  title: 'Past the published experiments: other work, many decode engines, strategic tenants',
  async run(context: StudyContext) {
    const work = await measureWork(context);
    const width = await measureWidth(context);
    const tenants = await strategicTables(context, file);
    return { tables: [work.table, width.table, ...tenants.tables], finding: `${work.finding} ${width.finding} ${tenants.finding}` };
  },
};

/** Does the router's cell matter, where work is not all the same? */
async function measureWork(context: StudyContext) {
  const length = [`workload.requests=${context.quick ? 300 : 1000}`];
  const used = context.quick ? [cells[0]!, cells[3]!] : cells;
  const cases = workloads.flatMap((work) => used.map((cell) => ({ work, cell })));
  const runs = await context.measureAll(
    cases.map(({ work, cell }) => ({
      file,
      settings: [...work.settings, ...length, `router.parameters=${JSON.stringify(cell)}`],
    })),
  );
  const rows: StudyCell[][] = cases.map(({ work, cell }, index) => {
    const { summary } = runs[index]!;
    const decodeSeconds = ((summary.e2eMs?.mean ?? 0) - (summary.ttftMs?.mean ?? 0)) / 1e3;
    return [
      work.name,
      cell.tau,
      cell.omega,
      summary.requestsPerSecond,
      summary.ttftMs?.mean ?? null,
      summary.ttftMs?.p99 ?? null,
      summary.itlMs?.p99 ?? null,
      100 * summary.hitRates.total,
      summary.requestsPerSecond * decodeSeconds,
    ];
  });
  const spread = (name: string, column: number): number => {
    const values = rows.filter((row) => row[0] === name).map((row) => row[column] as number);
    return Math.max(...values) / Math.min(...values);
  };
  const said99 = workloads.map(({ name }) => `${name} ${said(spread(name, 5), 2)} (throughput ${said(spread(name, 3), 2)})`).join(', ');
  return {
    table: table(
      'work',
      'Router parameters against the kind of work',
      '96 in flight, closed loop, 4 prefill and 8 decode engines, two frontends. In decode: throughput x decode time (Little).',
      ['work', 'tau', 'omega', 'requests/s', 'TTFT mean (ms)', 'TTFT P99 (ms)', 'ITL P99 (ms)', 'hits (%)', 'in decode'],
      rows,
    ),
    finding: `At 96 in flight TTFT P99 of the worst over the best cell of (tau, omega) is: ${said99}.`,
  };
}

const routers = [
  { name: 'kv, tau 0', settings: ['router.policy=kv', 'router.parameters={ tau: 0, omega: 1 }'] },
  { name: 'kv, tau 0.7', settings: ['router.policy=kv', 'router.parameters={ tau: 0.7, omega: 1 }'] },
  { name: 'power of two', settings: ['router.policy=power-of-two'] },
  { name: 'random', settings: ['router.policy=random'] },
];

/** From one decode engine to 64, with as many requests in flight for each. */
async function measureWidth(context: StudyContext) {
  const widths = context.quick ? [1, 8, 64] : [1, 2, 4, 8, 16, 32, 64];
  const used = context.quick ? [routers[0]!, routers[3]!] : routers;
  const cases = used.flatMap((router) => widths.map((decode) => ({ router, decode })));
  const perEngine = 12;
  const runs = await context.measureAll(
    cases.map(({ router, decode }) => ({
      file,
      settings: [
        ...router.settings,
        `serving[0].count=${Math.max(1, Math.ceil(decode / 4))}`,
        `serving[1].count=${decode}`,
        `workload.client.inFlight=${perEngine * decode}`,
        `workload.requests=${(context.quick ? 4 : 8) * perEngine * decode}`,
        'workload.source.inputTokens={ kind: lognormal, meanTokens: 1000, sigma: 0.8, maxTokens: 8000 }',
        'workload.source.outputTokens={ kind: exponential, meanTokens: 256, maxTokens: 2000 }',
        'router.frontends=4',
        'controller={ policy: poa-driven, periodSeconds: 1, parameters: { thresholds: [1e9], regimes: [{}, {}] } }',
      ],
      series: ['placement_poa'],
    })),
  );
  const rows: StudyCell[][] = cases.map(({ router, decode }, index) => {
    const { summary, series } = runs[index]!;
    const poa = series.placement_poa?.value ?? [];
    // The last tenth of a closed loop empties.
    const steady = poa.slice(1, Math.ceil(0.8 * poa.length));
    return [
      router.name,
      decode,
      summary.requestsPerSecond / decode,
      summary.ttftMs?.p99 ?? null,
      summary.itlMs?.p50 ?? null,
      summary.itlMs?.p99 ?? null,
      steady.length === 0 ? null : steady.reduce((sum, value) => sum + value, 0) / steady.length,
    ];
  });
  const last = (name: string, column: number): number => rows.filter((row) => row[0] === name).at(-1)![column] as number;
  const [first, random] = [used[0]!.name, used.at(-1)!.name];
  const chart: Chart = {
    title: 'Price of anarchy of the decode placement',
    xLabel: 'decode engines',
    yLabel: 'sum of squares over that of the best placement',
    xScale: 'log',
    series: used.map(({ name }) => ({
      name,
      group: name,
      kind: 'emulated',
      points: rows.filter((row) => row[0] === name && row[6] !== null).map((row) => ({ x: row[1] as number, y: row[6] as number })),
    })),
  };
  return {
    table: table(
      'width',
      'One to 64 decode engines',
      `${perEngine} requests in flight for each decode engine, a prefill engine for every four, four frontends with partial views; the placement is scraped every second.`,
      ['router', 'decode engines', 'requests/s an engine', 'TTFT P99 (ms)', 'ITL P50 (ms)', 'ITL P99 (ms)', 'placement PoA'],
      rows,
      [chart],
    ),
    finding: `With ${widths.at(-1)} decode engines the placement of "${first}" costs ${said(last(first, 6), 3)} times the best one and that of "${random}" ${said(last(random, 6), 3)} times; throughput an engine is ${percent(last(first, 2) / last(random, 2) - 1)} apart.`,
  };
}
