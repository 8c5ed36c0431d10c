import { fileURLToPath } from 'node:url';
import { rowOf } from '../rows.js';
import { isSelected, type ReproductionSuite, type ScenarioCase, type SuitePart } from '../suite.js';
import { table2 } from './published.js';

const configs = fileURLToPath(new URL('../../../../../configs/paper/netkv/', import.meta.url));

/** NetKV on the emulated cluster. */
export const netkvSuite: ReproductionSuite = {
  name: 'netkv',
  title: 'NetKV on the emulated cluster',
  source: 'published numbers: arXiv 2606.03910v1, June 2026',
  tables: [2],
  figures: [],
  seeds: (quick) => (quick ? [1, 2] : [1, 2, 3, 4, 5]),
  parts: (selection) => (isSelected(selection, 'table', 2) ? [table2Part()] : []),
};

function table2Part(): SuitePart {
  const loads = [100, 200, 250] as const;
  const caseOf = (load: number): ScenarioCase => ({ file: `${configs}rag.yaml`, settings: [`workload.rateFactor=${load / 100}`] });
  return {
    id: 'table2',
    title: 'Table 2: RAG against load',
    cases: loads.map(caseOf),
    evaluate: (runsOf) => ({
      rows: loads.flatMap((load) => {
        const runs = runsOf(caseOf(load));
        const [ttft, , , transfer] = table2[load].rr;
        return [
          rowOf(
            `table2.rag.${load}.rr.ttft`,
            ttft,
            runs.map(({ summary }) => summary.ttftMs?.mean ?? Number.NaN),
            'ms',
          ),
          rowOf(
            `table2.rag.${load}.rr.transfer`,
            transfer,
            runs.map(({ summary }) => summary.transferMs?.mean ?? Number.NaN),
            'ms',
          ),
        ];
      }),
    }),
  };
}
