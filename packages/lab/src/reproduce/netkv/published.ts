/** The published numbers of NetKV, arXiv 2606.03910v1 (June 2026): its tables and figures. Values read off a curve are marked. */

/** Table 2: RAG at 4:1 oversubscription; mean TTFT ms, mean TBT ms, share within the SLO, mean transfer ms. */
export const table2 = {
  100: { rr: [1969, 12.74, 0.907, 993], cla: [1812, 12.71, 0.923, 835], netkv: [1598, 12.94, 0.944, 620] },
  200: { rr: [2171, 13.01, 0.887, 1194], cla: [1995, 12.88, 0.906, 1018], netkv: [1710, 13.29, 0.933, 733] },
  250: { rr: [2224, 13.13, 0.882, 1246], cla: [2068, 12.97, 0.899, 1091], netkv: [1793, 13.42, 0.925, 816] },
} as const satisfies Record<number, Record<string, readonly [number, number, number, number]>>;
