import {
  type BoundPolicy,
  type PolicyKind,
  type PolicyOf,
  type PolicySpec,
  readsDecodeOverlap,
  readsPrefillOverlap,
} from '@braess/control';
import type { ActorReference } from '@braess/kernel';
import type { EngineKindOptions } from '@braess/serving';
import type { RequestTable } from '@braess/workload';
import type { Delays } from './cell-delays.js';
import { type EnginePool, poolBlocks } from './engine-blocks.js';
import { type GroupPlan, kvBytesPerToken } from './group-plan.js';
import { cachePolicy } from './own-evictions.js';
import type { ClusterPlan } from './plan.js';
import { gapTenants } from './recorder-facts.js';
import type { ServerTiers } from './server-tiers.js';

/** What engines are built into. Actors may be added until the run begins. */
export interface EngineSurroundings {
  readonly plan: ClusterPlan;
  readonly delays: Delays;
  readonly table: RequestTable;
  /** Period of the time series, ns; 0 for none. */
  readonly seriesNs: number;
  readonly frontends: readonly ActorReference[];
  readonly planner: readonly ActorReference[];
  /** Further actors that are told of roles and states. */
  readonly watchers: readonly ActorReference[];
  readonly fabric: ActorReference | undefined;
  readonly endpointOf: ((node: number) => number) | undefined;
  readonly nodesOf: (engine: number, dispatch: number) => readonly number[];
  readonly tiers: ServerTiers;
  /** Whether promises of silence widen anybody's windows. */
  readonly promises: boolean;
  policy<Kind extends PolicyKind>(kind: Kind, spec: PolicySpec): BoundPolicy<PolicyOf[Kind]>;
}

/** Period after which ITL gaps leave an engine where there are no time series. */
const gapPeriodNs = 10e9;

/** Options of the engine kind of a group. */
export function engineKindOptions(around: EngineSurroundings, group: GroupPlan, index: number): EngineKindOptions<EnginePool> {
  const { plan, table, delays, seriesNs, frontends, planner, watchers, fabric, endpointOf, nodesOf, tiers, promises, policy } = around;
  const { scenario } = plan;
  const { router, telemetry } = scenario;
  const { controlNs, serverNs } = delays;
  const tenants = gapTenants(table);
  const reports = [...frontends, ...planner];
  const { prefillRouter, decodeRouter } = plan.policies;
  const wantsKvEvents =
    group.role === 'decode' ? readsDecodeOverlap(policy('router', decodeRouter)) : readsPrefillOverlap(policy('router', prefillRouter));
  return {
    name: `engine${index}`,
    restartNs: Math.round(scenario.planner.startSeconds * 1e9),
    rules: {
      blockTokens: group.blockTokens,
      maxSequences: group.maxSequences,
      maxBatchedTokens: group.maxBatchedTokens,
      ...(group.maxChunkTokens < group.maxBatchedTokens ? { maxChunkTokens: group.maxChunkTokens } : {}),
      holdsSlots: group.holdsSlots,
      newBatchStallNs: group.newBatchStallNs,
      maxModelTokens: group.maxModelTokens,
      maxWaiting: group.maxWaiting,
      capacityBlocks: group.capacityBlocks,
      blockEvents: false,
      byPriority: group.byPriority,
      stepwise: group.stepwise,
      ...(group.independentPrompts ? { independentPrompts: true } : {}),
    },
    timing: group.timing,
    blocks: poolBlocks({
      prefixCaching: group.prefixCaching,
      cacheBlocks: group.cacheBlocks,
      eviction: cachePolicy(group.eviction, plan.policies.baseDirectory),
      namedEventsOnly: !tiers.any,
    }),
    kvBytesPerToken: kvBytesPerToken(group),
    fixedKv: group.fixedKv,
    ...(scenario.cluster.fabric.overlap === 'layers' ? { overlapLayers: group.layers } : {}),
    controlDelayNs: controlNs,
    serverDelayNs: delays.releaseNs,
    ...(fabric === undefined
      ? {}
      : {
          fabric: {
            actor: fabric,
            delayNs: serverNs,
            nodesOf,
            ...(endpointOf === undefined ? {} : { endpointOf }),
          },
        }),
    ...(telemetry.streamTokens ? { streams: () => true } : {}),
    ...(router.loadReportMs === 0 ? {} : { loadReports: { to: reports, periodNs: Math.round(router.loadReportMs * 1e6) } }),
    ...(wantsKvEvents ? { kvEvents: { to: frontends, periodNs: Math.round(router.kvEventMs * 1e6) } } : {}),
    ...(policy('router', decodeRouter).policy.reads?.network === true ? { arrivalReports: true } : {}),
    stateReports: { to: [...reports, ...watchers] },
    telemetry: {
      gaps: true,
      series: seriesNs > 0,
      periodNs: seriesNs > 0 ? seriesNs : gapPeriodNs,
      ...(scenario.untilSeconds === undefined ? {} : { endNs: Math.round(scenario.untilSeconds * 1e9) }),
      ...(tenants === 0 ? {} : { tenants: { count: tenants, of: (request) => table.tenant[request]! } }),
    },
    ...(tiers.any ? { tiers: tiers.engineTiers } : {}),
    ...(promises ? enginePromises(around) : {}),
  };
}

function enginePromises({
  delays,
  frontends,
  planner,
  watchers,
  fabric,
  endpointOf,
}: EngineSurroundings): Pick<EngineKindOptions<EnginePool>, 'promises' | 'sendsTo'> {
  const { controlNs, serverNs } = delays;
  const toControl = [...frontends, ...planner, ...watchers].map((to) => ({ to, delayNs: controlNs }));
  if (fabric === undefined) return { promises: toControl, sendsTo: ['control'] };
  // At chunk fidelity an engine talks to its own server and to others only.
  if (endpointOf !== undefined) return { promises: toControl, sendsTo: ['control', 'server', 'storage'] };
  return { promises: [...toControl, { to: fabric, delayNs: serverNs }], sendsTo: ['control', 'server', 'fabric', 'storage'] };
}
