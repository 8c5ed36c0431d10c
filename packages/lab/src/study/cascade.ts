import type { Measurement } from '../measure-scenario.js';
import type { Chart } from '../reproduce/suite.js';
import { scenarioFile } from '../scenario-files.js';
import { percent, type Study, type StudyCell, type StudyContext, said, table } from './study.js';

const file = scenarioFile('three-games.yaml');
const series = [
  'queue_depth',
  'kv_use_g1',
  'prefill_engines',
  'moving_engines',
  'scraped_ttft_p99',
  'placement_poa',
  'link_use',
  'inflight_requests',
];

const withoutController = ['controller=null'];
const variants = [
  { name: 'all together', settings: [] },
  { name: 'planner off (static split)', settings: ['planner.policy=static', 'planner.parameters=null'] },
  { name: 'planner waits for its moves', settings: ['planner.parameters.waitForMoves=true'] },
  { name: 'controller off', settings: withoutController },
  { name: 'oracle off (decode by load alone)', settings: ['router.oracle=null', 'router.decode.policy=least-loaded'] },
  { name: 'tiers off (HBM alone)', settings: ['kvTiers=null'] },
  { name: 'partial views off (one frontend)', settings: ['router.frontends=1'] },
  {
    name: 'router off (random), and with it controller and oracle',
    settings: [...withoutController, 'router.policy=random', 'router.decode=null', 'router.oracle=null'],
  },
];

/** A quantity of the whole cluster over time: one value a second. */
interface Course {
  readonly name: string;
  readonly points: readonly { readonly x: number; readonly y: number }[];
}

/** Sum, mean or largest over the entities that report at one time. */
function courseOf(run: Measurement, metric: string, name: string, combine: 'sum' | 'mean' | 'most'): Course {
  const { timeNs = [], value = [] } = run.series[metric] ?? {};
  const bins = new Map<number, number[]>();
  for (const [index, at] of timeNs.entries()) {
    const second = Math.floor(at / 1e9);
    const values = bins.get(second);
    if (values === undefined) bins.set(second, [value[index]!]);
    else values.push(value[index]!);
  }
  const points = [...bins].map(([x, values]) => {
    const sum = values.reduce((total, each) => total + each, 0);
    return { x, y: combine === 'sum' ? sum : combine === 'mean' ? sum / values.length : values.reduce((a, b) => Math.max(a, b)) };
  });
  return { name, points };
}

interface Step {
  readonly atSeconds: number;
  readonly text: string;
}

/** First time at which a course reaches a level. */
function reaches({ points }: Course, level: number): number | null {
  return points.find(({ y }) => y >= level)?.x ?? null;
}

/** What happened, in the order in which it did. */
function stepsOf(run: Measurement): readonly Step[] {
  const steps: Step[] = [];
  const add = (atSeconds: number | null, text: string): void => {
    if (atSeconds !== null) steps.push({ atSeconds, text });
  };
  const inFlight = courseOf(run, 'inflight_requests', 'in flight', 'sum');
  const queue = courseOf(run, 'queue_depth', 'waiting in engines', 'sum');
  const kv = courseOf(run, 'kv_use_g1', 'fullest HBM', 'most');
  const links = courseOf(run, 'link_use', 'busiest link', 'most');
  const poa = courseOf(run, 'placement_poa', 'placement', 'most');
  const most = (course: Course): number => course.points.reduce((high, { y }) => Math.max(high, y), 0);
  add(reaches(links, 0.95), 'a link is 95 % busy');
  add(reaches(kv, 0.95), "one engine's KV is 95 % full");
  add(reaches(queue, 0.1 * most(queue)), `a tenth of the longest queue waits in the engines (${said(0.1 * most(queue), 0)} requests)`);
  add(queue.points.find(({ y }) => y === most(queue))?.x ?? null, `the queue is longest: ${said(most(queue), 0)} requests`);
  add(inFlight.points.find(({ y }) => y === most(inFlight))?.x ?? null, `most requests in flight: ${said(most(inFlight), 0)}`);
  add(reaches(poa, 1.5), 'the decode placement costs 1.5 times the best one');
  const seen = new Map<string, number>();
  for (const { timeNs, policy, note } of run.moves) {
    const text = `${policy}: ${note}`;
    const count = (seen.get(text) ?? 0) + 1;
    seen.set(text, count);
    if (count === 1) add(timeNs / 1e9, text);
  }
  for (const { timeNs, policy, note } of [...run.moves].reverse()) {
    const text = `${policy}: ${note}`;
    const count = seen.get(text) ?? 0;
    if (count > 1) add(timeNs / 1e9, `${text}, for the last of ${count} times`);
    seen.delete(text);
  }
  return steps.sort((a, b) => a.atSeconds - b.atSeconds);
}

/** The closed loop: planner, router, oracle, tiers and controller in one run; what follows from what, and what each coupling adds. */
export const cascadeStudy: Study = {
  name: 'cascade',
  title: 'Three games in one run of 1,024 GPUs',
  async run(context: StudyContext) {
    const length = context.quick ? ['workload.requests=1500', 'workload.source.sessionArrivals.meanRatePerSecond=90'] : [];
    const runs = await context.measureAll(variants.map(({ settings }) => ({ file, settings: [...length, ...settings], series })));
    const whole = runs[0]!;
    const steps = stepsOf(whole);
    const rows = variants.map(({ name }, index) => rowOf(name, runs[index]!, whole));
    return {
      tables: [
        table(
          'steps',
          'The cascade, step by step',
          'All together. Times in simulated seconds.',
          ['at (s)', 'what happened'],
          steps.map(({ atSeconds, text }) => [atSeconds, text]),
          chartsOf(whole),
        ),
        table(
          'couplings',
          'Each coupling switched off in turn',
          'Change: of the mean TTFT against all together. Planner moves and controller changes are counted.',
          [
            'variant',
            'SLO met (%)',
            'TTFT mean (ms)',
            'TTFT P99 (ms)',
            'ITL P99 (ms)',
            'requests/s',
            'hits (%)',
            'prefill engines',
            'moves',
            'changes',
            'worst placement',
            'change (%)',
          ],
          rows,
        ),
      ],
      finding: findingOf(steps, rows),
    };
  },
};

function rowOf(name: string, run: Measurement, whole: Measurement): StudyCell[] {
  const { summary, moves } = run;
  const split = run.series.prefill_engines?.value ?? [];
  const planned = moves.filter(({ note }) => note.startsWith('change')).length;
  const poa = run.series.placement_poa?.value ?? [];
  const ttft = summary.ttftMs?.mean ?? Number.NaN;
  const base = whole.summary.ttftMs?.mean ?? Number.NaN;
  return [
    name,
    100 * (summary.sloAttainment ?? 0),
    ttft,
    summary.ttftMs?.p99 ?? null,
    summary.itlMs?.p99 ?? null,
    summary.requestsPerSecond,
    100 * summary.hitRates.total,
    split.length === 0 ? '48' : `${split.reduce((a, b) => Math.min(a, b))}..${split.reduce((a, b) => Math.max(a, b))}`,
    planned,
    moves.length - planned,
    poa.length === 0 ? null : poa.reduce((a, b) => Math.max(a, b)),
    run === whole ? null : (100 * (ttft - base)) / base,
  ];
}

function chartsOf(run: Measurement): Chart[] {
  const chart = (title: string, yLabel: string, courses: readonly Course[]): Chart => ({
    title,
    xLabel: 'simulated time (s)',
    yLabel,
    series: courses.map(({ name, points }) => ({ name, group: name, kind: 'emulated', points })),
  });
  return [
    chart('Requests', 'requests', [
      courseOf(run, 'inflight_requests', 'in flight', 'sum'),
      courseOf(run, 'queue_depth', 'waiting in engines', 'sum'),
    ]),
    chart('Pressure', 'share', [
      courseOf(run, 'kv_use_g1', 'HBM, mean', 'mean'),
      courseOf(run, 'kv_use_g1', 'HBM, fullest engine', 'most'),
      courseOf(run, 'link_use', 'busiest link', 'most'),
    ]),
    chart('Prefill engines', 'engines', [courseOf(run, 'prefill_engines', 'prefill', 'most')]),
    chart('TTFT P99 as scraped', 's', [courseOf(run, 'scraped_ttft_p99', 'TTFT P99', 'most')]),
  ];
}

function findingOf(steps: readonly Step[], rows: readonly (readonly StudyCell[])[]): string {
  const [whole, ...others] = rows as [readonly StudyCell[], ...(readonly StudyCell[])[]];
  const change = (row: readonly StudyCell[]): number => row[11] as number;
  const best = others.reduce((a, b) => (change(b) < change(a) ? b : a));
  const worst = others.reduce((a, b) => (change(b) > change(a) ? b : a));
  const first = steps
    .slice(0, 4)
    .map(({ atSeconds, text }) => `at ${said(atSeconds, 0)} s ${text}`)
    .join('; ');
  const helps = others.filter((row) => change(row) < -1).map((row) => row[0]);
  return (
    `All together met the SLO for ${percent((whole[1] as number) / 100)} of the requests with a mean TTFT of ${said(whole[2] as number, 0)} ms; the cascade began: ${first}. ` +
    `Of the changes, "${best[0]}" changed the mean TTFT most for the better (${said(change(best), 0)} %), "${worst[0]}" most for the worse (${change(worst) > 0 ? '+' : ''}${said(change(worst), 0)} %). ` +
    (helps.length === 0
      ? 'Nothing that was switched off would have helped.'
      : `Better off without, or with it changed: ${helps.join('; ')}.`)
  );
}
