import type { PolicySpec } from '@braess/control';
import { type FixedKv, kvMoveBytes } from '@braess/protocol';
import {
  type AttentionDivision,
  type Catalogue,
  createLinear,
  createPolynomial,
  createRoofline,
  fixedKvOf,
  type GpuSpec,
  kvCapacity,
  type ModelSpec,
  profileFor,
  readDynamoProfile,
  type TimingModel,
} from '@braess/serving';
import { evictionAt } from './policy-plan.js';
import { ScenarioError } from './scenario/problem.js';
import type { ReadScenario } from './scenario/read-scenario.js';
import { besideScenario, named, refuse } from './scenario/refuse.js';
import type { ServingGroup } from './scenario/schema.js';
import { networkBytesPerSecond } from './topology-plan.js';

/** What all engines of a group share. */
export interface GroupPlan {
  readonly name: string;
  readonly role: ServingGroup['role'];
  /** GPUs of one engine, and the servers they fill where one does not hold them. */
  readonly tensorParallel: number;
  readonly servers: number;
  readonly attention: AttentionDivision;
  readonly blockTokens: number;
  readonly maxSequences: number;
  readonly maxBatchedTokens: number;
  /** Most of these that go to one prompt. */
  readonly maxChunkTokens: number;
  readonly holdsSlots: boolean;
  readonly newBatchStallNs: number;
  readonly maxModelTokens: number;
  readonly maxWaiting: number;
  readonly prefixCaching: boolean;
  /** Most blocks that stay while nobody holds them. */
  readonly cacheBlocks: number;
  readonly eviction: PolicySpec;
  readonly byPriority: boolean;
  readonly stepwise: boolean;
  /** Prompts do not share passes: each takes the time it would take alone. */
  readonly independentPrompts: boolean;
  readonly capacityBlocks: number;
  readonly hbmBytes: number;
  readonly weightBytesPerGpu: number;
  readonly kvBytesPerGpu: number;
  /** KV bytes of one token on each GPU; over the whole group: `kvBytesPerToken`. */
  readonly kvBytesPerTokenPerGpu: number;
  /** What a sequence keeps beside its blocks, and what is set aside for that on each GPU. */
  readonly fixedKv: FixedKv;
  readonly sequenceBytesPerGpu: number;
  /** Of the model. */
  readonly layers: number;
  readonly timing: TimingModel;
  readonly timingSource: string;
}

/** KV bytes of one token, over all GPUs of an engine. */
export function kvBytesPerToken({ kvBytesPerTokenPerGpu, tensorParallel }: GroupPlan): number {
  // Whole, also where it was divided by three.
  return Math.round(kvBytesPerTokenPerGpu * tensorParallel);
}

/** KV bytes that a prompt of so many tokens moves from engine to engine. */
export function promptKvBytes(group: GroupPlan, tokens: number): number {
  return kvMoveBytes(tokens, kvBytesPerToken(group), group.fixedKv);
}

/** What engines are made of, and where profiles of them are looked up. */
export interface GroupParts {
  readonly catalogue: Catalogue;
  readonly gpu: GpuSpec;
  readonly model: ModelSpec;
}

/** What the engines of a group come to. @throws ScenarioError for what does not fit into the GPU, or together. */
export function planGroup(read: ReadScenario, parts: GroupParts, index: number): GroupPlan {
  const { scenario } = read;
  const { gpu, model } = parts;
  const group = scenario.serving[index] as ServingGroup;
  const { weightPrecision, kvPrecision } = scenario.model;
  const { tensorParallel, attention, redundantExperts, blockTokens } = group;
  const path = ['serving', index];
  const servers = serversOf(read, index);
  try {
    const capacity = kvCapacity({
      gpu,
      model,
      tensorParallel,
      attention,
      redundantExperts,
      weightPrecision,
      kvPrecision,
      blockTokens,
      maxSequences: group.maxSequences,
      memoryUtilisation: group.memoryUtilisation,
      ...(group.kvBlocks === undefined ? {} : { blocks: group.kvBlocks }),
    });
    const timing = timingOf(read, parts, index, servers, capacity.tokens);
    checkGroup(read, model, index);
    return {
      name: group.name ?? `${group.role}${index}`,
      role: group.role,
      tensorParallel,
      servers,
      attention,
      blockTokens,
      maxSequences: group.maxSequences,
      maxBatchedTokens: group.maxBatchedTokens,
      maxChunkTokens: chunkTokensOf(read, index),
      holdsSlots: group.holdsSlots,
      newBatchStallNs: Math.round(group.newBatchStallMs * 1e6),
      maxModelTokens: group.maxModelTokens ?? model.contextTokens,
      maxWaiting: group.maxWaiting,
      prefixCaching: group.prefixCaching,
      cacheBlocks: group.prefixCaching ? Math.min(group.cacheBlocks ?? capacity.blocks, capacity.blocks) : 0,
      eviction: evictionAt(read, path, group),
      byPriority: group.schedulingPolicy === 'priority',
      stepwise: group.passes === 'stepwise',
      independentPrompts: group.prompts === 'independent',
      capacityBlocks: capacity.blocks,
      hbmBytes: gpu.hbmBytes,
      weightBytesPerGpu: capacity.weightBytesPerGpu,
      kvBytesPerGpu: capacity.kvBytesPerGpu,
      kvBytesPerTokenPerGpu: capacity.kvBytesPerTokenPerGpu,
      fixedKv: fixedKvOf(model, kvPrecision, { tensorParallel, attention }),
      sequenceBytesPerGpu: capacity.sequenceBytesPerGpu,
      layers: model.layers,
      ...timing,
    };
  } catch (error) {
    if (error instanceof ScenarioError) throw error;
    refuse(read, path, `cannot be built: ${(error as Error).message}`);
  }
}

/** Servers of an engine: a part of one, or several whole ones. */
function serversOf(read: ReadScenario, index: number): number {
  const { tensorParallel } = read.scenario.serving[index] as ServingGroup;
  const { gpusPerServer } = read.scenario.cluster;
  if (gpusPerServer % tensorParallel === 0) return 1;
  if (tensorParallel % gpusPerServer === 0) return tensorParallel / gpusPerServer;
  refuse(
    read,
    ['serving', index, 'tensorParallel'],
    `is ${tensorParallel}; servers have ${gpusPerServer} GPUs: use a divisor of that, or a multiple (engines of several whole servers)`,
  );
}

/** Most tokens of one prompt in a pass: where GPUs keep requests of their own, no more than one of them takes. */
function chunkTokensOf(read: ReadScenario, index: number): number {
  const { attention, tensorParallel, maxBatchedTokens, maxChunkTokens } = read.scenario.serving[index] as ServingGroup;
  const ownTokens = Math.max(1, attention === 'data-parallel' ? Math.floor(maxBatchedTokens / tensorParallel) : maxBatchedTokens);
  if (maxChunkTokens === undefined || maxChunkTokens <= ownTokens) return maxChunkTokens ?? ownTokens;
  const each = attention === 'data-parallel' ? `the share of each of ${tensorParallel} GPUs in maxBatchedTokens` : 'maxBatchedTokens';
  refuse(
    read,
    ['serving', index, 'maxChunkTokens'],
    `is ${maxChunkTokens}, above ${ownTokens}, ${each}; lower it, or raise maxBatchedTokens`,
  );
}

/** Settings of a group that exclude each other. */
function checkGroup(read: ReadScenario, model: ModelSpec, index: number): void {
  const group = read.scenario.serving[index] as ServingGroup;
  for (const [key, isFaulty, fault] of [
    ...limitFaults(group, model),
    ...promptFaults(group),
    ...expertFaults(group),
    ...draftFaults(group),
  ])
    if (isFaulty) refuse(read, ['serving', index, key], fault);
}

/** A key, whether its value cannot be, and why, with the way out. */
type GroupFault = readonly [key: keyof ServingGroup, isFaulty: boolean, fault: string];

function limitFaults(group: ServingGroup, { name, contextTokens }: ModelSpec): GroupFault[] {
  const { maxBatchedTokens, maxSequences, maxModelTokens = 0, cacheBlocks, prefixCaching } = group;
  return [
    [
      'maxBatchedTokens',
      maxBatchedTokens < maxSequences,
      `is ${maxBatchedTokens}, below maxSequences ${maxSequences}; a pass must have room for one token of each`,
    ],
    ['maxModelTokens', maxModelTokens > contextTokens, `is ${maxModelTokens}; ${name} takes at most ${contextTokens} tokens`],
    [
      'cacheBlocks',
      cacheBlocks !== undefined && !prefixCaching,
      `is ${cacheBlocks} without prefixCaching, which keeps none; leave one of the two out`,
    ],
  ];
}

function promptFaults({ prompts, role, maxChunkTokens }: ServingGroup): GroupFault[] {
  const independent = prompts === 'independent';
  return [
    [
      'prompts',
      independent && role !== 'prefill',
      `is independent in a group of role ${role}; only prefill engines compute prompts by themselves`,
    ],
    [
      'maxChunkTokens',
      independent && maxChunkTokens !== undefined,
      'limits what one prompt takes of a pass, and independent prompts share none; leave one of the two out',
    ],
  ];
}

function expertFaults({ attention, twoBatchOverlap, redundantExperts, timing }: ServingGroup): GroupFault[] {
  const apart = attention === 'data-parallel';
  return [
    ['twoBatchOverlap', twoBatchOverlap && timing.kind !== 'roofline', rooflineOnly(timing.kind)],
    [
      'twoBatchOverlap',
      twoBatchOverlap && !apart,
      'hides exchanges between experts, and tensor parallelism has none; use attention: data-parallel, or leave it out',
    ],
    [
      'redundantExperts',
      redundantExperts > 0 && !apart,
      `is ${redundantExperts}; tensor parallelism splits each expert over all GPUs and has no copies: use attention: data-parallel, or leave it out`,
    ],
  ];
}

function draftFaults({ speculation, role, timing }: ServingGroup): GroupFault[] {
  const drafts = speculation !== undefined;
  return [
    ['speculation', drafts && role === 'prefill', 'drafts answers, and prefill engines give none; set it in the decode group'],
    ['speculation', drafts && timing.kind !== 'roofline', rooflineOnly(timing.kind)],
  ];
}

function rooflineOnly(kind: string): string {
  return `changes the times of a roofline, and those of this group are of kind ${kind}; leave one of the two out`;
}

function timingOf(
  read: ReadScenario,
  { catalogue, gpu, model }: GroupParts,
  index: number,
  servers: number,
  capacityTokens: number,
): Pick<GroupPlan, 'timing' | 'timingSource'> {
  const { scenario } = read;
  const group = scenario.serving[index] as ServingGroup;
  const path = ['serving', index, 'timing'];
  const { timing } = group;
  if (timing.kind === 'roofline') {
    const profile =
      timing.profile === undefined
        ? profileFor(catalogue, gpu.name, model.name)
        : named(read, catalogue.profiles, [...path, 'profile'], timing.profile, 'engine profile');
    const { weightPrecision, kvPrecision } = scenario.model;
    const { tensorParallel, attention, redundantExperts, twoBatchOverlap, speculation } = group;
    return {
      timing: createRoofline({
        gpu,
        model,
        profile,
        tensorParallel,
        attention,
        redundantExperts,
        twoBatchOverlap,
        ...(speculation === undefined ? {} : { speculation }),
        servers,
        networkBytesPerSecond: networkBytesPerSecond(scenario.cluster, gpu),
        weightPrecision,
        kvPrecision,
      }),
      timingSource: [
        `roofline, engine profile ${profile.name}`,
        ...(attention === 'data-parallel' ? ['data-parallel attention'] : []),
        ...(twoBatchOverlap ? ['two-batch overlap'] : []),
        ...(speculation === undefined ? [] : [`${speculation.draftTokens} drafted tokens a pass`]),
        ...(servers > 1 ? [`over ${servers} servers`] : []),
      ].join(', '),
    };
  }
  try {
    if (timing.kind === 'dynamo-profile') {
      const folder = besideScenario(read, [...path, 'folder'], timing.folder);
      return { timing: readDynamoProfile(folder), timingSource: `Dynamo profile ${timing.folder}` };
    }
    if (timing.kind === 'linear') {
      const { kind: _, ...values } = timing;
      return { timing: createLinear(values), timingSource: 'straight lines of the scenario' };
    }
    return { timing: createPolynomial(capacityTokens), timingSource: "polynomial of Dynamo's mocker" };
  } catch (error) {
    refuse(read, path, `cannot be used: ${(error as Error).message}`);
  }
}
