import { planCluster, readScenario, tierInventory } from '@braess/cluster';
import type { Measurement } from '../../measure-scenario.js';
import { percent, type StudyCell, type StudyTable, said, table } from '../study.js';
import { changes, lineOf, mean, nearPercent, oracleFile, runsAt, type StudyPart, tasksOf, ttftMs } from './part.js';

/** Share of every link that constant background takes; far enough from 0 that no error within the bound is cut off there. */
const congestion = 0.3;

/** Network cost alone, so that the order of the tiers alone decides. */
const router = 'router.decode={ policy: weighted, parameters: { alpha: 0, beta: 0, gamma: 1 } }';

/**
 * The staleness bound of NetKV (arXiv 2606.03910): near a and far b keep their order while both errors are at most eps and
 * eps < (B_a (1 - c_a) - B_b (1 - c_b)) / (B_a + B_b).
 */
function orderBound(near: number, far: number, nearCongestion: number, farCongestion: number): number {
  return (near * (1 - nearCongestion) - far * (1 - farCongestion)) / (near + far);
}

/** Probability that two errors, uniform in -+ error and cut so that congestion stays within 0..0.99, swap the tiers: midpoint rule. */
function swapProbability(near: number, far: number, error: number): number {
  const steps = 400;
  const told = (step: number): number => Math.min(0.99, Math.max(0, congestion + error * ((2 * (step + 0.5)) / steps - 1)));
  let swapped = 0;
  for (let a = 0; a < steps; a++) for (let b = 0; b < steps; b++) if (near * (1 - told(a)) < far * (1 - told(b))) swapped++;
  return swapped / (steps * steps);
}

/** Columns of the table, by name. */
const column = { factor: 0, expectedSwaps: 2, farUniform: 3, costUniform: 5, farWorst: 7, costWorst: 9 } as const;

const head = [
  'error / bound',
  'error',
  'expected swaps (%)',
  'far, uniform (%)',
  'TTFT (ms)',
  'cost (%)',
  '+-',
  'far, worst (%)',
  'TTFT, worst (ms)',
  'cost, worst (%)',
];

/** The two tiers whose order is at stake, and the bound on errors that they give. */
interface Tiers {
  readonly near: number;
  readonly far: number;
  readonly bound: number;
}

/** Where the order of the tiers breaks, in decisions and in TTFT. */
export function boundPart(quick: boolean): StudyPart {
  const seeds = quick ? [1, 2, 3] : [1, 2, 3, 4, 5];
  const factors = quick ? [0, 0.95, 1.05, 2] : [0, 0.5, 0.9, 0.98, 1.02, 1.1, 1.5, 2, 3];
  const inventory = tierInventory(planCluster(readScenario(oracleFile)));
  const [near, far] = [inventory.tierBytesPerSecond[2]!, inventory.tierBytesPerSecond[3]!];
  const tiers: Tiers = { near, far, bound: orderBound(near, far, congestion, congestion) };
  const begin = [
    `workload.requests=${quick ? 250 : 1000}`,
    `cluster.fabric.background=[{ link: leaf-uplink, share: ${congestion} }, { link: core-uplink, share: ${congestion} }]`,
    router,
  ];
  const cases = factors.flatMap((factor) => [
    { settings: [...begin, uniformErrors(factor * tiers.bound)] },
    { settings: [...begin, worstError(factor * tiers.bound, inventory)] },
  ]);
  return {
    tasks: tasksOf(cases, seeds),
    evaluate(runs) {
      const rows = rowsOf(runs, factors, seeds, tiers);
      return { table: boundTable(rows, tiers), sentence: sentenceOf(rows, tiers) };
    },
  };
}

/** Drawn for each tier every second. */
function uniformErrors(error: number): string {
  return `router.oracle={ policy: noisy, parameters: { error: ${Math.min(1, error)}, congestion: background } }`;
}

/** The worst an error can be: the near tier looks as much worse, the far one as much better. */
function worstError(error: number, { tierBytesPerSecond, tierLatencyNs }: ReturnType<typeof tierInventory>): string {
  const speeds = Array.from(tierBytesPerSecond, (speed, tier) => {
    const shift = tier < 3 ? -error : error;
    // Congestion is told as 0.99 at most.
    return speed > 0 ? speed * Math.max(0.01, 1 - congestion + shift) : 1;
  });
  const latencies = Array.from(tierLatencyNs, (ns) => (ns > 0 ? ns : 1));
  return `router.oracle={ policy: static-tier, parameters: { bytesPerSecond: [${speeds.join(', ')}], latencyNs: [${latencies.join(', ')}] } }`;
}

/** A row of the table for each factor; the runs of a factor are those with uniform errors, then those with the worst one. */
function rowsOf(
  runs: readonly Measurement[],
  factors: readonly number[],
  seeds: readonly number[],
  { near, far, bound }: Tiers,
): StudyCell[][] {
  const uniform = (place: number) => runsAt(runs, 2 * place, seeds);
  const against = (place: number) => runsAt(runs, 2 * place + 1, seeds);
  return factors.map((factor, place): StudyCell[] => {
    const cost = changes(uniform(0), uniform(place));
    const most = changes(against(0), against(place));
    return [
      factor,
      factor * bound,
      100 * swapProbability(near, far, Math.min(1, factor * bound)),
      100 - mean(uniform(place).map(nearPercent)),
      mean(uniform(place).map(ttftMs)),
      place === 0 ? 0 : cost.mean,
      place === 0 ? null : cost.halfWidth,
      100 - mean(against(place).map(nearPercent)),
      mean(against(place).map(ttftMs)),
      place === 0 ? 0 : most.mean,
    ];
  });
}

function boundTable(rows: StudyCell[][], { near, far, bound }: Tiers): StudyTable {
  const sent = {
    title: 'Requests sent to the far tier',
    xLabel: 'error / bound',
    yLabel: '%',
    series: [lineOf(rows, 'uniform errors', column.farUniform), lineOf(rows, 'worst error', column.farWorst)],
  };
  const cost = {
    title: 'Mean TTFT against no error',
    xLabel: 'error / bound',
    yLabel: '%',
    series: [lineOf(rows, 'uniform errors', column.costUniform), lineOf(rows, 'worst error', column.costWorst)],
  };
  const note =
    `Bound: (B_a (1 - c) - B_b (1 - c)) / (B_a + B_b) = ${bound.toFixed(3)} with B_a = ${near / 1e9} GB/s in the pod, B_b = ${far / 1e9} GB/s across pods, c = ${congestion} constant. The router goes by network cost alone. ` +
    'Uniform errors: drawn for each tier every second; expected: the probability that they swap the tiers. Worst error: all of it against the near and for the far tier, all the time.';
  return table('bound', 'Errors around the bound of the tier order', note, head, rows, [sent, cost]);
}

function sentenceOf(rows: readonly StudyCell[][], { bound }: Tiers): string {
  const at = (row: readonly StudyCell[], place: number): number => row[place] as number;
  const broken = rows.find((row) => at(row, column.farWorst) > 0);
  const below = rows.filter((row) => at(row, column.factor) < 1);
  const kept = below.filter((row) => at(row, column.farUniform) + at(row, column.farWorst) === 0).length;
  const last = rows.at(-1)!;
  return (
    `The bound of the tier order is an error of ${said(bound, 3)} here: ${kept === below.length ? 'below it no request' : `below it, in ${below.length - kept} of ${below.length} cases, a request`} went to the far tier, ` +
    `${broken === undefined ? 'and none above it either' : `the worst error broke the order at ${said(at(broken, column.factor), 2)} times the bound and cost ${said(at(broken, column.costWorst))} % of mean TTFT`}; ` +
    `uniform errors of ${said(at(last, column.factor), 0)} times the bound sent ${percent(at(last, column.farUniform) / 100)} away (${percent(at(last, column.expectedSwaps) / 100)} expected) and cost ${said(at(last, column.costUniform))} %.`
  );
}
