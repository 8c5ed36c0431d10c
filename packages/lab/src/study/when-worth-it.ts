import { type MeanInterval, meanInterval } from '@braess/games';
import type { Measurement } from '../measure-scenario.js';
import type { Chart } from '../reproduce/suite.js';
import { scenarioFile } from '../scenario-files.js';
import { type ContextLoad, contextLoad, meanOutputTokens } from './context-load.js';
import { percent, type Study, type StudyCell, type StudyContext, type StudyResult, said, table } from './study.js';

const ownFile = scenarioFile('study/when-worth-it.yaml');

/** Of what the engines can do: queues exist and do not grow. */
const load = 0.5;

interface Network {
  readonly name: string;
  readonly file: string;
  readonly settings: readonly string[];
}

/** NetKV's (arXiv 2606.03910): 25 Gb/s links between pods; and what H100 servers are sold with, a 400 Gb/s NIC a GPU. */
const ownNetworks: readonly Network[] = [
  {
    name: '25 Gb/s core links',
    file: ownFile,
    settings: [
      'cluster.topology={ nicsPerServer: 2, uplinksPerLeaf: 12, uplinksPerPod: 24, bytesPerSecond: { nic: 12.5e+9, leafUplink: 6.25e+9, coreUplink: 3.125e+9 } }',
    ],
  },
  { name: '400 Gb/s a GPU, 4:1', file: ownFile, settings: [] },
];

const oracle = 'router.oracle={ policy: periodic, parameters: { seconds: 1 } }';
const routers = {
  rr: ['router.decode={ policy: round-robin }'],
  cla: ['router.decode={ policy: cla }'],
  netkv: ['router.decode={ policy: netkv }', oracle],
} as const;
type Router = keyof typeof routers;
const routerNames = Object.keys(routers) as Router[];

const verdicts = ['not', 'maybe', 'yes', 'strongly'] as const;
type Verdict = (typeof verdicts)[number];

/** Gains in mean TTFT against cla, %, from which on it is each word. Our reading: an operator sees 2 % in the noise of a day, and 10 % on a dashboard. */
const leastGains: readonly number[] = [2, 5, 10];

function verdictOf(gainPercent: number): Verdict {
  return verdicts[leastGains.filter((least) => gainPercent >= least).length] as Verdict;
}

/** A widely read article about NetKV, by context length. */
function articleVerdict(contextTokens: number): Verdict {
  if (contextTokens < 8192) return 'not';
  if (contextTokens < 32_768) return 'maybe';
  return contextTokens <= 131_072 ? 'yes' : 'strongly';
}

/** What one context length in one network came to. */
interface Outcome {
  readonly network: string;
  readonly at: ContextLoad;
  /** Means over the seeds; null where it was not served. */
  readonly ttftMs: number;
  readonly transferMs: number;
  readonly againstCla: MeanInterval;
  readonly againstRr: MeanInterval;
}

/** Does network-aware decode selection pay, at which context length, in this topology? */
export const whenWorthItStudy: Study = {
  name: 'when-worth-it',
  title: 'When network-aware decode selection is worth it',
  takesScenario: true,
  async run(context: StudyContext): Promise<StudyResult> {
    const networks = context.scenario === undefined ? ownNetworks : [{ name: 'your topology', file: context.scenario, settings: [] }];
    const contexts = (context.quick ? [2, 8, 32, 128, 256] : [1, 2, 4, 8, 16, 32, 64, 128, 256]).map((kilo) => kilo * 1024);
    const seeds = context.quick ? [1, 2, 3] : [1, 2, 3, 4, 5];
    const requests = context.quick ? 150 : 400;
    const outputTokens = await meanOutputTokens(networks[0]!.file);
    const loads: { network: Network; at: ContextLoad }[] = [];
    for (const network of networks)
      for (const contextTokens of contexts)
        loads.push({ network, at: await contextLoad(network.file, network.settings, { contextTokens, outputTokens, load, requests }) });
    const served = loads.filter(({ at }) => at.refusal === null);
    const tasks = served.flatMap(({ network, at }) =>
      routerNames.flatMap((router) =>
        seeds.map((seed) => ({ file: network.file, settings: [...at.settings, ...routers[router], `seed=${seed}`] })),
      ),
    );
    const runs = await context.measureAll(tasks);
    const outcomes = served.map(({ network, at }, index): Outcome => {
      const of = (router: Router): readonly Measurement[] => {
        const first = (index * routerNames.length + routerNames.indexOf(router)) * seeds.length;
        return runs.slice(first, first + seeds.length);
      };
      return {
        network: network.name,
        at,
        ttftMs: mean(of('cla').map(ttftOf)),
        transferMs: mean(of('cla').map(({ summary }) => summary.transferMs?.mean ?? Number.NaN)),
        againstCla: meanInterval(gains(of('cla'), of('netkv'))),
        againstRr: meanInterval(gains(of('rr'), of('netkv'))),
      };
    });
    return resultOf(networks, loads, outcomes);
  },
};

const mean = (values: readonly number[]): number => meanInterval(values).mean;
const ttftOf = ({ summary }: Measurement): number => summary.ttftMs?.mean ?? Number.NaN;

/** Seed by seed: both had the same requests. */
function gains(before: readonly Measurement[], after: readonly Measurement[]): number[] {
  return before.map((run, seed) => 100 * (1 - ttftOf(after[seed] as Measurement) / ttftOf(run)));
}

const head = [
  'network',
  'context',
  'KV (GB)',
  'requests/s',
  'TTFT, cla (ms)',
  'transfer, cla (ms)',
  'network share (%)',
  'gain on cla (%)',
  '+-',
  'gain on rr (%)',
  '+-',
  'worth it',
  'article',
];

function resultOf(
  networks: readonly Network[],
  loads: readonly { readonly network: Network; readonly at: ContextLoad }[],
  outcomes: readonly Outcome[],
): StudyResult {
  const rows = loads.map(({ network, at }): StudyCell[] => {
    const found = outcomes.find((each) => each.at === at);
    const begin = [network.name, lengthText(at.contextTokens), at.kvBytes / 1e9];
    if (found === undefined)
      return [...begin, null, null, null, null, null, null, null, null, at.refusal, articleVerdict(at.contextTokens)];
    const { ttftMs, transferMs, againstCla, againstRr } = found;
    return [
      ...begin,
      at.ratePerSecond,
      ttftMs,
      transferMs,
      (100 * transferMs) / ttftMs,
      againstCla.mean,
      againstCla.halfWidth,
      againstRr.mean,
      againstRr.halfWidth,
      verdictOf(againstCla.mean),
      articleVerdict(at.contextTokens),
    ];
  });
  const note =
    `Prompts of one length and no common prefixes, at ${100 * load} % of what the engines can do. Network share: mean transfer over mean TTFT under cla. +-: 95 % over seeds. ` +
    `Worth it: gain in mean TTFT on cla from ${leastGains[0]} % maybe, ${leastGains[1]} % yes, ${leastGains[2]} % strongly. The article's table goes by context alone, with KV sizes about a thousand times too small.`;
  const lines = (
    title: string,
    yLabel: string,
    of: (outcome: Outcome) => { y: number; low?: number | null; high?: number | null },
  ): Chart => ({
    title,
    xLabel: 'context (tokens)',
    yLabel,
    xScale: 'log',
    series: networks.map(({ name }) => ({
      name,
      group: name,
      kind: 'emulated' as const,
      points: outcomes.filter(({ network }) => network === name).map((outcome) => ({ x: outcome.at.contextTokens, ...of(outcome) })),
    })),
  });
  const charts = [
    lines("Network's share of TTFT under cla", '%', ({ ttftMs, transferMs }) => ({ y: (100 * transferMs) / ttftMs })),
    lines('Gain in mean TTFT of netkv on cla', '%', ({ againstCla }) => ({
      y: againstCla.mean,
      low: againstCla.low,
      high: againstCla.high,
    })),
  ];
  return {
    tables: [table('when-worth-it', 'Context length, the network, and the gain', note, head, rows, charts)],
    finding: networks
      .map(({ name }) =>
        findingOf(
          name,
          outcomes.filter(({ network }) => network === name),
        ),
      )
      .join(' '),
  };
}

function lengthText(tokens: number): string {
  return tokens % 1024 === 0 ? `${tokens / 1024}K` : String(tokens);
}

function findingOf(name: string, outcomes: readonly Outcome[]): string {
  if (outcomes.length === 0) return `${name}: no context length could be served.`;
  const gainOf = ({ againstCla }: Outcome): number => againstCla.mean;
  const best = outcomes.reduce((a, b) => (gainOf(b) > gainOf(a) ? b : a));
  const shares = outcomes.map(({ ttftMs, transferMs }) => transferMs / ttftMs);
  const least = outcomes[shares.indexOf(Math.min(...shares))]!;
  const most = outcomes[shares.indexOf(Math.max(...shares))]!;
  const worthwhile = outcomes.filter((outcome) => gainOf(outcome) >= leastGains[1]!);
  const worth =
    worthwhile.length === 0
      ? `nowhere worth it (at least ${leastGains[1]} %)`
      : worthwhile.length === outcomes.length
        ? 'worth it at every length'
        : `worth it at ${worthwhile.map(({ at }) => lengthText(at.contextTokens)).join(', ')}`;
  const agreed = outcomes.filter((outcome) => verdictOf(gainOf(outcome)) === articleVerdict(outcome.at.contextTokens)).length;
  const sure = outcomes.filter(({ againstCla: { low } }) => low !== null && low > 0).length;
  const [first, last] = [outcomes[0]!, outcomes.at(-1)!];
  const times = (of: (outcome: Outcome) => number): string => said(of(last) / of(first), 0);
  return (
    `${name}: choosing the decode engine by the network is ${worth}; the greatest gain on cla is ${said(gainOf(best))} % at ${lengthText(best.at.contextTokens)}, and its interval lies above 0 at ${sure} of ${outcomes.length} lengths. ` +
    `The network's share of TTFT goes from ${percent(Math.min(...shares))} (${lengthText(least.at.contextTokens)}) to ${percent(Math.max(...shares))} (${lengthText(most.at.contextTokens)}): ` +
    `from ${lengthText(first.at.contextTokens)} to ${lengthText(last.at.contextTokens)} transfers became ${times(({ transferMs }) => transferMs)} times as long, all before them ${times(({ ttftMs, transferMs }) => ttftMs - transferMs)} times. ` +
    `The article's table agrees at ${agreed} of ${outcomes.length} lengths.`
  );
}
