import type { Measurement } from '../measure-scenario.js';
import type { Chart } from '../reproduce/suite.js';
import { scenarioFile } from '../scenario-files.js';
import { type BraessSearch, braessTable, placementTable, searchBraess } from './caching-games.js';
import { percent, type Study, type StudyContext, said, table } from './study.js';

const file = scenarioFile('caching.yaml');

/** Prefixes that fit into the HBM of one prefill engine, and of all eight: 700 blocks of 64 tokens, 8,192 tokens a prefix, and room for a suffix. */
const engineFits = 5;
const engines = 8;

const placements = [
  { name: 'each for itself', settings: ['router.policy=round-robin'] },
  { name: 'placed by the router', settings: ['router.policy=kv'] },
];
const tierSets = [
  { name: 'G1', settings: ['kvTiers=null'] },
  { name: 'G1-G2', settings: ['kvTiers.g3=null', 'kvTiers.g4=null'] },
  { name: 'G1-G3', settings: ['kvTiers.g4=null'] },
  { name: 'G1-G4', settings: [] },
];
const storages = [
  { name: 'as the network', settings: [] },
  { name: '20 GB/s', settings: ['cluster.topology.bytesPerSecond.storage=20e9'] },
  { name: '5 GB/s', settings: ['cluster.topology.bytesPerSecond.storage=5e9'] },
];

const meanTtft = ({ summary }: Measurement): number => summary.ttftMs?.mean ?? Number.NaN;

/** Game 2 on the emulated tiers and as a game: selfish against central placement, the working set past HBM, and whether more cache can hurt. */
export const cachingStudy: Study = {
  name: 'caching',
  title: 'Selfish caching over four tiers',
  async run(context: StudyContext) {
    const length = [`workload.requests=${context.quick ? 300 : 800}`];
    const groups = context.quick ? [4, 16, 64, 128] : [4, 8, 16, 24, 32, 40, 48, 64, 96, 128, 192];
    const transition = await measureTransition(context, groups, length);
    const paradox = await measureParadox(context, length);
    const game = await placementTable(context.quick);
    const search = searchBraess(context.quick ? 300 : 2000);
    return {
      tables: [transition.table, paradox.table, game.table, braessTable(search)],
      finding: `${transition.finding} ${paradox.finding} ${game.finding} ${searchFinding(search)}`,
    };
  },
};

async function measureTransition(context: StudyContext, groups: readonly number[], length: readonly string[]) {
  const sets = [tierSets[0]!, tierSets[3]!];
  const cases = placements.flatMap((placement) => sets.flatMap((tiers) => groups.map((count) => ({ placement, tiers, count }))));
  const runs = await context.measureAll(
    cases.map(({ placement, tiers, count }) => ({
      file,
      settings: [...length, ...placement.settings, ...tiers.settings, `workload.source.prefix.groups=${count}`],
    })),
  );
  const rows = cases.map(({ placement, tiers, count }, index) => {
    const { summary } = runs[index]!;
    const { g1, g2, g3, g4 } = summary.hitRates;
    const pressure = count / (engineFits * engines);
    return [
      placement.name,
      tiers.name,
      count,
      pressure,
      ...[g1, g2, g3, g4].map((rate) => 100 * rate),
      meanTtft(runs[index]!),
      summary.ttftMs?.p99 ?? null,
    ];
  });
  const hit = (placement: string, tiers: string, count: number): number =>
    rows.find((row) => row[0] === placement && row[1] === tiers && row[2] === count)![4] as number;
  // The steepest fall of hits in HBM against the logarithm of the working set: the knee of a curve that falls.
  const steepest = (placement: string): { readonly from: number; readonly to: number } => {
    let best = { from: groups[0]!, to: groups[1]!, slope: 0 };
    for (let at = 0; at + 1 < groups.length; at++) {
      const [from, to] = [groups[at]!, groups[at + 1]!];
      const slope = (hit(placement, 'G1', from) - hit(placement, 'G1', to)) / Math.log(to / from);
      if (slope > best.slope) best = { from, to, slope };
    }
    return best;
  };
  const [own, placed] = placements.map(({ name }) => steepest(name)) as [ReturnType<typeof steepest>, ReturnType<typeof steepest>];
  const last = groups.at(-1)!;
  const ttft = (placement: string, tiers: string, count: number) =>
    rows.find((row) => row[0] === placement && row[1] === tiers && row[2] === count)![8] as number;
  const middle = groups.find((count) => count >= engineFits * 3) ?? last;
  return {
    table: table(
      'transition',
      'The working set passes HBM',
      `Working set in prefixes; 1.0 is what the HBM of all ${engines} prefill engines holds (${engineFits * engines}) if each prefix is kept once. Hits in percent of the input tokens.`,
      ['placement', 'tiers', 'prefixes', 'of all HBM', 'G1 (%)', 'G2 (%)', 'G3 (%)', 'G4 (%)', 'TTFT mean (ms)', 'TTFT P99 (ms)'],
      rows,
      [chartOf(rows)],
    ),
    finding:
      `Hits in HBM fall most steeply between ${own.from} and ${own.to} prefixes when each engine caches for itself (one engine holds ${engineFits}), and between ${placed.from} and ${placed.to} when the router places them (all hold ${engineFits * engines}); ` +
      `at ${middle} prefixes, HBM alone, TTFT is ${said(ttft('each for itself', 'G1', middle), 0)} ms against ${said(ttft('placed by the router', 'G1', middle), 0)} ms (ratio ${said(ttft('each for itself', 'G1', middle) / ttft('placed by the router', 'G1', middle), 2)}), ` +
      `and at ${last} prefixes lower tiers take it from ${said(ttft('each for itself', 'G1', last), 0)} to ${said(ttft('each for itself', 'G1-G4', last), 0)} ms.`,
  };
}

function chartOf(rows: readonly (readonly (string | number | null)[])[]): Chart {
  const lines = [...new Set(rows.map((row) => `${row[0]}, ${row[1]}`))];
  return {
    title: 'Hits in HBM against the working set',
    xLabel: 'prefixes',
    yLabel: 'G1 hits (% of input tokens)',
    xScale: 'log',
    series: lines.map((name) => ({
      name,
      group: name,
      kind: 'emulated' as const,
      points: rows.filter((row) => `${row[0]}, ${row[1]}` === name).map((row) => ({ x: row[2] as number, y: row[4] as number })),
    })),
  };
}

/** More tiers at a working set past HBM, over storage that is slower and slower: does a tier more ever cost time? */
async function measureParadox(context: StudyContext, length: readonly string[]) {
  const rates = context.quick ? [14] : [8, 14, 18, 22];
  // Storage is the last tier: the sets without it do not depend on its link.
  const cases = rates.flatMap((rate) => [
    ...tierSets.slice(0, 3).map((tiers) => ({ rate, storage: storages[0]!, tiers })),
    ...storages.map((storage) => ({ rate, storage, tiers: tierSets[3]! })),
  ]);
  const common = [...length, 'router.policy=round-robin', 'workload.source.prefix.groups=128'];
  const runs = await context.measureAll(
    cases.map(({ rate, storage, tiers }) => ({
      file,
      settings: [...common, `workload.source.arrivals.ratePerSecond=${rate}`, ...storage.settings, ...tiers.settings],
    })),
  );
  const fewerThan = ({ rate, tiers }: (typeof cases)[number]): number =>
    cases.findIndex((each) => each.rate === rate && each.tiers === tierSets[tierSets.indexOf(tiers) - 1]);
  const rows = cases.map(({ rate, storage, tiers }, index) => {
    const place = tierSets.indexOf(tiers);
    const smaller = fewerThan(cases[index]!);
    const before = smaller < 0 ? null : meanTtft(runs[smaller]!);
    const ttft = meanTtft(runs[index]!);
    const change = before === null ? null : (100 * (ttft - before)) / before;
    return [
      rate,
      place === 3 ? storage.name : '-',
      tiers.name,
      100 * runs[index]!.summary.hitRates.total,
      ttft,
      runs[index]!.summary.ttftMs?.p99 ?? null,
      change,
    ];
  });
  const worse = rows.filter((row) => row[6] !== null && (row[6] as number) > 1);
  const worst = worse.reduce<(typeof rows)[number] | null>((a, b) => (a === null || (b[6] as number) > (a[6] as number) ? b : a), null);
  const largest = Math.max(...rows.map((row) => (row[6] as number | null) ?? Number.NEGATIVE_INFINITY));
  const steps = rows.filter((row) => row[6] !== null).length;
  const hitsAt = (place: number): string => said(rows[place]![3] as number, 1);
  const hits = worst === null ? '' : `${hitsAt(fewerThan(cases[rows.indexOf(worst)]!))} to ${hitsAt(rows.indexOf(worst))}`;
  return {
    table: table(
      'tiers',
      'One cache tier more: better or worse?',
      'Working set of 128 prefixes, each engine for itself. Change: of the mean TTFT against one tier fewer. An engine fetches where its own estimate says that is quicker than computing.',
      ['requests/s', 'storage link', 'tiers', 'hits (%)', 'TTFT mean (ms)', 'TTFT P99 (ms)', 'change (%)'],
      rows,
    ),
    finding:
      worst === null
        ? `Of ${steps} additions of a tier none raised the mean TTFT by more than 1 % (the largest change was ${said(largest, 1)} %): engines ask a tier how long a fetch would take and compute where that is quicker, which excludes the paradox here.`
        : `Adding a tier raised the mean TTFT by more than 1 % in ${worse.length} of ${steps} cases, most at ${worst[0]} requests/s with storage ${worst[1]} (${worst[2]}): ${said(worst[6] as number, 0)} %, while hits went from ${hits} % of the input: Braess's paradox on the emulated tiers.`,
  };
}

function searchFinding(search: BraessSearch): string {
  const shares = search.rows.map(
    ({ topology, games, best, worst }) =>
      `${topology}: ${percent(best / games)} at the best, ${percent(worst / games)} at the worst equilibrium`,
  );
  return `Among random caching games a further cache node made the others worse off in ${shares.join('; ')}.`;
}
