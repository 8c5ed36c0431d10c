import { type StudyCell, said, table } from '../study.js';
import { incastFile, mean, runsAt, type StudyPart, tasksOf } from './part.js';

const columns = ['transferBytes', 'transferStartNs', 'transferEndNs'] as const;

/** KV of several prefill engines meets at the NIC of one decode engine. */
export function incastPart(): StudyPart {
  const seeds = [1];
  const senders = [1, 2, 4, 8];
  const fidelities = ['flow', 'chunk'] as const;
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
      const at = (place: number) => {
        const [run] = runsAt(runs, place, seeds);
        const { transferStartNs = [], transferEndNs = [], transferBytes = [] } = run!.columns;
        const times = transferEndNs.map((end, index) => (end - transferStartNs[index]!) / 1e6);
        const sum = (name: string): number => (run!.series[name]?.value ?? []).reduce((a, b) => a + b, 0);
        return {
          mean: mean(times),
          last: Math.max(...times),
          megabytes: mean(transferBytes) / 1e6,
          marks: sum('link_marks'),
          pausedMs: 1e3 * sum('link_paused_seconds'),
        };
      };
      const alone = at(0);
      const rows = senders.map((count, place): StudyCell[] => {
        const [flow, chunk] = [at(2 * place), at(2 * place + 1)];
        return [
          count,
          flow.megabytes,
          count * alone.last,
          flow.last,
          chunk.mean,
          chunk.last,
          100 * (chunk.last / flow.last - 1),
          chunk.marks,
          chunk.pausedMs,
        ];
      });
      const last = rows.at(-1)!;
      const line = (name: string, column: number) => ({
        name,
        group: name,
        kind: 'emulated' as const,
        points: rows.map((row) => ({ x: row[0] as number, y: row[column] as number })),
      });
      return {
        table: table(
          'incast',
          'Incast at the NIC of a decode engine',
          'Equal KV from so many prefill engines at one moment, over one switch, 100 Gb/s NICs. Shared: so many times the time of one alone at flow fidelity.',
          [
            'senders',
            'KV (MB)',
            'shared (ms)',
            'flow, last (ms)',
            'chunk, mean (ms)',
            'chunk, last (ms)',
            'chunk later by (%)',
            'ECN marks',
            'paused (ms)',
          ],
          rows,
          [{ title: 'End of the last transfer', xLabel: 'senders', yLabel: 'ms', series: [line('flow', 3), line('chunk', 5)] }],
        ),
        sentence:
          `With ${last[0]} senders at one NIC the last KV arrived after ${said(last[3] as number)} ms at flow fidelity and ${said(last[5] as number)} ms in chunks ` +
          `(${said(last[6] as number)} % later, ${said(last[7] as number, 0)} ECN marks, ports paused for ${said(last[8] as number)} ms in sum): that much an oracle that counts fair shares does not see.`,
      };
    },
  };
}
