import { planCluster, readScenario, tierInventory } from '@braess/cluster';
import type { MeasuredSeries, Measurement, RequestColumn } from '../../measure-scenario.js';
import { type StudyCell, said, signed, table } from '../study.js';
import { mean, oracleFile, runsAt, type StudyPart, tasksOf, transferMs, ttftMs } from './part.js';

const columns: readonly RequestColumn[] = ['transferBytes', 'networkTier', 'transferStartNs', 'transferEndNs'];
const series = ['link_use', 'link_marks', 'link_paused_seconds'];

/** Of the series. */
const periodNs = 1e9;

const exact = 'router.oracle={ policy: exact }';
const routers = [
  { name: 'cla', settings: ['router.decode={ policy: cla }'] },
  { name: 'netkv', settings: ['router.decode={ policy: netkv }', exact] },
  { name: 'netkv-path', settings: ['router.decode={ policy: netkv-path }', exact] },
  { name: 'netkv-joint', settings: ['router.decode={ policy: netkv-joint }', exact] },
] as const;

/** Six core cables of a pod as fast as 24 slow ones: hashing has few to choose from. */
const fewer = ['cluster.topology.uplinksPerPod=6', 'cluster.topology.cores=2', 'cluster.topology.spinesPerPod=2'];

const head = [
  'fidelity',
  'router',
  'TTFT (ms)',
  'transfer (ms)',
  'slowdown',
  'slowdown P99',
  'mean core use (%)',
  'busiest (%)',
  'ECN marks',
  'paused (s)',
];

/** What happens on single cables, which one number a tier cannot say. */
export function collisionsPart(quick: boolean): StudyPart {
  const seeds = quick ? [1] : [1, 2, 3];
  const shown = [
    ...routers.map((router) => ({ fidelity: 'flow', router, requests: quick ? 300 : 1000 })),
    ...routers.slice(0, 3).map((router) => ({ fidelity: 'chunk', router, requests: quick ? 60 : 250 })),
  ];
  const cases = shown.map(({ fidelity, router, requests }) => ({
    settings: [
      `workload.requests=${requests}`,
      'workload.rateFactor=1.5',
      'telemetry.seriesSeconds=1',
      ...fewer,
      `cluster.fabric.fidelity=${fidelity}`,
      'cluster.fabric.chunkBytes=4194304',
      ...router.settings,
      // Chunks have no rate of the moment.
      ...(fidelity === 'chunk' && router.name !== 'cla' ? ['router.oracle={ policy: periodic, parameters: { seconds: 1 } }'] : []),
    ],
    columns,
    series,
  }));
  const { tierBytesPerSecond, tierBackground } = tierInventory(planCluster(readScenario(oracleFile, fewer)));
  const aloneBytesPerSecond = Array.from(tierBytesPerSecond, (speed, tier) => speed * (1 - tierBackground[tier]!));
  return {
    tasks: tasksOf(cases, seeds),
    evaluate(runs) {
      const found = shown.map((_, place) => runsAt(runs, place, seeds));
      const slowdowns = found.map((each) => each.flatMap((run) => slowdownsOf(run, aloneBytesPerSecond)).sort((a, b) => a - b));
      const rows = shown.map(({ fidelity, router }, place): StudyCell[] => {
        const slowdown = slowdowns[place]!;
        const { busiest, average } = linkUse(found[place]!);
        return [
          fidelity,
          router.name,
          mean(found[place]!.map(ttftMs)),
          mean(found[place]!.map(transferMs)),
          mean(slowdown),
          slowdown[Math.floor(0.99 * slowdown.length)] ?? null,
          100 * average,
          100 * busiest,
          fidelity === 'chunk' ? total(found[place]!, 'link_marks') : null,
          fidelity === 'chunk' ? total(found[place]!, 'link_paused_seconds') : null,
        ];
      });
      const cell = (fidelity: string, router: string, column: number): number =>
        rows.find((row) => row[0] === fidelity && row[1] === router)![column] as number;
      const moved = (fidelity: string): string => signed(100 * (cell(fidelity, 'netkv-path', 2) / cell(fidelity, 'netkv', 2) - 1));
      return {
        table: table(
          'collisions',
          'ECMP collisions that one number a tier hides',
          'Six core cables a pod in place of 24, 1.5 times the rate. Slowdown: a transfer over the time the same bytes take alone. Core use: of the cables that carried anything, background included at flow fidelity; busiest: the highest second of any. ' +
            'Chunk: chunks of 4 MiB through port queues with ECN and DCQCN, and pauses (PFC), over fewer requests than flow, and counters each second in place of exact ones.',
          head,
          rows,
        ),
        sentence:
          `While core cables were used at ${said(cell('flow', 'netkv', 6), 0)} % on average, the busiest reached ${said(cell('flow', 'netkv', 7), 0)} %, and of netkv's transfers one in a hundred took ` +
          `${said(cell('flow', 'netkv', 5))} times as long as alone (mean ${said(cell('flow', 'netkv', 4), 2)}); looking at paths instead of tiers (netkv-path), which cannot know a transfer's hash either, changed mean TTFT by ${moved('flow')} at flow fidelity and ${moved('chunk')} in chunks, ` +
          `where queues marked ${said(cell('chunk', 'netkv', 8), 0)} chunks and ports stood paused for ${said(cell('chunk', 'netkv', 9), 2)} s.`,
      };
    },
  };
}

/** Each transfer's time over that of its bytes alone on an idle way of its tier. */
function slowdownsOf(
  { columns: { transferBytes = [], networkTier = [], transferStartNs = [], transferEndNs = [] } }: Measurement,
  alone: readonly number[],
): number[] {
  return transferBytes.flatMap((bytes, index) => {
    const seconds = (transferEndNs[index]! - transferStartNs[index]!) / 1e9;
    const tier = networkTier[index]!;
    return tier > 0 && bytes > 0 ? [seconds / (bytes / alone[tier]!)] : [];
  });
}

/** Use of the links between pods. A sample holds until the next one of its link. */
function linkUse(runs: readonly Measurement[]): { readonly busiest: number; readonly average: number } {
  let busiest = 0;
  const averages: number[] = [];
  for (const run of runs) {
    const { entity = [], value = [], timeNs = [] } = run.series.link_use ?? ({} as Partial<MeasuredSeries>);
    const last = new Map<string, { atNs: number; value: number; sum: number }>();
    for (const [index, name] of entity.entries()) {
      if (!name.includes('core')) continue;
      const link = last.get(name) ?? { atNs: 0, value: 0, sum: 0 };
      // A report is about the second before it; links that have nothing new to say keep quiet.
      const gapNs = timeNs[index]! - link.atNs;
      link.sum += value[index]! * Math.min(periodNs, gapNs) + link.value * Math.max(0, gapNs - periodNs);
      last.set(name, { atNs: timeNs[index]!, value: value[index]!, sum: link.sum });
      busiest = Math.max(busiest, value[index]!);
    }
    for (const { sum } of last.values()) averages.push(sum / (run.summary.simulatedSeconds * 1e9));
  }
  return { busiest, average: averages.length === 0 ? Number.NaN : mean(averages) };
}

function total(runs: readonly Measurement[], name: string): number {
  return runs.reduce((sum, run) => sum + (run.series[name]?.value ?? []).reduce((a, b) => a + b, 0), 0);
}
