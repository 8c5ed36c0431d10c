/**
 * The published numbers of NetKV, arXiv 2606.03910v1 (June 2026): its tables and figures. Those of Figure 3 and Figure 5 are read off curves.
 */

export type Profile = 'chatbot' | 'rag' | 'long';

/** [mean TTFT ms, mean TBT ms, share of requests within the SLO, mean transfer ms] */
export type LoadRow = readonly [ttftMs: number, tbtMs: number, slo: number, transferMs: number];

/** Table 2: RAG at 100, 200 and 250 % load. */
export const table2: readonly { readonly load: number; readonly rr: LoadRow; readonly cla: LoadRow; readonly netkv: LoadRow }[] = [
  { load: 100, rr: [1969, 12.74, 0.907, 993], cla: [1812, 12.71, 0.923, 835], netkv: [1598, 12.94, 0.944, 620] },
  { load: 200, rr: [2171, 13.01, 0.887, 1194], cla: [1995, 12.88, 0.906, 1018], netkv: [1710, 13.29, 0.933, 733] },
  { load: 250, rr: [2224, 13.13, 0.882, 1246], cla: [2068, 12.97, 0.899, 1091], netkv: [1793, 13.42, 0.925, 816] },
];

/** Table 3: fixed context. Gains of NetKV in mean TTFT (%), TBT against CLA* (ms), SLO against both (percentage points). */
export const table3 = [
  { tokens: 1024, rr: 9.1, cla: 2.2, tbtMs: 0.22, sloRr: 0, sloCla: 0 },
  { tokens: 4096, rr: 13.3, cla: 3.2, tbtMs: 0.27, sloRr: 0, sloCla: 0 },
  { tokens: 8192, rr: 15.2, cla: 10.2, tbtMs: 0.26, sloRr: 0, sloCla: 0 },
  { tokens: 16384, rr: 20.2, cla: 17.6, tbtMs: 0.17, sloRr: 20.1, sloCla: 13.6 },
  { tokens: 32768, rr: 6.7, cla: 4.3, tbtMs: 0.03, sloRr: -0.6, sloCla: -0.6 },
  { tokens: 65536, rr: 0, cla: -0.2, tbtMs: 0, sloRr: 0, sloCla: 0 },
] as const;

/** Table 4: mean TTFT, ms, of CLA* and of NetKV with static tiers, with its own transfers, and with congestion. */
export const table4: readonly {
  readonly profile: Profile;
  readonly cla: number;
  readonly static: number;
  readonly self: number;
  readonly full: number;
}[] = [
  { profile: 'chatbot', cla: 629, static: 598, self: 596, full: 595 },
  { profile: 'rag', cla: 1812, static: 1627, self: 1596, full: 1592 },
  { profile: 'long', cla: 7121, static: 6326, self: 6150, full: 6160 },
];

/** Table 5: gain in mean TTFT against CLA* (%), mean transfers (ms). */
export const table5 = [
  { gpus: 64, mode: 'flow', gain: 11.0, netkv: 603, cla: 799 },
  { gpus: 128, mode: 'flow', gain: 13.6, netkv: 603, cla: 851 },
  { gpus: 256, mode: 'flow', gain: 13.6, netkv: 603, cla: 851 },
  { gpus: 512, mode: 'flow', gain: 13.6, netkv: 603, cla: 851 },
  { gpus: 1024, mode: 'flow', gain: 13.6, netkv: 603, cla: 851 },
  { gpus: 64, mode: 'packet', gain: 7.0, netkv: 451, cla: 559 },
  { gpus: 128, mode: 'packet', gain: 7.4, netkv: 451, cla: 565 },
] as const;

/** Table 6: share of the transfers by tier, %, RAG at 100 %. */
export const table6 = { cla: [0, 0, 32.0, 68.0], netkv: [0, 0, 68.9, 31.1] } as const;

export const oversubscriptions = [1, 2, 4, 8] as const;
export const backgrounds = [0, 5, 10, 20, 40] as const;

/** Figure 1: gain in mean TTFT against CLA* (%), by oversubscription and background share. */
export const figure1: Readonly<Record<Profile, readonly (readonly number[])[]>> = {
  chatbot: [
    [1.3, 1.4, 1.5, 1.7, 2.2],
    [2.5, 2.6, 2.8, 3.1, 4.0],
    [4.6, 4.8, 5.0, 5.5, 7.1],
    [7.8, 8.1, 8.3, 9.3, 11.2],
  ],
  rag: [
    [3.7, 3.9, 4.1, 4.5, 5.6],
    [6.6, 6.6, 7.1, 7.7, 9.3],
    [10.5, 10.6, 11.0, 11.6, 13.7],
    [14.3, 14.4, 14.5, 15.2, 15.9],
  ],
  long: [
    [4.0, 3.9, 4.3, 4.9, 5.8],
    [6.6, 7.0, 7.1, 8.0, 9.9],
    [11.1, 11.9, 11.6, 12.8, 14.8],
    [14.3, 14.9, 15.2, 14.6, 11.2],
  ],
};

/** Figure 2: age of the telemetry, s; every curve is flat. */
export const telemetrySeconds = [0.1, 1, 5, 20, 60] as const;

/** Figure 3: P99 TTFT, ms, by the share of requests with a common prefix; only the ends of the curves can be read. */
export const figure3 = { shares: [0, 0.3, 0.6, 0.9], cla: { 0: 11_300, 0.9: 11_200 }, netkv: { 0: 9400, 0.9: 9200 } } as const;

/** Figure 5: time of a decision at 1,024 GPUs, ms. */
export const figure5 = { gpus: [64, 256, 1024], cla: 1.1, netkv: 1.8 } as const;
