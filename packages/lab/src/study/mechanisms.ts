import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { counterfactualPoa } from '../counterfactual.js';
import type { Measurement } from '../measure-scenario.js';
import type { WindowMeasure } from '../measure-windows.js';
import { fairClient, fullSpike, moveSettings, quickSpike, spikeCase, steadyCase } from '../reproduce/poa/cases.js';
import { publishedTopologies } from '../reproduce/poa/published.js';
import type { ScenarioCase } from '../reproduce/suite.js';
import { runScenario } from '../run-scenario.js';
import { percent, type Study, type StudyCell, type StudyContext, type StudyResult, type StudyTable, said, table } from './study.js';

const base = '340b-1p2d';
const published = publishedTopologies[base]!;
const noLimit = 'workload.connections=null';
const decodeProfile = (profile: string): string =>
  `serving=${JSON.stringify([
    { count: 1, role: 'prefill', tensorParallel: 8, maxSequences: 4, timing: { kind: 'roofline', profile: 'poa-340b' } },
    { count: 2, role: 'decode', tensorParallel: 8, timing: { kind: 'roofline', profile } },
  ])}`;

/** Mechanisms that could make the published numbers, each as settings over the base scenario. */
const mechanisms: readonly { readonly name: string; readonly settings: readonly string[] }[] = [
  { name: 'limit 100, worker loops (aiohttp)', settings: [] },
  { name: 'limit 100, a task a request (aiohttp)', settings: ['workload.client.style=semaphore', 'workload.client.backlog=true'] },
  { name: 'limit 100, fifo', settings: fairClient },
  { name: 'limit 100, random', settings: ['workload.connections.order=random'] },
  { name: 'limit 100, lifo', settings: ['workload.connections.order=lifo'] },
  { name: 'limit 100, barge(0.5)', settings: ['workload.connections.order=barge', 'workload.connections.bargeShare=0.5'] },
  { name: 'no limit', settings: [noLimit] },
  { name: 'no limit, decode batch of 50', settings: [noLimit, 'serving[1].maxSequences=50'] },
  { name: 'no limit, prefill slots held', settings: [noLimit, 'serving[0].holdsSlots=true', 'delays.releaseUs=200000'] },
  { name: 'no limit, stalls at new batch sizes', settings: [noLimit, 'serving[1].newBatchStallMs=500'] },
  { name: 'no limit, ITL grows with batch', settings: [noLimit, decodeProfile('poa-340b-graphs')] },
  { name: 'limit 100, 2P/1D', settings: ['serving[0].count=2', 'serving[1].count=1'] },
];

/** Definitions of PoA-hat, as options of the live actor. */
const definitions: readonly { readonly name: string; readonly settings: readonly string[] }[] = [
  { name: 'published: all in flight, one slot a worker, a n', settings: [] },
  { name: 'rows in service only', settings: ['telemetry.poa.rows=in-service'] },
  { name: 'slots without limit', settings: ['telemetry.poa.slotsPerWorker=unlimited'] },
  { name: 'means instead of sums', settings: ['telemetry.poa.aggregate=mean'] },
  { name: 'with a pole at 64', settings: ['telemetry.poa.poleScale=1', 'telemetry.poa.saturationLoad=64'] },
  {
    name: 'same units (assignment made / best)',
    settings: ['telemetry.poa.definition=same-units', 'telemetry.poa.slotsPerWorker=unlimited', 'telemetry.poa.rows=in-service'],
  },
  { name: 'load-dependent optimum', settings: ['telemetry.poa.definition=load-dependent', 'telemetry.poa.rows=in-service'] },
];

const lostPermits = 82;
const tuned = { tau: 0.7, omega: 1 };
const same = { tau: 0, omega: 1 };

/** What makes the numbers of arXiv 2606.17081, and which of its claims survive. */
export const mechanismStudy: Study = {
  name: 'poa',
  title: 'What makes the numbers of "The Price of Anarchy in Disaggregated Inference"',
  async run(context): Promise<StudyResult> {
    const explained = await explain(context);
    const controls = await control(context);
    const defined = await define(context);
    const omega = await turnOmega(context);
    const counterfactual = await fork(context);
    const tables = [...explained.tables, controls.table, defined.table, omega.table, counterfactual.table];
    const claims = claimTable(explained, controls, defined, omega, counterfactual);
    return { tables: [...tables, claims], finding: finding(explained, controls, defined, omega, counterfactual) };
  },
};

const windowOf = (run: Measurement, name: string): WindowMeasure => run.windows.find((window) => window.name === name)!;
const spikeShape = (quick: boolean) => (quick ? quickSpike : fullSpike);

interface MechanismRun {
  readonly name: string;
  readonly kneeRatio: number;
  readonly rps: number;
  readonly itlP99Ms: number;
  readonly ttftP99Ms: number;
  readonly ttftMeanMs: number;
  readonly poa128: number;
  readonly poa384: number;
}

async function explain({ quick, measureAll }: StudyContext): Promise<{ tables: StudyTable[]; runs: MechanismRun[] }> {
  const loads = [96, 128, 384] as const;
  const seconds = quick ? 60 : 120;
  const measured = await measureAll(mechanisms.flatMap(({ settings }) => loads.map((load) => steadyCase(base, load, seconds, settings))));
  const runs = mechanisms.map(({ name }, index): MechanismRun => {
    const [calm, high, far] = measured.slice(3 * index, 3 * index + 3) as [Measurement, Measurement, Measurement];
    const [at96, at128, at384] = [windowOf(calm, 'whole'), windowOf(high, 'whole'), windowOf(far, 'whole')];
    return {
      name,
      kneeRatio: at128.ttftMeanMs / at96.ttftMeanMs,
      rps: windowOf(high, 'steady').requestsPerSecond,
      itlP99Ms: high.summary.itlMs?.p99 ?? Number.NaN,
      ttftP99Ms: at128.ttftP99Ms,
      ttftMeanMs: at128.ttftMeanMs,
      poa128: at128.poa ?? Number.NaN,
      poa384: at384.poa ?? Number.NaN,
    };
  });
  const seen = table(
    'mechanisms',
    'Mechanisms, one at a time (340B 1P/2D)',
    'Mean TTFT at 128 over that at 96; the rest at 128 in flight, PoA-hat also at 384.',
    ['mechanism', 'knee', 'rps', 'ITL P99, ms', 'TTFT P99, ms', 'TTFT mean, ms', 'PoA-hat 128', 'PoA-hat 384'],
    runs.map(({ name, ...numbers }) => [name, ...Object.values(numbers).map(rounded)]),
  );
  const numbers: readonly { readonly what: string; readonly value: number; readonly of: (run: MechanismRun) => number }[] = [
    { what: 'throughput 18.2 rps', value: 18.2, of: ({ rps }) => rps },
    { what: 'ITL P99 22 ms', value: 22, of: ({ itlP99Ms }) => itlP99Ms },
    { what: 'TTFT P99 at 128: 16.2 s (experiment 1)', value: 16.2, of: ({ ttftP99Ms }) => ttftP99Ms / 1e3 },
    { what: 'TTFT P99 at 128: 28.3 s (experiment 3)', value: 28.26, of: ({ ttftP99Ms }) => ttftP99Ms / 1e3 },
    { what: 'TTFT P99, adaptive: 5.92 s', value: 5.92, of: ({ ttftP99Ms }) => ttftP99Ms / 1e3 },
    { what: 'mean TTFT 1.42 s (128 / 18.2 - 5.61 s)', value: 128 / 18.2 - 5.61, of: ({ ttftMeanMs }) => ttftMeanMs / 1e3 },
    { what: 'PoA-hat at 128: 33.15 (experiment 3)', value: 33.15, of: ({ poa128 }) => poa128 },
    { what: 'PoA-hat at 384: 283.6', value: 283.6, of: ({ poa384 }) => poa384 },
  ];
  const nearest = table(
    'nearest',
    'Each published number and the mechanisms that come nearest',
    'By ratio; in brackets what each gives, in the unit of the published number.',
    ['published', 'nearest', 'second', 'third'],
    numbers.map(({ what, value, of }) => {
      const far = (run: MechanismRun): number => Math.abs(Math.log(of(run) / value));
      const order = runs.filter((run) => Number.isFinite(far(run))).sort((a, b) => far(a) - far(b));
      return [
        what,
        ...[0, 1, 2].map((place): StudyCell => (order[place] === undefined ? null : `${order[place].name} (${said(of(order[place]), 2)})`)),
      ];
    }),
  );
  return { tables: [seen, nearest], runs };
}

interface Control {
  readonly name: string;
  readonly high: WindowMeasure;
  readonly after: WindowMeasure;
}

async function control({ quick, measureAll }: StudyContext): Promise<{ table: StudyTable; of: (name: string) => Control }> {
  const shape = spikeShape(quick);
  const spike = (settings: readonly string[], client: readonly string[] = fairClient): ScenarioCase =>
    spikeCase(base, shape, [...client, ...settings], [1]);
  const cases: readonly (readonly [string, ScenarioCase])[] = [
    ['static (0, 1.0)', spike([])],
    ['static (0.7, 1.0)', spike([`router.parameters=${JSON.stringify(tuned)}`])],
    ['move, same parameters', spike(moveSettings(shape, same, 0))],
    ['move to (0.7, 1.0)', spike(moveSettings(shape, tuned, 0))],
    ['move, same parameters, permits lost', spike(moveSettings(shape, same, lostPermits))],
    ['move to (0.7, 1.0), permits lost', spike(moveSettings(shape, tuned, lostPermits))],
    ['move to (0.7, 1.0), view shared', spike([...moveSettings(shape, tuned, 0), 'router.replicaSyncMs=1'])],
    ['parameters set in place, view kept', spike(['controller={policy: adaptive, signal: client, apply: set}'])],
    ['no limit, static', spike([], [noLimit])],
    ['no limit, move to (0.7, 1.0)', spike(moveSettings(shape, tuned, 0), [noLimit])],
    ['2P/1D, static', spike(['serving[0].count=2', 'serving[1].count=1'])],
    ['worker loops, static (0, 1.0)', spike([], [])],
    ['worker loops, static (0.7, 1.0)', spike([`router.parameters=${JSON.stringify(tuned)}`], [])],
    ['worker loops, move, same parameters', spike(moveSettings(shape, same, 0), [])],
  ];
  const runs = await measureAll(cases.map(([, { file, settings, windows }]) => ({ file, settings, windows: windows! })));
  const controls = cases.map(([name], index) => ({ name, high: windowOf(runs[index]!, 'high'), after: windowOf(runs[index]!, 'after') }));
  return {
    table: table(
      'controls',
      'The missing controls (spike of experiment 3)',
      'Middle phase; "after" is what came more than 54.8 s into it. A fair queue unless it says worker loops.',
      ['run', 'rps', 'in flight', 'TTFT P99, ms', 'after: TTFT P99, ms', 'after: in flight', 'PoA-hat'],
      controls.map(({ name, high, after }) => [
        name,
        ...[high.requestsPerSecond, high.inFlight, high.ttftP99Ms, after.ttftP99Ms, after.inFlight, high.poa].map(rounded),
      ]),
    ),
    of: (name) => controls.find((each) => each.name === name)!,
  };
}

interface DefinitionRun {
  readonly name: string;
  readonly values: readonly (number | null)[];
}

async function define({ quick, measureAll }: StudyContext): Promise<{ table: StudyTable; runs: DefinitionRun[]; identityError: number }> {
  const loads = [8, 64, 128, 384] as const;
  const seconds = quick ? 60 : 120;
  const measured = await measureAll(
    definitions.flatMap(({ settings }) => loads.map((load) => steadyCase(base, load, seconds, [...fairClient, ...settings]))),
  );
  const runs = definitions.map(({ name }, index) => ({
    name,
    values: measured.slice(loads.length * index, loads.length * (index + 1)).map((run, place) => {
      const window = windowOf(run, loads[place]! >= 128 ? 'whole' : 'steady');
      // Only the published definition has measured seconds above; the others are what their snapshots say.
      return index === 0 ? window.poa : window.poaSnapshots;
    }),
  }));
  // PoA-hat = height x (C / (X E))^2, with nothing but throughput and decode time.
  const [calm, high] = [windowOf(measured[1]!, 'steady'), windowOf(measured[2]!, 'steady')];
  const shortfall = (window: WindowMeasure, inFlight: number): number => {
    const ratio = inFlight / ((window.requestsPerSecond * window.decodeMeanMs) / 1e3);
    return ratio * ratio;
  };
  const predicted = (windowOf(measured[1]!, 'steady').poa! * shortfall(high, 128)) / shortfall(calm, 64);
  const identityError = predicted / windowOf(measured[2]!, 'whole').poa! - 1;
  return {
    table: table(
      'definitions',
      'PoA-hat by definition (a fair queue)',
      `Published: flat to 0.1 from 8 to 96, 1.5 to 1.8 times that at 128, 15 times at 384. Height x (C / (X E))^2 is off by ${percent(identityError)} at 128.`,
      ['definition', '8', '64', '128', '384', '384 over 64'],
      runs.map(({ name, values }) => [name, ...values.map(rounded), rounded(values[3]! / values[1]!)]),
    ),
    runs,
    identityError,
  };
}

async function turnOmega({ quick, measureAll }: StudyContext): Promise<{ table: StudyTable; distinct: number; scatter: number }> {
  const omegas = [0, 0.3, 0.7, 1];
  const seconds = quick ? 60 : 120;
  const cellOf = (omega: number, jitterUs: number) =>
    steadyCase(base, 128, seconds, [
      `router.parameters=${JSON.stringify({ tau: 0, omega })}`,
      `workload.client.answerJitterUs=${jitterUs}`,
    ]);
  const [equal, other] = [
    await measureAll(omegas.map((omega) => cellOf(omega, 2000))),
    await measureAll([1000, 1500, 2500, 3000].map((jitter) => cellOf(1, jitter))),
  ];
  const p99 = (run: Measurement): number => windowOf(run, 'whole').ttftP99Ms;
  const distinct = new Set(equal.map(({ fingerprint }) => fingerprint)).size;
  const scatter = Math.max(...other.map(p99)) / Math.min(...other.map(p99));
  return {
    table: table(
      'omega',
      'Omega, all else equal',
      'Decode placement ignores overlap, as in Dynamo, and there is one prefill engine: the fingerprints show whether omega changes anything.',
      ['run', 'TTFT P99, ms', 'fingerprint'],
      [
        ...omegas.map((omega, index): StudyCell[] => [`omega ${omega}`, rounded(p99(equal[index]!)), equal[index]!.fingerprint]),
        ...other.map((run, index): StudyCell[] => [
          `omega 1, client jitter ${[1, 1.5, 2.5, 3][index]} ms`,
          rounded(p99(run)),
          run.fingerprint,
        ]),
      ],
    ),
    distinct,
    scatter,
  };
}

async function fork({
  quick,
}: StudyContext): Promise<{ table: StudyTable; ratio: number | null; low: number | null; high: number | null }> {
  const folder = mkdtempSync(join(tmpdir(), 'braess-study-'));
  try {
    const { file, settings } = steadyCase(base, 128, 60, [...fairClient, `router.parameters=${JSON.stringify(tuned)}`]);
    const summary = await runScenario({ file, settings, out: join(folder, 'run'), transport: 'memory' });
    const moments = quick ? 4 : 10;
    const found = await counterfactualPoa({ folder: summary.folder, moments, decisions: 8, forks: quick ? 6 : 12 });
    const { ratio = null, low = null, high = null } = found.estimate ?? {};
    return {
      table: table(
        'counterfactual',
        'Better placements, tried by forks (128 in flight, tau 0.7)',
        found.bias,
        ['at, s', 'requests', 'realised, s', 'best found, s'],
        found.moments.map(({ atSeconds, requests, realisedSeconds, bestSeconds }) =>
          [atSeconds, requests, realisedSeconds, bestSeconds].map(rounded),
        ),
      ),
      ratio,
      low,
      high,
    };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

type Explained = Awaited<ReturnType<typeof explain>>;
type Controls = Awaited<ReturnType<typeof control>>;
type Defined = Awaited<ReturnType<typeof define>>;
type Omega = Awaited<ReturnType<typeof turnOmega>>;
type Forked = Awaited<ReturnType<typeof fork>>;

/** Each claim, whether it survives, and the numbers that say so. */
function claimTable(explained: Explained, controls: Controls, defined: Defined, omega: Omega, forked: Forked): StudyTable {
  const [workers] = explained.runs as [MechanismRun];
  const unlimited = explained.runs.find(({ name }) => name === 'no limit')!;
  const gain = (name: string): number => controls.of('static (0, 1.0)').after.ttftP99Ms / controls.of(name).after.ttftP99Ms;
  const lostSame = gain('move, same parameters, permits lost');
  const tunedAlone = gain('move to (0.7, 1.0)');
  const growth = defined.runs[0]!.values[2]! / defined.runs[0]!.values[1]!;
  const verdict = (holds: boolean): string => (holds ? 'survives' : 'does not survive');
  return table(
    'claims',
    'Which claims survive',
    'Judged by the numbers of this run.',
    ['claim', 'verdict', 'why'],
    [
      [
        'there is a knee between 96 and 128 in flight',
        verdict(workers.kneeRatio > 3),
        `TTFT grows ${said(workers.kneeRatio)} times with a limit of 100 connections, ${said(unlimited.kneeRatio)} times without: the knee is the client's`,
      ],
      [
        'ITL is flat',
        verdict(workers.itlP99Ms < 1.02 * published.itlP99Ms!),
        `P99 ${said(workers.itlP99Ms)} ms at 128; only what is in service decodes`,
      ],
      [
        'PoA-hat tells the regimes apart',
        verdict(growth > 1.2),
        `it grows ${said(growth, 2)} times, and is height x (C / (X E))^2 to ${percent(Math.abs(defined.identityError))}: a throughput shortfall, whatever the router does`,
      ],
      [
        'PoA-hat measures the price of anarchy of routing',
        verdict((forked.ratio ?? 1) > 1.05),
        `better placements, tried by forks, gain a factor of ${said(forked.ratio, 4)} (95 %: ${said(forked.low, 4)} to ${said(forked.high, 4)})`,
      ],
      [
        'omega lowers TTFT P99 past the knee',
        verdict(omega.distinct > 1),
        `${omega.distinct} distinct run(s) of four values of omega; client jitter alone scatters TTFT P99 by a factor of ${said(omega.scatter)}`,
      ],
      [
        'tuned router parameters make TTFT after the switch fast',
        verdict(tunedAlone > 1.5 && tunedAlone > 1.5 * gain('move, same parameters')),
        `after: ${said(tunedAlone, 2)} times faster with the parameters alone, ${said(lostSame, 1)} times with the same parameters and ${lostPermits} permits lost`,
      ],
      [
        'the adaptive run serves the same load',
        verdict(controls.of('move to (0.7, 1.0), permits lost').after.inFlight > 120),
        `its 11.6 rps need ${said(controls.of('move to (0.7, 1.0), permits lost').after.inFlight, 0)} in flight instead of 128`,
      ],
    ],
  );
}

function finding(explained: Explained, controls: Controls, defined: Defined, omega: Omega, forked: Forked): string {
  const [workers, , fifo] = explained.runs as [MechanismRun, MechanismRun, MechanismRun];
  const unlimited = explained.runs.find(({ name }) => name === 'no limit')!;
  const lost = controls.of('move, same parameters, permits lost');
  return [
    `A limit of 100 client connections gives the knee (mean TTFT ${said(workers.kneeRatio)} times higher at 128 than at 96, ${said(unlimited.kneeRatio)} times without it) and ${said(workers.rps)} rps against 18.2 published.`,
    `TTFT P99 at 128 is ${said(workers.ttftP99Ms / 1e3)} s where worker loops take their own connections back and ${said(fifo.ttftP99Ms / 1e3)} s where the queue is fair, with equal throughput.`,
    `PoA-hat follows from throughput alone (to ${percent(Math.abs(defined.identityError))}); forks that place better gain a factor of ${said(forked.ratio, 4)}.`,
    `Omega changes ${omega.distinct === 1 ? 'nothing, to the last event' : 'the run'}; client jitter alone moves TTFT P99 by a factor of ${said(omega.scatter)}.`,
    `After a switch with unchanged parameters TTFT P99 is ${said(lost.after.ttftP99Ms / 1e3, 2)} s once ${lostPermits} permits are lost, ${said(controls.of('move to (0.7, 1.0)').after.ttftP99Ms / 1e3, 2)} s with the tuned ones and none lost: what helps is less load, not the router.`,
  ].join(' ');
}

/** Four digits. */
function rounded(value: number | null): number | null {
  return value === null || !Number.isFinite(value) ? null : Number(value.toPrecision(4));
}
