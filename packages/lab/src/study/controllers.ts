import { meanInterval } from '@braess/games';
import type { Measurement, MeasureTask } from '../measure-scenario.js';
import { fullSpike, quickSpike, spikeCase, workerClient } from '../reproduce/poa/cases.js';
import type { Chart } from '../reproduce/suite.js';
import { scenarioFile } from '../scenario-files.js';
import { percent, type Study, type StudyContext, type StudyResult, said, signed, table } from './study.js';

const waveFile = scenarioFile('controller-spike.yaml');
const series = ['placement_poa'];

/** Router parameters of the published regimes, a frontend each. */
const regimes = [
  { tau: 0, omega: 1 },
  { tau: 0.7, omega: 1 },
  { tau: 0.8, omega: 0.1 },
];

interface Controller {
  readonly name: string;
  readonly policy: string;
  readonly parameters: Readonly<Record<string, unknown>>;
}

/** The one that never acts scrapes like the others, so that nothing else differs. */
const controllersFor = (thresholds: readonly [number, number], more: readonly Controller[] = []): Controller[] => [
  { name: 'none', policy: 'adaptive', parameters: { thresholds: [1e12, 2e12] } },
  { name: 'adaptive (published)', policy: 'adaptive', parameters: { thresholds } },
  { name: 'hysteresis', policy: 'hysteresis', parameters: { thresholds } },
  { name: 'poa-driven', policy: 'poa-driven', parameters: {} },
  { name: 'gradient', policy: 'gradient', parameters: {} },
  ...more,
];

interface Load {
  readonly name: string;
  readonly controllers: readonly Controller[];
  task(controller: Controller, seed: number, context: { readonly quick: boolean; readonly seeds: number }): MeasureTask;
}

const controllerSetting = ({ policy, parameters }: Controller, signal?: string): string =>
  `controller=${JSON.stringify({ policy, parameters, ...(signal === undefined ? {} : { signal }) })}`;

const loads: readonly Load[] = [
  {
    name: 'paper: 32, 128, 32 in flight',
    // Plateau 18.7: a third above it, and three times as high.
    controllers: controllersFor(
      [1000, 10_000],
      [{ name: 'poa-driven by PoA-hat', policy: 'poa-driven', parameters: { metric: 'poa_hat', thresholds: [25, 60] } }],
    ),
    task: (controller, seed, { quick, seeds }) => {
      const settings = [
        'router.frontends=3',
        `router.frontendParameters=${JSON.stringify(regimes)}`,
        controllerSetting(controller, 'client'),
        ...workerClient(seed - 1, seeds),
      ];
      const { file, settings: all } = spikeCase('340b-1p2d', quick ? quickSpike : fullSpike, settings, [seed]);
      return { file, settings: [...all, `seed=${seed}`], series };
    },
  },
  {
    name: 'wave past prefill, one prefill engine',
    controllers: controllersFor([300, 2000]),
    task: (controller, seed) => ({ file: waveFile, settings: [controllerSetting(controller), `seed=${seed}`], series }),
  },
  {
    name: 'wave over hot prefixes, four prefill engines',
    controllers: controllersFor([300, 2000]),
    task: (controller, seed, { quick }) => ({
      file: waveFile,
      settings: [
        'serving[0].count=4',
        `workload.requests=${quick ? 6000 : 12_000}`,
        `workload.source.arrivals={ kind: diurnal, meanRatePerSecond: 55, amplitude: 0.95, periodS: ${quick ? 110 : 220}, peakS: ${quick ? 55 : 110} }`,
        'workload.source.prefix={ groups: 12, popularity: { kind: zipf, exponent: 1.2 }, prefixTokens: { kind: constant, tokens: 3000 } }',
        'workload.source.inputTokens={ kind: constant, tokens: 1000 }',
        'workload.slo.ttftMs=500',
        controllerSetting(controller),
        `seed=${seed}`,
      ],
      series,
    }),
  },
];

interface Outcome {
  readonly load: string;
  readonly controller: string;
  readonly switches: number;
  readonly firstSwitchS: number | null;
  readonly highestRegime: number;
  /** Share of the time away from the first regime. */
  readonly awayShare: number;
  readonly sloAttainment: number;
  readonly ttftMeanMs: number;
  readonly ttftP99Ms: number;
  readonly placementPoa: number;
  /** Mean TTFT against that without a controller, percent, seed by seed: mean and 95 % reach. */
  readonly change: number;
  readonly reach: number | null;
}

/** Controllers that change router parameters by what they scrape: what do they gain, and where? */
export const controllersStudy: Study = {
  name: 'controllers',
  title: 'Controllers that change router parameters: published, with hysteresis, by the price of anarchy, by the gradient',
  async run(context: StudyContext): Promise<StudyResult> {
    const seeds = context.quick ? 2 : 8;
    const numbers = Array.from({ length: seeds }, (_, index) => index + 1);
    const cases = loads.flatMap((load) => load.controllers.map((controller) => ({ load, controller })));
    const measured = await context.measureAll(
      cases.flatMap(({ load, controller }) => numbers.map((seed) => load.task(controller, seed, { quick: context.quick, seeds }))),
    );
    const runsOf = (index: number): readonly Measurement[] => measured.slice(seeds * index, seeds * (index + 1));
    const outcomes = cases.map(({ load, controller }, index) => {
      const base = cases.findIndex((each) => each.load === load);
      return outcomeOf(load.name, controller.name, runsOf(index), runsOf(base));
    });
    const head = [
      'load',
      'controller',
      'switches',
      'first (s)',
      'highest regime',
      'away (%)',
      'SLO met (%)',
      'TTFT mean (ms)',
      'TTFT P99 (ms)',
      'placement PoA',
      'TTFT mean against none (%)',
      '+-',
    ];
    const rows = outcomes.map((each) => [
      each.load,
      each.controller,
      each.switches,
      each.firstSwitchS,
      each.highestRegime,
      100 * each.awayShare,
      100 * each.sloAttainment,
      each.ttftMeanMs,
      each.ttftP99Ms,
      each.placementPoa,
      each.change,
      each.reach,
    ]);
    const note = `Means of ${seeds} seeds; the change of TTFT is taken seed by seed, +- its 95 % interval. Regimes are numbered from 1; away: outside the first.`;
    const charts = [regimeChart(cases, runsOf)];
    return {
      tables: [table('controllers', 'What each controller did and gained', note, head, rows, charts)],
      finding: findingOf(outcomes),
    };
  },
};

/** Regime changes of a run: which, and when. */
function switchesOf(run: Measurement): { readonly atS: number; readonly regime: number }[] {
  return run.moves.map(({ timeNs, note }) => {
    const tau = Number(/tau ([\d.]+)/.exec(note)?.[1]);
    return { atS: timeNs / 1e9, regime: regimes.findIndex((regime) => regime.tau === tau) };
  });
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

function outcomeOf(load: string, controller: string, runs: readonly Measurement[], base: readonly Measurement[]): Outcome {
  const changes = runs.map(
    (run, index) => 100 * ((run.summary.ttftMs?.mean ?? Number.NaN) / (base[index]!.summary.ttftMs?.mean ?? Number.NaN) - 1),
  );
  const { mean: change, halfWidth } = meanInterval(changes);
  const switches = runs.map(switchesOf);
  const first = switches.flatMap((list) => (list[0] === undefined ? [] : [list[0].atS]));
  return {
    load,
    controller,
    switches: mean(switches.map((list) => list.length)),
    firstSwitchS: first.length === 0 ? null : mean(first),
    highestRegime: 1 + Math.max(0, ...switches.flat().map(({ regime }) => regime)),
    awayShare: mean(runs.map((run, index) => awaySeconds(switches[index]!, run.summary.simulatedSeconds) / run.summary.simulatedSeconds)),
    sloAttainment: mean(runs.map(({ summary }) => summary.sloAttainment ?? Number.NaN)),
    ttftMeanMs: mean(runs.map(({ summary }) => summary.ttftMs?.mean ?? Number.NaN)),
    ttftP99Ms: mean(runs.map(({ summary }) => summary.ttftMs?.p99 ?? Number.NaN)),
    placementPoa: mean(runs.map((run) => mean(run.series.placement_poa?.value ?? [Number.NaN]))),
    change,
    reach: halfWidth,
  };
}

function awaySeconds(switches: readonly { readonly atS: number; readonly regime: number }[], endS: number): number {
  return switches.reduce(
    (sum, { atS, regime }, index) => sum + (regime === 0 ? 0 : Math.max(0, (switches[index + 1]?.atS ?? endS) - atS)),
    0,
  );
}

function regimeChart(
  cases: readonly { readonly load: Load; readonly controller: Controller }[],
  runsOf: (index: number) => readonly Measurement[],
): Chart {
  const shown = loads[1]!;
  return {
    title: `Regimes over time: ${shown.name}`,
    xLabel: 'simulated time (s)',
    yLabel: 'regime',
    series: cases.flatMap(({ load, controller }, index) => {
      if (load !== shown || controller.name === 'none') return [];
      const run = runsOf(index)[0]!;
      let last = 1;
      // Steps: the regime up to the switch, and the one after it.
      const points = switchesOf(run).flatMap(({ atS, regime }) => {
        const before = last;
        last = regime + 1;
        return [
          { x: atS, y: before },
          { x: atS, y: last },
        ];
      });
      const all = [{ x: 0, y: 1 }, ...points, { x: run.summary.simulatedSeconds, y: last }];
      return [{ name: controller.name, kind: 'emulated' as const, group: controller.name, points: all }];
    }),
  };
}

/** Percent of the mean TTFT that are worth telling. */
const leastChange = 0.05;

/** Whether a change is one: beyond its interval, and not nothing. */
const isSure = ({ change, reach }: Outcome): boolean => reach !== null && Math.abs(change) > Math.max(reach, leastChange);

function findingOf(outcomes: readonly Outcome[]): string {
  const sentences = loads.map(({ name }) => {
    const [none, ...all] = outcomes.filter(({ load }) => load === name) as [Outcome, ...Outcome[]];
    const told = all.map((each) => {
      if (each.switches === 0) return `${each.controller} never acted`;
      const change = isSure(each)
        ? `${signed(each.change)} mean TTFT`
        : `mean TTFT as without (${signed(each.change)} +- ${said(each.reach)})`;
      return `${each.controller} ${change}, ${said(each.switches)} switches up to regime ${each.highestRegime}`;
    });
    return `${name} (without a controller TTFT P99 ${said(none.ttftP99Ms / 1e3)} s, ${percent(none.sloAttainment)} in time): ${told.join('; ')}.`;
  });
  const best = outcomes.filter((each) => isSure(each) && each.change < 0).sort((a, b) => a.change - b.change)[0];
  const verdict =
    best === undefined
      ? `No controller shortened TTFT by more than ${leastChange} %, and beyond its interval, on any load.`
      : `The greatest gain beyond its interval: ${best.controller} on ${best.load}, ${signed(best.change)} mean TTFT.`;
  const placement = Math.max(...outcomes.filter(({ controller }) => controller === 'none').map(({ placementPoa }) => placementPoa));
  return `${sentences.join(' ')} ${verdict} Placement at the decode engines was within ${percent(placement - 1)} of the best without any controller: there was that much to gain there, and nothing in the queues that made TTFT long.`;
}
