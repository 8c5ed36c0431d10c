import { measureOscillation, measureStepResponse, type Signal } from '@braess/games';
import type { Measurement } from '../measure-scenario.js';
import type { Chart } from '../reproduce/suite.js';
import { scenarioFile } from '../scenario-files.js';
import { percent, type Study, type StudyContext, type StudyResult, said, table } from './study.js';

const file = scenarioFile('planner-oscillation.yaml');
const series = ['prefill_engines', 'moving_engines'];

/** Dynamo's thresholds with a context of 8,192 tokens, so that a queue of seconds counts. */
const load = (more = '') => [`planner.parameters={ intervalSeconds: 5, contextTokens: 8192${more} }`];
const forecast = (policy: string, more = '') => [
  `planner.policy=${policy}`,
  `planner.parameters={ intervalSeconds: 5, ttftMs: 4000, itlMs: 60${more} }`,
];

const planners = [
  { name: 'static', settings: ['planner.policy=static', 'planner.parameters=null'] },
  { name: 'load', settings: load() },
  { name: 'load, keeps its GPUs', settings: load(', giveBack: false') },
  { name: 'load, waits for its moves', settings: load(', waitForMoves: true') },
  { name: 'load, takes only what is offered', settings: load(', onlyOffered: true') },
  { name: 'load, both', settings: load(', onlyOffered: true, waitForMoves: true') },
  { name: 'sla', settings: forecast('sla') },
  { name: 'sla, keeps its GPUs', settings: forecast('sla', ', giveBack: false') },
  { name: 'gnep', settings: forecast('gnep') },
  { name: 'social', settings: forecast('social') },
];

/**
 * `surge`: prompts at about twice what the four engines that prefill can compute, with short answers. What the other engines could add is not to be seen
 * in prefill's own payoff, which stays at nobody in time: the case in which equilibrium and optimum part.
 */
const loads = [
  { name: 'steady', settings: ['workload.source.arrivals={ kind: poisson, ratePerSecond: 11 }'] },
  {
    name: 'waves',
    settings: ['workload.source.arrivals={ kind: diurnal, meanRatePerSecond: 12, amplitude: 0.6, periodS: 150, peakS: 60 }'],
  },
  {
    name: 'surge',
    settings: [
      'serving[0].count=4',
      'serving[1].count=12',
      'workload.source.arrivals={ kind: poisson, ratePerSecond: 24 }',
      'workload.source.outputTokens={ kind: exponential, meanTokens: 100, maxTokens: 2000 }',
    ],
  },
];

/** What the split of the engines did in one run. */
interface SplitTrace {
  readonly signal: Signal;
  readonly least: number;
  readonly most: number;
  readonly swings: number;
  readonly meanSwing: number;
  readonly periodSeconds: number;
  readonly growth: number;
  /** Engine-seconds spent draining and switching over all engine-seconds. */
  readonly lostShare: number;
}

/** GPUs move by whole engines, so a swing is a move of two or more: one is a single engine's step. */
const leastSwing = 2;

function traceSplit(run: Measurement, engines: number): SplitTrace {
  // An emptying cluster that is given back is no oscillation.
  const signal = until(signalOf(run, 'prefill_engines'), Math.max(0, ...(run.columns.arrivalNs ?? [])));
  const { values } = signal;
  const { swings, meanSwing, periodNs, growth } = measureOscillation(signal, leastSwing);
  const moving = signalOf(run, 'moving_engines');
  const endNs = run.summary.simulatedSeconds * 1e9;
  let engineNs = 0;
  for (const [index, count] of moving.values.entries())
    engineNs += count * (Math.min(endNs, moving.timeNs[index + 1] ?? endNs) - moving.timeNs[index]!);
  return {
    signal,
    least: values.length === 0 ? Number.NaN : Math.min(...values),
    most: values.length === 0 ? Number.NaN : Math.max(...values),
    swings,
    meanSwing,
    periodSeconds: periodNs / 1e9,
    growth,
    lostShare: values.length === 0 ? 0 : engineNs / (engines * endNs),
  };
}

function until({ timeNs, values }: Signal, endNs: number): Signal {
  const kept = timeNs.filter((at) => at <= endNs).length;
  return { timeNs: timeNs.slice(0, kept), values: values.slice(0, kept) };
}

/** A series of the cluster as a signal: of samples at one time the last holds. */
function signalOf(run: Measurement, name: string): Signal {
  const { timeNs = [], value = [] } = run.series[name] ?? {};
  const times: number[] = [];
  const values: number[] = [];
  for (const [index, at] of timeNs.entries()) {
    if (times.at(-1) === at) values[values.length - 1] = value[index]!;
    else {
      times.push(at);
      values.push(value[index]!);
    }
  }
  return { timeNs: Float64Array.from(times), values: Float64Array.from(values) };
}

/** Game 1 with a split that really changes: does the planner oscillate, what does that cost, and what damps it? */
export const oscillationStudy: Study = {
  name: 'oscillation',
  title: 'Planners that move GPUs between prefill and decode',
  async run(context: StudyContext): Promise<StudyResult> {
    const length = [`workload.requests=${context.quick ? 2500 : 10_000}`];
    const cases = loads.flatMap((each) => planners.map((planner) => ({ load: each, planner })));
    const runs = await context.measureAll(
      cases.map(({ load: { settings }, planner }) => ({
        file,
        settings: [...length, ...settings, ...planner.settings],
        series,
        columns: ['arrivalNs'] as const,
      })),
    );
    const traces = runs.map((run) => traceSplit(run, 16));
    const rows = cases.map(({ load: { name }, planner }, index) => {
      const { summary, gpuHours } = runs[index]!;
      const { least, most, swings, meanSwing, periodSeconds, growth, lostShare } = traces[index]!;
      const range = Number.isNaN(least) ? '-' : `${least}..${most}`;
      return [
        name,
        planner.name,
        range,
        swings,
        meanSwing,
        periodSeconds,
        growth,
        100 * lostShare,
        100 * (summary.sloAttainment ?? 0),
        summary.ttftMs?.p99 ?? null,
        gpuHours.used,
      ];
    });
    const head = [
      'load',
      'planner',
      'prefill engines',
      'swings',
      'mean swing',
      'period (s)',
      'growth',
      'moving (%)',
      'SLO met (%)',
      'TTFT P99 (ms)',
      'GPU-hours',
    ];
    const note = `Of 16 engines, 8 prefill to begin with, 4 in the surge. A swing is a reversal of at least ${leastSwing} engines; growth below 1 is damped; both up to the last arrival. GPU-hours are those in use: a run that takes longer uses more, one whose planner gives engines back less.`;
    const charts = loads.map((each, at) => chartOf(each.name, cases, traces, at));
    const transitions = transitionRows(cases, traces);
    return {
      tables: [
        table('oscillation', 'Splits and what they cost', note, head, rows, charts),
        table(
          'transition',
          'From the first split to the last, as a step response',
          'A crossing is a time at which the split passes the one it ends with.',
          transitionHead,
          transitions,
        ),
      ],
      finding: findingOf(rows),
    };
  },
};

type Case = { readonly load: { readonly name: string }; readonly planner: { readonly name: string } };

const transitionHead = ['load', 'planner', 'from', 'to', 'transition (s)', 'overshoot', 'crossings', 'settled (s)'];

/** Towards the split at which the run ended, from the one it began with. */
function transitionRows(cases: readonly Case[], traces: readonly SplitTrace[]): (string | number | null)[][] {
  return cases.flatMap(({ load: { name }, planner }, index) => {
    const { signal } = traces[index]!;
    const from = signal.values[0];
    const to = signal.values.at(-1);
    if (from === undefined || to === undefined || from === to) return [];
    const step = measureStepResponse(signal, { changeAtNs: 0, from, to });
    return [[name, planner.name, from, to, step.transitionTimeNs / 1e9, step.overshoot, step.targetCrossings, step.settlingTimeNs / 1e9]];
  });
}

function chartOf(name: string, cases: readonly Case[], traces: readonly SplitTrace[], loadAt: number): Chart {
  const shown = ['load', 'load, both', 'sla', 'gnep'];
  return {
    title: `Prefill engines under ${name} load`,
    xLabel: 'simulated time (s)',
    yLabel: 'engines',
    series: cases.flatMap((each, index) => {
      if (each.load.name !== loads[loadAt]!.name || !shown.includes(each.planner.name)) return [];
      const { timeNs, values } = traces[index]!.signal;
      const points = Array.from(values, (y, at) => ({ x: timeNs[at]! / 1e9, y }));
      return [{ name: each.planner.name, kind: 'emulated' as const, group: each.planner.name, points }];
    }),
  };
}

function findingOf(rows: readonly (readonly (string | number | null)[])[]): string {
  const of = (load: string, planner: string) => rows.find((row) => row[0] === load && row[1] === planner)!;
  const slo = (load: string, planner: string): string => percent((of(load, planner)[8] as number) / 100);
  const best = (load: string) => rows.filter((row) => row[0] === load).reduce((a, b) => ((b[8] as number) > (a[8] as number) ? b : a));
  const [steady, waves] = loads.map(({ name }) => best(name)) as [(typeof rows)[number], (typeof rows)[number]];
  const naive = of('waves', 'load');
  const hours = (planner: string): string => said(of('waves', planner)[10] as number);
  return (
    `Under waves the load planner moved between ${naive[2]} prefill engines in ${naive[3]} swings of ${said(naive[4] as number)} engines and met the SLO for ${slo('waves', 'load')} of the requests ` +
    `(a static split: ${slo('waves', 'static')}); under steady load, where nothing calls for moves, it met ${slo('steady', 'load')} against ${slo('steady', 'static')} of a static split. ` +
    `Waiting for moves under way gave ${slo('waves', 'load, waits for its moves')} and ${slo('steady', 'load, waits for its moves')}, taking only engines that the other pool offers ` +
    `${slo('waves', 'load, takes only what is offered')} and ${slo('steady', 'load, takes only what is offered')} (waves, steady). Best under waves: ${waves[1]} with ${percent((waves[8] as number) / 100)}; ` +
    `under steady load: ${steady[1]} with ${percent((steady[8] as number) / 100)}. Under waves the sla planner used ${hours('sla')} GPU-hours and met ${slo('waves', 'sla')}; without giving ` +
    `engines back, ${hours('sla, keeps its GPUs')} and ${slo('waves', 'sla, keeps its GPUs')} (load: ${hours('load')} and ${hours('load, keeps its GPUs')}). ${gamesApart(rows)}`
  );
}

/** Where the equilibrium planner and the social one did the same, and where not. */
function gamesApart(rows: readonly (readonly (string | number | null)[])[]): string {
  const of = (load: string, planner: string) => rows.find((row) => row[0] === load && row[1] === planner)!;
  const same = loads
    .filter(({ name }) => String(of(name, 'gnep').slice(2)) === String(of(name, 'social').slice(2)))
    .map(({ name }) => name);
  const apart = loads.filter(({ name }) => !same.includes(name)).map(({ name }) => name);
  const alike =
    same.length === 0
      ? ''
      : `The equilibrium planner and the social one made the same moves (${same.join(', ')}): what prefill does to decode counts only while prompts come faster than they are computed. `;
  const differences = apart.map((name) => {
    const [gnep, social] = [of(name, 'gnep'), of(name, 'social')];
    const told = (row: typeof gnep): string =>
      `${row[2]} prefill engines, ${percent((row[8] as number) / 100)} in time, TTFT P99 ${said((row[9] as number) / 1e3)} s`;
    return `${name} (equilibrium: ${told(gnep)}; optimum: ${told(social)})`;
  });
  return `${alike}${differences.length === 0 ? 'They never parted.' : `They parted under ${differences.join('; ')}.`}`;
}
