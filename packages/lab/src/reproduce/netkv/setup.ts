import type { Measurement } from '../../measure-scenario.js';
import { scenarioFile } from '../../scenario-files.js';
import type { ScenarioCase } from '../suite.js';
import type { Profile } from './published.js';

/** Scenario of each profile of requests. */
const files: Readonly<Record<Profile, string>> = { chatbot: 'chatbot.yaml', rag: 'rag.yaml', long: 'long-context.yaml' };

/** Names of the schedulers in the ids of rows. */
export type Scheduler = 'rr' | 'cla' | 'static' | 'self' | 'netkv' | 'by-request';

/**
 * The decode schedulers of the paper. All wait with a request until its KV fits somewhere, as the scenario says. The weights of CLA* are assumed: the
 * paper searched its own on a slice of its trace. `by-request` is NetKV with the other reading of its count: own transfers count until the request has ended.
 */
const schedulers: Readonly<Record<Scheduler, readonly string[]>> = {
  rr: ['router.decode.policy=round-robin'],
  cla: ['router.decode.policy=cla', 'router.decode.parameters={cacheWeight: 1, loadWeight: 12}'],
  static: ['router.decode.policy=netkv-static'],
  self: ['router.decode.policy=netkv-self'],
  netkv: [],
  'by-request': ['router.decode.parameters={inFlight: tier, counts: requests}'],
};

/** What a case of the suite sets over its scenario file. */
export interface CaseOptions {
  readonly profile?: Profile;
  /** Another file of the folder. */
  readonly file?: string;
  readonly scheduler: Scheduler;
  readonly settings?: readonly string[];
  readonly cost?: number;
}

/** A scenario of the folder under a scheduler. */
export function netkvCase({ profile = 'rag', file = files[profile], scheduler, settings = [], cost }: CaseOptions): ScenarioCase {
  return {
    file: scenarioFile(`paper/netkv/${file}`),
    settings: [...schedulers[scheduler], ...settings],
    ...(cost === undefined ? {} : { cost }),
  };
}

/** Requests of a run, as a setting; `quick` takes a third. */
export function requests(count: number, quick = false): string {
  return `workload.requests=${quick ? Math.ceil(count / 3) : count}`;
}

/** Constant background on the links between racks and between pods, %. */
export function background(percent: number): string {
  const share = percent / 100;
  return `cluster.fabric.background=[{link: leaf-uplink, share: ${share}}, {link: core-uplink, share: ${share}}]`;
}

/** What a run came to; NaN where there is none. */
export function ttftMs({ summary }: Measurement): number {
  return summary.ttftMs?.mean ?? Number.NaN;
}

export function transferMs({ summary }: Measurement): number {
  return summary.transferMs?.mean ?? Number.NaN;
}

/** Mean of all gaps between two tokens. */
export function tbtMs({ summary }: Measurement): number {
  return summary.itlMs?.mean ?? Number.NaN;
}

export function sloShare({ summary }: Measurement): number {
  return summary.sloAttainment ?? Number.NaN;
}

/** Share of the transfers on a tier, %. */
export function tierPercent({ transfersByTier }: Measurement, tier: number): number {
  const all = transfersByTier.reduce((sum, count) => sum + count, 0);
  return (100 * (transfersByTier[tier] ?? 0)) / all;
}

/** Reduction of a number from `before` to `after`, % of `before`, seed by seed: both had the same requests. */
export function gains(before: readonly Measurement[], after: readonly Measurement[], of: (run: Measurement) => number): number[] {
  return before.map((run, seed) => 100 * (1 - of(after[seed] as Measurement) / of(run)));
}

/** Difference seed by seed. */
export function differences(before: readonly Measurement[], after: readonly Measurement[], of: (run: Measurement) => number): number[] {
  return before.map((run, seed) => of(after[seed] as Measurement) - of(run));
}
