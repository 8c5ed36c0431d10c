/** The report's style sheet; it stands in the page, nothing is loaded. */
export const STYLE = `
:root { --ink: #1c2430; --soft: #5a6474; --line: #e4e7ec; --paper: #ffffff; --back: #f5f6f8; --main: #2f5fa8; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink); font: 14px/1.5 Inter, "Helvetica Neue", Helvetica, Arial, "Liberation Sans", sans-serif; }
main { max-width: 1228px; margin: 0 auto; padding: 36px 20px 48px; }
header { display: flex; justify-content: space-between; align-items: flex-end; margin-bottom: 22px; }
h1 { font-size: 25px; line-height: 1.2; margin: 0; letter-spacing: -0.01em; }
h2 { font-size: 16px; margin: 0 0 2px; letter-spacing: -0.005em; }
h3 { font-size: 12.5px; font-weight: 600; margin: 0 0 4px; color: var(--ink); }
p.note { margin: 0 0 12px; color: var(--soft); font-size: 12.5px; }
.meta { color: var(--soft); font-size: 12.5px; margin-top: 4px; }
.status { font-size: 12.5px; font-weight: 600; padding: 3px 11px; border-radius: 99px; background: #e3f1ea; color: #23694f; }
.status.bad { background: #fbe6e0; color: #9d3a23; }
section { background: var(--paper); border: 1px solid var(--line); border-radius: 10px; padding: 20px 23px 16px; margin-bottom: 18px; overflow-x: auto; }
.cards { display: grid; grid-template-columns: repeat(6, 1fr); gap: 12px; margin-bottom: 18px; }
.card { background: var(--paper); border: 1px solid var(--line); border-radius: 10px; padding: 13px 16px 12px; min-height: 92px; }
.card .label { font-size: 12px; color: var(--soft); }
.card .value { font-size: 22px; font-weight: 650; line-height: 1.3; letter-spacing: -0.015em; font-variant-numeric: tabular-nums; white-space: nowrap; }
.card .value small { font-size: 12.5px; font-weight: 500; color: var(--soft); letter-spacing: 0; }
.card .detail { font-size: 12px; color: var(--soft); font-variant-numeric: tabular-nums; }
.grid2 { display: grid; grid-template-columns: 1fr 1fr; gap: 14px 24px; }
.grid3 { display: grid; grid-template-columns: repeat(3, 1fr); gap: 10px 12px; }
.grid2 > *, .grid3 > * { min-width: 0; overflow-x: auto; }
p.none { margin: 4px 0 8px; }
.legend { display: flex; gap: 18px; font-size: 12.5px; color: var(--soft); margin: 2px 0 6px; flex-wrap: wrap; }
.legend i { display: inline-block; width: 11px; height: 11px; border-radius: 3px; margin-right: 6px; vertical-align: -1px; }
.scale { display: inline-block; width: 150px; height: 10px; border-radius: 3px; margin: 0 8px; vertical-align: -1px; background: linear-gradient(90deg, #ffffd9, #c7e9b4, #41b6c4, #225ea8, #081d58); }
table { border-collapse: collapse; width: 100%; font-size: 12.5px; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; color: var(--soft); border-bottom: 1px solid var(--line); padding: 5px 10px 5px 0; white-space: nowrap; }
td { border-bottom: 1px solid #f0f2f5; padding: 5px 10px 5px 0; vertical-align: top; }
td.n, th.n { text-align: right; }
svg { display: block; max-width: 100%; }
details summary { cursor: pointer; color: var(--soft); font-size: 12.5px; }
pre { font: 11.5px/1.5 ui-monospace, Menlo, Consolas, monospace; background: var(--back); padding: 12px; border-radius: 6px; overflow: auto; max-height: 420px; }
@media (max-width: 1160px) { .cards { grid-template-columns: repeat(4, 1fr); } .grid3 { grid-template-columns: 1fr 1fr; } }
@media (max-width: 820px) { .cards { grid-template-columns: repeat(3, 1fr); } .grid2, .grid3 { grid-template-columns: minmax(0, 1fr); } }
@media (max-width: 560px) { .cards { grid-template-columns: 1fr 1fr; } header { flex-wrap: wrap; gap: 8px; } }
@media print { body { background: white; } section, .card { break-inside: avoid; } }
`;
