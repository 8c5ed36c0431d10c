/**
 * Writes the report of a finished run folder, to `report.html` in it or to `path`: one self-contained page of static SVG, no scripts, no network.
 * Returns its path.
 * Errors when the folder is not a finished run.
 */
export async function writeReport(folder: string, path?: string): Promise<string> {
  // Loaded only here: the chart library and DuckDB cost more time and memory than a run may spend on them.
  const { renderReport } = await import('./report.js');
  return renderReport(folder, path);
}
