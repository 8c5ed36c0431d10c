import type { Measurement } from '../../measure-scenario.js';
import { type StudyCell, said, table } from '../study.js';
import { incastFile, lineOf, mean, runsAt, type StudyPart, tasksOf } from './part.js';

const columns = ['transferBytes', 'transferStartNs', 'transferEndNs'] as const;

const seeds = [1];
const senders = [1, 2, 4, 8];
const fidelities = ['flow', 'chunk'] as const;

const head = [
  'senders',
  'KV (MB)',
  'shared (ms)',
  'flow, last (ms)',
  'chunk, mean (ms)',
  'chunk, last (ms)',
  'chunk later by (%)',
  'ECN marks',
  'paused (ms)',
];

/** KV of several prefill engines meets at the NIC of one decode engine. */
export function incastPart(): StudyPart {
  const cases = senders.flatMap((count) =>
    fidelities.map((fidelity) => ({
      file: incastFile,
      settings: [`workload.requests=${count}`, `cluster.fabric.fidelity=${fidelity}`, 'telemetry.seriesSeconds=1'],
      columns,
      series: ['link_marks', 'link_paused_seconds'],
    })),
  );
  return {
    tasks: tasksOf(cases, seeds),
    evaluate(runs) {
      const at = (place: number) => transfersOf(runsAt(runs, place, seeds)[0]!);
      const alone = at(0);
      const rows = senders.map((count, place): StudyCell[] => {
        const [flow, chunk] = [at(2 * place), at(2 * place + 1)];
        const later = 100 * (chunk.last / flow.last - 1);
        return [count, flow.megabytes, count * alone.last, flow.last, chunk.mean, chunk.last, later, chunk.marks, chunk.pausedMs];
      });
      const chart = {
        title: 'End of the last transfer',
        xLabel: 'senders',
        yLabel: 'ms',
        series: [lineOf(rows, 'flow', 3), lineOf(rows, 'chunk', 5)],
      };
      const note =
        'Equal KV from so many prefill engines at one moment, over one switch, 100 Gb/s NICs. Shared: so many times the time of one alone at flow fidelity.';
      return {
        table: table('incast', 'Incast at the NIC of a decode engine', note, head, rows, [chart]),
        sentence: sentenceOf(rows.at(-1)!),
      };
    },
  };
}

/** Times of a run's transfers, ms, and what congestion control did meanwhile. */
function transfersOf({ columns: requests, series }: Measurement) {
  const { transferStartNs = [], transferEndNs = [], transferBytes = [] } = requests;
  const times = transferEndNs.map((end, index) => (end - transferStartNs[index]!) / 1e6);
  const sum = (name: string): number => (series[name]?.value ?? []).reduce((a, b) => a + b, 0);
  return {
    mean: mean(times),
    last: Math.max(...times),
    megabytes: mean(transferBytes) / 1e6,
    marks: sum('link_marks'),
    pausedMs: 1e3 * sum('link_paused_seconds'),
  };
}

function sentenceOf(last: readonly StudyCell[]): string {
  const at = (place: number): number => last[place] as number;
  return (
    `With ${at(0)} senders at one NIC the last KV arrived after ${said(at(3))} ms at flow fidelity and ${said(at(5))} ms in chunks ` +
    `(${said(at(6))} % later, ${said(at(7), 0)} ECN marks, ports paused for ${said(at(8))} ms in sum): that much an oracle that counts fair shares does not see.`
  );
}
