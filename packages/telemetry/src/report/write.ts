/**
 * Writes `report.html` into a finished run folder: one self-contained page of static SVG, no scripts, no network. Returns its path.
 * Errors when the folder is not a finished run.
 */
export async function writeReport(folder: string): Promise<string> {
  // Loaded only here: the chart library and DuckDB cost more time and memory than a run may spend on them.
  const { renderReport } = await import('./report.js');
  return renderReport(folder);
}
