import type { MeasureWindow, WindowMeasure } from '../../measure-windows.js';
import { scenarioFile } from '../../scenario-files.js';
import { type ReproductionRow, rowOf } from '../rows.js';
import type { RunsOf, ScenarioCase } from '../suite.js';

export const topologies = ['340b-1p2d', '70b-1p2d', '70b-1p5d'] as const;
/** Model, and numbers of prefill and decode engines. */
export type TopologyName = (typeof topologies)[number];

/** File of a scenario of the suite. */
function caseFile(name: string): string {
  return scenarioFile(`paper/poa/${name}.yaml`);
}

/** Setting: how many requests the closed loop of a scenario of the suite keeps in flight, for how long each; the rest of its client stands there. */
export function clientPhases(phases: readonly { readonly seconds: number; readonly inFlight: number }[]): string {
  return `workload.client.phases=${JSON.stringify(phases)}`;
}

/** A closed loop of constant load: the whole of it, and what follows its first burst, which takes a few cycles to spread. */
export function steadyCase(file: string, inFlight: number, seconds: number, settings: readonly string[] = [], seed?: number): ScenarioCase {
  return {
    file: caseFile(file),
    settings: [clientPhases([{ seconds, inFlight }]), ...settings],
    windows: [
      { name: 'whole', fromSeconds: 0, toSeconds: seconds },
      { name: 'steady', fromSeconds: Math.min(24, 0.4 * seconds), toSeconds: seconds },
    ],
    seeds: [seed ?? 1],
    cost: (seconds * Math.min(inFlight, 100)) / 6000,
  };
}

/**
 * Before the knee PoA-hat is nearly constant, so what is left is the noise of the snapshots: of C in flight about m = rate x prefill time are not at a decode
 * engine, in clumps of k, hence n snapshots give the denominator a relative error of sqrt(k m / n) / C (moments further apart than a prefill are nearly
 * independent): 0.3 % for a minute at 96 in flight with one a second, 0.06 % with twenty. Others are left at one a second, where queues make the difference.
 */
export const calmSnapshots: readonly string[] = ['telemetry.poa.everySeconds=0.05'];

/** Runs of worker loops over which a band is taken, quick or not: fewer do not have one. */
export const bandRuns = 20;

/** Phases of the spike. */
export interface SpikeShape {
  readonly calmSeconds: number;
  readonly highSeconds: number;
}
export const fullSpike: SpikeShape = { calmSeconds: 120, highSeconds: 180 };
/** For studies that have little time: the published middle phase after a shorter calm. */
export const quickSpike: SpikeShape = { calmSeconds: 30, highSeconds: 180 };

/** Seconds into the high phase at which the published controller switched. */
export const publishedSwitchS = 54.8;

export function spikeCase(file: string, shape: SpikeShape, settings: readonly string[], seeds: readonly number[]): ScenarioCase {
  const { calmSeconds, highSeconds } = shape;
  const [low, high] = [32, 128];
  const phases = [
    { seconds: calmSeconds, inFlight: low },
    { seconds: highSeconds, inFlight: high },
    { seconds: calmSeconds, inFlight: low },
  ];
  const end = calmSeconds + highSeconds;
  const windows: MeasureWindow[] = [
    { name: 'high', fromSeconds: calmSeconds, toSeconds: end },
    { name: 'after', fromSeconds: calmSeconds + publishedSwitchS, toSeconds: end },
  ];
  return { file: caseFile(file), settings: [clientPhases(phases), ...settings], windows, seeds, cost: 4 };
}

/** Settings: at the published moment the client moves to a second frontend, and so many permits are lost. */
export function moveSettings({ calmSeconds }: SpikeShape, target: Readonly<Record<string, number>>, permitsLost: number): string[] {
  const moves = [{ atSeconds: calmSeconds + publishedSwitchS, frontend: 1 }];
  return [
    'router.frontends=2',
    `router.frontendParameters=${JSON.stringify([{ tau: 0, omega: 1 }, target])}`,
    `workload.client.moves=${JSON.stringify(moves)}`,
    `workload.client.permitsLostByMove=${permitsLost}`,
  ];
}

/** A fair queue: one semaphore with a task a request, connections first in first out. */
export const fairClient: readonly string[] = [
  'workload.client.style=semaphore',
  'workload.client.backlog=true',
  'workload.connections.order=fifo',
];

/**
 * Worker loops on a busy event loop, run `index` of `of`: nothing says how far apart the answers of one pass are noticed, so it is spread evenly (by its
 * logarithm) from 1 to 3 ms over the runs. Assumed.
 */
export function workerClient(index: number, of: number): string[] {
  const jitterUs = Math.round(1000 * Math.exp(Math.log(3) * ((index + 0.5) / of)));
  return [`workload.client.answerJitterUs=${jitterUs}`];
}

/** A window of each run of a case. */
export function windowsOf(runsOf: RunsOf, scenario: ScenarioCase, name: string): WindowMeasure[] {
  return runsOf(scenario).map(({ windows }) => {
    const found = windows.find((window) => window.name === name);
    if (found === undefined) throw new Error(`no window is named ${name}`);
    return found;
  });
}

/** What Little's law says of emulated windows: the mean relative difference. */
export function littleNote(windows: readonly WindowMeasure[]): string {
  const error = windows.reduce((sum, { littleError }) => sum + littleError, 0) / windows.length;
  return `Little ${error >= 0 ? '+' : ''}${(100 * error).toFixed(1)} %`;
}

/** The rows with a note each, before what they already have to say. */
export function noted(rows: readonly ReproductionRow[], note: string): ReproductionRow[] {
  return rows.map((row) => ({ ...row, note: row.note === undefined ? note : `${note}; ${row.note}` }));
}

/**
 * Rows of TTFT P99 over runs of worker loops: mean, 5 % and 95 % of the runs. One published value is one run, so it is the band that it is held against:
 * the note says whether it lies inside.
 */
export function bandRows(id: string, publishedMs: number | null, valuesMs: readonly number[]): ReproductionRow[] {
  const [low, top] = [quantile(valuesMs, 0.05), quantile(valuesMs, 0.95)];
  const seconds = (valueMs: number): string => (valueMs / 1e3).toFixed(1);
  const held =
    publishedMs === null ? '' : `, ${publishedMs >= low && publishedMs <= top ? 'holds' : 'does not hold'} ${seconds(publishedMs)} s`;
  const note = `5-95 % of ${valuesMs.length} runs: ${seconds(low)}-${seconds(top)} s, factor ${(top / low).toFixed(1)}${held}`;
  return [
    { ...rowOf(id, publishedMs, valuesMs, 'ms', 'assumed'), note },
    rowOf(`${id}.p5`, null, [low], 'ms', 'assumed'),
    rowOf(`${id}.p95`, null, [top], 'ms', 'assumed'),
  ];
}

/** Linear between ranks. */
function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const place = share * (sorted.length - 1);
  const below = Math.floor(place);
  return sorted[below]! + (place - below) * (sorted[Math.min(below + 1, sorted.length - 1)]! - sorted[below]!);
}
