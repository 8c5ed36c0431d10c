import {
  type BlockAccounting,
  type CountingPool,
  clearEvents,
  createCountingPool,
  createEngine,
  createEvents,
  type EngineRules,
  type EngineState,
  type ModelSpec,
  parameterCounts,
  type RooflineTiming,
  type TimingModel,
} from '@braess/serving';

/** A small linear congruential generator for seeded tests. */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 4294967296;
  };
}

export function integerIn(random: () => number, low: number, high: number): number {
  return low + Math.floor(random() * (high - low + 1));
}

/** Parameters of a model, each once. */
export function totalParameters(model: ModelSpec): number {
  const counts = parameterCounts(model, { tensorParallel: 1 });
  const experts = counts.expertLayers * (model.moe?.experts ?? 0) * counts.expert;
  return counts.shardedLinear + counts.replicatedPerGpu + experts + counts.vocabularyMatrices * counts.vocabularyMatrix;
}

/** Round terms that make pass times easy to compute by hand; not those of a real GPU. */
export function plainTiming(overrides: Partial<RooflineTiming> = {}): RooflineTiming {
  return {
    kind: 'roofline',
    hostPassNs: 2_000_000,
    launchPassNs: 0,
    hostSequenceNs: 10_000,
    prefillPassNs: 500_000,
    ranks: 1,
    tokenNs: 7_000,
    sharedTokenNs: 0,
    tileTokens: 1,
    weightNs: 5_000_000,
    expertNs: 0,
    experts: 0,
    expertsPerToken: 0,
    sampleNs: 0,
    contextNs: 41.7,
    pairNs: 0.31,
    prefillContextNs: 41.7,
    windowTokens: 0,
    windowContextNs: 0,
    windowPairNs: 0,
    fixedSequenceNs: 0,
    fixedTokenNs: 0,
    collectivePassNs: 0,
    collectiveTokenNs: 0,
    decodeCollectiveTokenNs: 0,
    twoBatchOverlap: false,
    draftTokens: 0,
    draftNs: 0,
    passTokens: 1,
    decodeContextNs: overrides.contextNs ?? 41.7,
    decodeWindowContextNs: overrides.windowContextNs ?? 0,
    ...overrides,
  };
}

export function rulesOf(overrides: Partial<EngineRules> = {}): EngineRules {
  return {
    blockTokens: 16,
    maxSequences: 8,
    maxBatchedTokens: 128,
    maxModelTokens: 4096,
    maxWaiting: 1000,
    capacityBlocks: 1000,
    blockEvents: false,
    stepwise: false,
    ...overrides,
  };
}

export function engineOf(role: number, rules: EngineRules, timing: TimingModel = plainTiming()): EngineState<CountingPool> {
  return createEngine({ role, rules, timing, pool: createCountingPool(rules.capacityBlocks, rules.blockTokens) });
}

/** Events copied out as plain rows, so that they can be compared. */
export interface EventRow {
  kind: number;
  request: number;
  timeNs: number;
  value: number;
}

export class Recorder {
  readonly events = createEvents(4);
  readonly rows: EventRow[] = [];

  take(): EventRow[] {
    const fresh: EventRow[] = [];
    for (let i = 0; i < this.events.count; i++) {
      fresh.push({
        kind: this.events.kind[i]!,
        request: this.events.request[i]!,
        timeNs: this.events.timeNs[i]!,
        value: this.events.value[i]!,
      });
    }
    this.rows.push(...fresh);
    clearEvents(this.events);
    return fresh;
  }
}

export type Accounting = BlockAccounting<CountingPool>;
