/**
 * Published numbers of "The Price of Anarchy in Disaggregated Inference", arXiv 2606.17081v1 (June 2026). Null: no number is given. Seconds,
 * milliseconds and requests per second as the names say.
 */
export interface PublishedTopology {
  /** Height of the plateau of PoA-hat, 8 to 96 in flight; within 0.1. */
  readonly plateau: number;
  /** PoA-hat past the knee, by requests in flight. */
  readonly poa: Readonly<Record<number, number>>;
  readonly ttftP99At96Ms: number | null;
  readonly ttftP99At128Ms: number | null;
  readonly itlP99Ms: number | null;
  /** Experiment 4: largest difference of PoA-hat over the cells at 64, and least, largest and their ratio at 128. */
  readonly cells64: number;
  readonly cells128: { readonly low: number | null; readonly high: number | null; readonly factor: number };
  /** Experiment 3, middle phase. */
  readonly spike: {
    readonly staticTtftP99Ms: number | null;
    readonly staticRps: number | null;
    readonly staticPoa: number;
    readonly adaptiveTtftP99Ms: number | null;
    readonly afterSwitchTtftMs: number | null;
    readonly switchS: number | null;
    readonly adaptiveRps: number | null;
    /** Against static. */
    readonly adaptiveRpsChangePercent: number | null;
    readonly adaptivePoa: number;
  };
}

export const publishedTopologies: Readonly<Record<string, PublishedTopology>> = {
  '340b-1p2d': {
    plateau: 18.7,
    poa: { 128: 27.9, 256: 176.9, 384: 283.6 },
    ttftP99At96Ms: 544,
    ttftP99At128Ms: 16_200,
    itlP99Ms: 22,
    cells64: 0.1,
    cells128: { low: 26.6, high: 42.5, factor: 1.6 },
    spike: {
      staticTtftP99Ms: 28_260,
      staticRps: 18.2,
      staticPoa: 33.15,
      adaptiveTtftP99Ms: 5920,
      afterSwitchTtftMs: 970,
      switchS: 54.8,
      adaptiveRps: 11.6,
      adaptiveRpsChangePercent: 100 * (11.6 / 18.2 - 1),
      adaptivePoa: 33.15 / 1.22,
    },
  },
  '70b-1p2d': {
    plateau: 7.47,
    poa: { 384: 199 },
    // Given for the 70B without its topology.
    ttftP99At96Ms: 354,
    ttftP99At128Ms: 10_000,
    itlP99Ms: null,
    cells64: 0.08,
    cells128: { low: 14.6, high: 28.2, factor: 1.9 },
    spike: {
      staticTtftP99Ms: 25_900,
      staticRps: null,
      staticPoa: 23.1,
      adaptiveTtftP99Ms: 3400,
      afterSwitchTtftMs: null,
      switchS: null,
      adaptiveRps: null,
      adaptiveRpsChangePercent: null,
      adaptivePoa: 10.7,
    },
  },
  '70b-1p5d': {
    plateau: 14.7,
    poa: { 256: 309 },
    ttftP99At96Ms: null,
    ttftP99At128Ms: null,
    itlP99Ms: null,
    cells64: 0.06,
    cells128: { low: null, high: null, factor: 2 },
    spike: {
      staticTtftP99Ms: null,
      staticRps: null,
      staticPoa: 66.42,
      adaptiveTtftP99Ms: null,
      afterSwitchTtftMs: null,
      switchS: null,
      adaptiveRps: null,
      adaptiveRpsChangePercent: -13,
      adaptivePoa: 21.53,
    },
  },
};

/** First point past the knee, on both models. */
export const publishedKnee = 128;

/** Experiment 4, 70B 1P/2D at 128 in flight: TTFT P99 at omega 0 and 1. */
export const publishedOmegaTtftMs = { 0: 23_700, 1: 17_400 } as const;
