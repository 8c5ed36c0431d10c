import { escapeHtml } from './chart.js';
import { STYLE } from './style.js';

/** A whole page around its body: one file that loads nothing. */
export function frame(title: string, body: string): string {
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>${escapeHtml(title)}</title><style>${STYLE}</style></head>
<body><main>
${body}
</main></body></html>
`;
}

/** `note` and `body` are HTML. */
export function section(title: string, note: string, body: string): string {
  return `<section><h2>${escapeHtml(title)}</h2><p class="note">${note}</p>${body}</section>`;
}

export function legend(entries: readonly (readonly [string, string])[]): string {
  return `<div class="legend">${entries.map(([name, colour]) => `<span><i style="background:${colour}"></i>${escapeHtml(name)}</span>`).join('')}</div>`;
}

/** An HTML table; columns in `numeric` are set right. Everything is escaped. */
export function table(head: readonly string[], rows: readonly (readonly unknown[])[], numeric: readonly number[]): string {
  const mark = (i: number): string => (numeric.includes(i) ? ' class="n"' : '');
  const cells = (tag: string, row: readonly unknown[]): string =>
    `<tr>${row.map((cell, i) => `<${tag}${mark(i)}>${escapeHtml(cell)}</${tag}>`).join('')}</tr>`;
  return `<table><thead>${cells('th', head)}</thead><tbody>${rows.map((row) => cells('td', row)).join('')}</tbody></table>`;
}
