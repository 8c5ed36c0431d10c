import { type ReproductionRow, rowOf } from '../rows.js';
import type { RunsOf, ScenarioCase, SuitePart } from '../suite.js';
import {
  fairClient,
  fullSpike,
  littleNote,
  moveSettings,
  publishedSwitchS,
  quickSpike,
  spikeCase,
  type TopologyName,
  windowsOf,
  workerClient,
} from './cases.js';
import { type PublishedTopology, publishedTopologies } from './published.js';

/** Permits that the move loses: fitted to 11.6 requests/s of the 340B; no mechanism explains it. */
const lostPermits = 82;
const tuned = { tau: 0.7, omega: 1 };

/** Experiment 3: the spike from 32 to 128 and back, static and adaptive. */
export function spikePart(topology: TopologyName, quick: boolean): SuitePart {
  const shape = quick ? quickSpike : fullSpike;
  const runs = quick ? 4 : 20;
  const few = quick ? [1] : [1, 2, 3];
  const workers = Array.from({ length: runs }, (_, index) => spikeCase(topology, shape, workerClient(index, runs), [index + 1]));
  const cases = {
    fair: spikeCase(topology, shape, fairClient, few),
    moved: spikeCase(topology, shape, [...fairClient, ...moveSettings(shape, tuned, lostPermits)], few),
    kept: spikeCase(topology, shape, [...fairClient, ...moveSettings(shape, tuned, 0)], few),
    movedWorkers: spikeCase(topology, shape, moveSettings(shape, tuned, lostPermits), few),
    server: controllerCase(topology, shape, 'server', few),
    client: controllerCase(topology, shape, 'client', few),
  };
  return {
    id: `exp3.${topology}`,
    title: `Experiment 3: 32, 128, 32 in flight, ${topology}`,
    note: `Middle phase. Static: ${runs} runs of worker loops, the fair queue beside it. Adaptive: a move at the published ${publishedSwitchS} s, with ${lostPermits} permits lost (odd, fitted to 11.6 rps) and without; when our controller would switch, by either signal, stands in switch rows.`,
    cases: [...workers, ...Object.values(cases)],
    evaluate: (runsOf) => ({
      rows: [
        ...staticRows(topology, runsOf, workers, cases.fair),
        ...adaptiveRows(topology, runsOf, cases),
        ...switchRows(topology, runsOf, cases, shape.calmSeconds),
      ],
    }),
  };
}

function controllerCase(topology: TopologyName, shape: typeof fullSpike, signal: string, seeds: readonly number[]): ScenarioCase {
  const thresholds = topology === '340b-1p2d' ? [1000, 10_000] : [300, 2000];
  const regimes = [{ tau: 0, omega: 1 }, tuned, { tau: 0.8, omega: 0.1 }];
  return spikeCase(
    topology,
    shape,
    [
      'router.frontends=3',
      `router.frontendParameters=${JSON.stringify(regimes)}`,
      `controller=${JSON.stringify({ policy: 'adaptive', parameters: { thresholds }, signal })}`,
    ],
    seeds,
  );
}

function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const place = share * (sorted.length - 1);
  const below = Math.floor(place);
  return sorted[below]! + (place - below) * (sorted[Math.min(below + 1, sorted.length - 1)]! - sorted[below]!);
}

const defined = (values: readonly (number | null)[]): number[] => values.filter((value) => value !== null);

function staticRows(topology: TopologyName, runsOf: RunsOf, workers: readonly ScenarioCase[], fair: ScenarioCase): ReproductionRow[] {
  const { spike } = publishedTopologies[topology] as PublishedTopology;
  const high = workers.flatMap((each) => windowsOf(runsOf, each, 'high'));
  const fairHigh = windowsOf(runsOf, fair, 'high');
  const ttft = high.map(({ ttftP99Ms }) => ttftP99Ms);
  const [low, top] = [quantile(ttft, 0.05), quantile(ttft, 0.95)];
  const band = `5-95 %: ${(low / 1e3).toFixed(1)}-${(top / 1e3).toFixed(1)} s, factor ${(top / low).toFixed(1)}`;
  const id = `exp3.${topology}.static`;
  return [
    { ...rowOf(`${id}.ttft-p99`, spike.staticTtftP99Ms, ttft, 'ms', 'assumed'), note: band },
    rowOf(`${id}.ttft-p99.p5`, null, [low], 'ms', 'assumed'),
    rowOf(`${id}.ttft-p99.p95`, null, [top], 'ms', 'assumed'),
    {
      ...rowOf(
        `${id}-fifo.ttft-p99`,
        spike.staticTtftP99Ms,
        fairHigh.map(({ ttftP99Ms }) => ttftP99Ms),
        'ms',
        'assumed',
      ),
      note: littleNote(fairHigh),
    },
    {
      ...rowOf(
        `${id}.rps`,
        spike.staticRps,
        high.map(({ requestsPerSecond }) => requestsPerSecond),
        'rps',
        'assumed',
      ),
      note: littleNote(high),
    },
    { ...rowOf(`${id}.poa`, spike.staticPoa, defined(high.map(({ poa }) => poa)), 'ratio', 'assumed'), note: littleNote(high) },
    rowOf(`${id}.poa-snapshots`, spike.staticPoa, defined(high.map(({ poaSnapshots }) => poaSnapshots)), 'ratio', 'assumed'),
  ];
}

function adaptiveRows(
  topology: TopologyName,
  runsOf: RunsOf,
  cases: { readonly moved: ScenarioCase; readonly kept: ScenarioCase; readonly movedWorkers: ScenarioCase },
): ReproductionRow[] {
  const { spike } = publishedTopologies[topology] as PublishedTopology;
  const breaks =
    spike.adaptiveRps === null || spike.afterSwitchTtftMs === null
      ? undefined
      : `published breaks Little's law: 128 / (${spike.afterSwitchTtftMs / 1e3} + 5.61 s) is ${(128 / (spike.afterSwitchTtftMs / 1e3 + 5.61)).toFixed(1)} rps`;
  const rowsFor = (name: string, scenario: ScenarioCase): ReproductionRow[] => {
    const high = windowsOf(runsOf, scenario, 'high');
    const after = windowsOf(runsOf, scenario, 'after');
    const id = `exp3.${topology}.${name}`;
    const note = littleNote(high);
    return [
      {
        ...rowOf(
          `${id}.ttft-p99`,
          spike.adaptiveTtftP99Ms,
          high.map(({ ttftP99Ms }) => ttftP99Ms),
          'ms',
          'assumed',
        ),
        note,
      },
      rowOf(
        `${id}.after.ttft-p99`,
        spike.afterSwitchTtftMs,
        after.map(({ ttftP99Ms }) => ttftP99Ms),
        'ms',
        'assumed',
      ),
      {
        ...rowOf(
          `${id}.after.ttft-p99-by-token`,
          spike.afterSwitchTtftMs,
          after.map(({ ttftP99ByTokenMs }) => ttftP99ByTokenMs),
          'ms',
          'assumed',
        ),
        note: 'by the time of the first token, as histograms count: with those who waited for a connection when the clients moved',
      },
      {
        ...rowOf(
          `${id}.rps`,
          spike.adaptiveRps,
          high.map(({ requestsPerSecond }) => requestsPerSecond),
          'rps',
          name === 'adaptive' && topology === '340b-1p2d' ? 'fit' : 'assumed',
        ),
        note: breaks === undefined ? note : `${note}; ${breaks}`,
      },
      { ...rowOf(`${id}.poa`, spike.adaptivePoa, defined(high.map(({ poa }) => poa)), 'ratio', 'assumed'), note },
    ];
  };
  return [
    ...rowsFor('adaptive', cases.moved),
    ...rowsFor('adaptive-no-loss', cases.kept),
    ...rowsFor('adaptive-workers', cases.movedWorkers),
  ];
}

/** Seconds into the middle phase at which the controller first changed something; none where it never did. */
function switchRows(
  topology: TopologyName,
  runsOf: RunsOf,
  cases: { readonly server: ScenarioCase; readonly client: ScenarioCase },
  phaseStartS: number,
): ReproductionRow[] {
  const { switchS } = (publishedTopologies[topology] as PublishedTopology).spike;
  return (['server', 'client'] as const).map((signal) => {
    const first = runsOf(cases[signal]).map(({ moves }) => moves.map(({ timeNs }) => timeNs / 1e9).find((at) => at >= phaseStartS));
    const seen = first.filter((at) => at !== undefined).map((at) => at - phaseStartS);
    const row = rowOf(`exp3.${topology}.switch-${signal}`, switchS, seen, 's', 'prediction');
    return seen.length === first.length ? row : { ...row, note: `never in ${first.length - seen.length} of ${first.length} runs` };
  });
}
