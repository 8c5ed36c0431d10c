import { deviationOf, type ReproducedPart, type Reproduction, type ReproductionRow } from '@braess/lab';
import type { ComparisonPage } from '@braess/telemetry';
import { numberText } from './number-text.js';
import { textTable } from './text-output.js';

const head = ['row', 'published', 'emulated', '95 % +-', 'deviation', 'unit', 'basis', 'note'] as const;
const numeric = [1, 2, 3, 4] as const;

/** A reproduction for a reader: a table for each table and figure of the paper. */
export function reproductionText(reproduction: Reproduction): string {
  const alignments = head.map((_, column) => ((numeric as readonly number[]).includes(column) ? ('right' as const) : ('left' as const)));
  const parts = reproduction.parts.map(
    ({ title, note, rows }) => `${title}\n${textTable(head, rows.map(cells), alignments)}${note === null ? '' : `\n${note}`}`,
  );
  return [`${reproduction.title}: ${reproduction.source}`, ...parts, footOf(reproduction)].join('\n\n');
}

/** The same as an HTML page with the figures drawn. */
export function reproductionPage(reproduction: Reproduction): ComparisonPage {
  return {
    title: reproduction.title,
    meta: `${reproduction.source} · ${footOf(reproduction)}`,
    sections: reproduction.parts.map(({ title, note, rows, charts }: ReproducedPart) => ({
      title,
      note: note ?? '',
      charts,
      head,
      rows: rows.map(cells),
      numeric,
    })),
  };
}

function footOf({ seeds, runs, quick, interrupted }: Reproduction): string {
  return `${runs} runs${seeds > 1 ? `, ${seeds} seeds` : ''}${quick ? ', quick: fewer requests and points' : ''}${interrupted ? ', INTERRUPTED: what there was until then' : ''}; basis fit: used to choose the configuration, assumed: follows from a mechanism chosen to explain it, prediction: neither`;
}

function cells(row: ReproductionRow): string[] {
  const deviation = deviationOf(row);
  const reach = row.ciHigh === null || row.ciLow === null ? null : (row.ciHigh - row.ciLow) / 2;
  return [
    row.id,
    numberText(row.published),
    rounded(row.emulated),
    rounded(reach),
    deviation === null
      ? '-'
      : `${deviation.value > 0 ? '+' : ''}${deviation.value.toFixed(deviation.unit === '%' ? 1 : 2)} ${deviation.unit}`,
    row.unit,
    row.basis,
    row.note ?? '',
  ];
}

/** Four digits: more would say more than the seeds know. */
function rounded(value: number | null): string {
  return value === null ? '-' : numberText(Number(value.toPrecision(4)));
}
