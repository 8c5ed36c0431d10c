import { networkTiers } from '../oracle/site.js';
import type { EngineView, NetworkView, RouterView } from '../policy/router-policy.js';

/** One engine of a view made by hand; what is left out is 0 (`reportedAtNs`: -1). */
export interface EngineSample extends Partial<Record<Exclude<keyof EngineView, 'count' | 'names' | 'passNs' | 'passStart'>, number>> {
  readonly name?: string;
  readonly overlapBlocks?: number;
  /** Time of a decode pass of 0, 1, ... sequences, ns. */
  readonly passNs?: readonly number[];
}

/** What a view made by hand holds; what is left out is 0, empty or unknown. */
export interface RouterViewSample {
  readonly stage: number;
  readonly blockTokens: number;
  readonly engines: readonly EngineSample[];
  /** Default: all engines. */
  readonly candidates?: readonly number[];
  readonly network?: NetworkView;
  readonly nowNs?: number;
  readonly prefillEngine?: number;
  readonly transferBytes?: number;
  readonly fixedBytes?: number;
  readonly tierTransfers?: readonly number[];
  readonly sourceTransfers?: readonly number[];
  readonly tierRequests?: readonly number[];
  readonly sourceRequests?: readonly number[];
}

/** A view made by hand, to try a router policy without a run. */
export function createRouterView(sample: RouterViewSample): RouterView {
  const { engines, network = null, nowNs = 0, prefillEngine = -1, transferBytes = 0, fixedBytes = 0 } = sample;
  const noTransfers = new Float64Array(networkTiers);
  const candidates = [...(sample.candidates ?? engines.keys())].sort((a, b) => a - b);
  return {
    nowNs,
    stage: sample.stage,
    blockTokens: sample.blockTokens,
    candidates,
    count: candidates.length,
    engines: createEngineView(engines),
    overlapBlocks: engines.map((engine) => engine.overlapBlocks ?? 0),
    network,
    prefillEngine,
    transferBytes,
    fixedBytes,
    tierTransfers: sample.tierTransfers ?? noTransfers,
    sourceTransfers: sample.sourceTransfers ?? noTransfers,
    tierRequests: sample.tierRequests ?? noTransfers,
    sourceRequests: sample.sourceRequests ?? noTransfers,
    scores: new Float64Array(engines.length),
  };
}

/** Engine columns made by hand, to try any policy without a run. */
export function createEngineView(engines: readonly EngineSample[]): EngineView {
  const column = (key: keyof EngineSample): Float64Array =>
    Float64Array.from(engines, (engine) => (engine[key] as number | undefined) ?? (key === 'reportedAtNs' ? -1 : 0));
  const { passNs, passStart } = passTables(engines);
  return {
    count: engines.length,
    names: engines.map((engine, index) => engine.name ?? `engine${index}`),
    role: column('role'),
    activeRequests: column('activeRequests'),
    activePrefillTokens: column('activePrefillTokens'),
    activeBlocks: column('activeBlocks'),
    reportedAtNs: column('reportedAtNs'),
    queuedTokens: column('queuedTokens'),
    runningSequences: column('runningSequences'),
    waitingSequences: column('waitingSequences'),
    usedBlocks: column('usedBlocks'),
    totalBlocks: column('totalBlocks'),
    maxSequences: column('maxSequences'),
    capacityBlocks: column('capacityBlocks'),
    passNs,
    passStart,
    contextTokenNs: column('contextTokenNs'),
  };
}

/** One table for all engines of a profile, as a frontend has it. */
function passTables(engines: readonly EngineSample[]): Pick<EngineView, 'passNs' | 'passStart'> {
  const table: number[] = [];
  const starts = new Map<string, number>();
  const startOf = ({ passNs = [0], maxSequences = 0 }: EngineSample): number => {
    const passes = Array.from({ length: maxSequences + 1 }, (_, batch) => passNs[Math.min(batch, passNs.length - 1)] ?? 0);
    const key = passes.join();
    const known = starts.get(key);
    if (known !== undefined) return known;
    const start = table.length;
    starts.set(key, start);
    table.push(...passes);
    return start;
  };
  const passStart = Float64Array.from(engines, startOf);
  return { passNs: Float64Array.from(table), passStart };
}
