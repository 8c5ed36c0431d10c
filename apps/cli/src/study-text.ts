import type { StudyCell, StudyReport, StudyTable } from '@braess/lab';
import type { ComparisonPage } from '@braess/telemetry';
import { numberText } from './number-text.js';
import { textTable } from './text-output.js';

/** A study for a reader: its tables, then what it found. */
export function studyText(report: StudyReport): string {
  const tables = report.tables.map((table) => {
    const numeric = numericColumns(table);
    const alignments = table.head.map((_, column) => (numeric.includes(column) ? ('right' as const) : ('left' as const)));
    const text = textTable(
      table.head,
      table.rows.map((row) => row.map(cellText)),
      alignments,
    );
    return `${table.title}\n${text}${table.note === '' ? '' : `\n${table.note}`}`;
  });
  return [`${report.title} (${footOf(report)})`, ...tables, `Finding: ${report.finding}`].join('\n\n');
}

/** The same as an HTML page with the charts drawn. */
export function studyPage(report: StudyReport): ComparisonPage {
  const finding = { title: 'Finding', note: report.finding, charts: [], head: [], rows: [], numeric: [] };
  const tables = report.tables.map((table) => ({
    title: table.title,
    note: table.note,
    charts: table.charts,
    head: table.head,
    rows: table.rows.map((row) => row.map(cellText)),
    numeric: numericColumns(table),
  }));
  return { title: report.title, meta: footOf(report), sections: [finding, ...tables] };
}

function footOf({ runs, quick, wallSeconds }: StudyReport): string {
  return `${runs} runs in ${wallSeconds.toFixed(0)} s${quick ? ', quick: thinner grids and shorter runs' : ''}`;
}

function numericColumns({ head, rows }: StudyTable): number[] {
  return head.flatMap((_, column) => (rows.some((row) => typeof row[column] === 'number') ? [column] : []));
}

/** Four digits: more would say more than the runs know. */
function cellText(cell: StudyCell | undefined): string {
  if (typeof cell === 'string') return cell;
  return cell === null || cell === undefined || Number.isNaN(cell) ? '-' : numberText(Number(cell.toPrecision(4)));
}
