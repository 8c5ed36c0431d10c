import type { Topology } from '@braess/fabric';
import type { ActorReference, Cell, World } from '@braess/kernel';
import { type TierKind, type TierKindOptions, tierKind } from '@braess/kvbm';
import type { EngineTiers } from '@braess/serving';
import { type GroupPlan, kvBytesPerToken } from './group-plan.js';
import type { CachePolicy } from './own-evictions.js';
import type { ClusterPlan } from './plan.js';
import type { Scenario } from './scenario/schema.js';

/** What the tiers of a run are built with. */
export interface TierSetting {
  readonly plan: ClusterPlan;
  readonly serverDelayNs: number;
  readonly seriesNs: number;
  readonly fabric: ActorReference | undefined;
  /** Who takes the transfers from a node, where each has an actor of its own (chunk fidelity). */
  readonly endpointOf: ((node: number) => number) | undefined;
  /** Nodes of the topology of an engine, by actor id. */
  readonly nodesOf: (engine: number, dispatch: number) => readonly number[];
  /** Node of the network storage, -1 without. */
  readonly storageNode: number;
  readonly evictionOf: (tier: 'g2' | 'g3' | 'g4') => CachePolicy;
}

type Tiers = Scenario['kvTiers'];

/** Bytes of a block in a tier: those of all GPUs of an engine. */
function tierBlockBytes(group: GroupPlan): number {
  return kvBytesPerToken(group) * group.blockTokens;
}

/** Largest number of blocks of a tier: their places are 32-bit. */
const mostTierBlocks = 2 ** 31 - 1;

/** What is wrong with the size of a tier; undefined where it holds one block or more, and no more than can be counted. */
export function tierSizeFault(gigabytes: number, group: GroupPlan): string | undefined {
  const blockBytes = tierBlockBytes(group);
  if (gigabytes * 1e9 < blockBytes)
    return `is ${gigabytes}, less than one block of ${blockBytes} bytes; give it at least that, or leave the tier out`;
  if ((gigabytes * 1e9) / blockBytes <= mostTierBlocks) return undefined;
  return `is ${gigabytes}; a tier has at most ${mostTierBlocks} blocks, of ${blockBytes} bytes ${Math.floor((mostTierBlocks * blockBytes) / 1e9)} GB`;
}

/** The KV tiers below HBM: DRAM and NVMe in each server's cell, network storage in a cell of its own. */
export class ServerTiers {
  readonly #setting: TierSetting;
  readonly #tiers: Tiers;
  readonly #g2: TierKind | undefined;
  readonly #g3: TierKind | undefined;
  #g4: ActorReference | undefined;
  readonly #nodeOfTier = new Map<number, number>();
  readonly #ofServer = new Map<string, { readonly tiers: readonly ActorReference[]; readonly workers: ActorReference[] }>();

  constructor(setting: TierSetting, world: World) {
    this.#setting = setting;
    this.#tiers = setting.plan.scenario.kvTiers;
    const { g2, g3, g4 } = this.#tiers;
    if (g4 !== undefined) {
      this.#g4 = world.cell('storage', { class: 'storage' }).actor('g4', tierKind(this.#storageOptions(g4)), {});
    }
    if (g3 !== undefined) this.#g3 = tierKind(this.#deviceOptions(3, g3, g3.bytesPerSecond, false, g4?.mode));
    if (g2 !== undefined) this.#g2 = tierKind(this.#deviceOptions(2, g2, g2.workerBytesPerSecond, true, (g3 ?? g4)?.mode));
  }

  get any(): boolean {
    const { g2, g3, g4 } = this.#tiers;
    return (g2 ?? g3 ?? g4) !== undefined;
  }

  /** What engines have to know of the tiers below them. */
  get engineTiers(): EngineTiers {
    const { g2, g3, g4 } = this.#tiers;
    return {
      offload: (g2 ?? g3 ?? g4)?.mode ?? 'never',
      localDelayNs: 0,
      remoteDelayNs: this.#setting.serverDelayNs,
      lastIsRemote: g4 !== undefined,
      levels: ([2, 3, 4] as const).filter((level) => this.#tiers[`g${level}`] !== undefined),
    };
  }

  /** The tiers of a server, nearest first; the same for all its engines. */
  of(server: string, cell: Cell): readonly ActorReference[] {
    let found = this.#ofServer.get(server);
    if (found === undefined) {
      const workers: ActorReference[] = [];
      const below = this.#g4 === undefined ? {} : { below: this.#g4 };
      const g3 = this.#g3 === undefined ? undefined : cell.actor('g3', this.#g3, { workers, ...below });
      const g2 =
        this.#g2 === undefined ? undefined : cell.actor('g2', this.#g2, { workers, ...(g3 === undefined ? below : { below: g3 }) });
      found = { tiers: [g2, g3, this.#g4].filter((tier) => tier !== undefined), workers };
      this.#ofServer.set(server, found);
    }
    return found.tiers;
  }

  all(): ActorReference[] {
    return [...new Set([...this.#ofServer.values()].flatMap(({ tiers }) => tiers))];
  }

  /** Gives an engine its share of its server's devices. */
  addWorker(server: string, engine: ActorReference): void {
    this.#ofServer.get(server)?.workers.push(engine);
  }

  #blockBytes(): number {
    return tierBlockBytes(this.#setting.plan.groups[0] as GroupPlan);
  }

  #store(name: 'g2' | 'g3' | 'g4', tier: NonNullable<Tiers['g2'] | Tiers['g4']>): TierKindOptions['store'] {
    const capacityBlocks = Math.floor((tier.gigabytes * 1e9) / this.#blockBytes());
    return { capacityBlocks, ...this.#setting.evictionOf(name), minimumFrequency: tier.minimumFrequency };
  }

  #common(): Pick<TierKindOptions, 'blockBytes' | 'series'> {
    const { seriesNs } = this.#setting;
    return { blockBytes: this.#blockBytes(), ...(seriesNs > 0 ? { series: { periodNs: seriesNs } } : {}) };
  }

  #deviceOptions(
    tier: 2 | 3,
    spec: NonNullable<Tiers['g2'] | Tiers['g3']>,
    workerBytesPerSecond: number,
    duplex: boolean,
    offload: 'write-through' | 'on-eviction' | undefined,
  ): TierKindOptions {
    const goesToStorage = tier === 3 || this.#tiers.g3 === undefined;
    return {
      ...this.#common(),
      tier,
      store: this.#store(`g${tier}`, spec),
      through: {
        device: {
          pipe: {
            deviceBytesPerSecond: spec.bytesPerSecond,
            workerBytesPerSecond,
            latencyNs: Math.round(spec.latencyUs * 1e3),
            pollPeriodNs: Math.round(spec.pollMs * 1e6),
          },
          duplex,
        },
      },
      answerDelayNs: 0,
      ...(offload === undefined ? {} : { offload, belowDelayNs: goesToStorage ? this.#setting.serverDelayNs : 0 }),
      sendsTo: this.#tiers.g4 === undefined ? [] : ['storage'],
    };
  }

  #storageOptions(spec: NonNullable<Tiers['g4']>): TierKindOptions {
    const { fabric, endpointOf, serverDelayNs } = this.#setting;
    return {
      ...this.#common(),
      tier: 4,
      store: this.#store('g4', spec),
      through: {
        fabric: {
          actor: fabric as ActorReference,
          delayNs: serverDelayNs,
          latencyNs: Math.round(spec.latencyUs * 1e3),
          estimateBytesPerSecond: this.#storageRate(),
          nodeOf: (actor) => this.#nodeOf(actor),
          ...(endpointOf === undefined ? {} : { endpointOf }),
        },
      },
      answerDelayNs: serverDelayNs,
      sendsTo: endpointOf === undefined ? ['server', 'fabric'] : ['server', 'switch'],
    };
  }

  /** Where an engine or tier, by actor id, sends and receives: DRAM and NVMe by the NIC of their server's first engine. */
  #nodeOf(actor: number): number {
    const { nodesOf, storageNode } = this.#setting;
    if (actor === (this.#g4 as ActorReference).id) return storageNode;
    if (this.#nodeOfTier.size === 0) {
      for (const { tiers, workers } of this.#ofServer.values())
        for (const tier of tiers) this.#nodeOfTier.set(tier.id, nodesOf((workers[0] as ActorReference).id, 0)[0]!);
    }
    return this.#nodeOfTier.get(actor) ?? nodesOf(actor, 0)[0]!;
  }

  /** What one engine gets from storage when nothing else moves: its NIC, or the storage's link. */
  #storageRate(): number {
    const spec = this.#setting.plan.topologySpec;
    const tree = spec.kind === 'multi-zone' ? spec.zone : spec;
    return Math.min(tree.server.nic.bytesPerSecond, tree.storage?.link.bytesPerSecond ?? Number.POSITIVE_INFINITY);
  }
}

/** Node of the first storage node of a topology, -1 where it has none. */
export function storageNodeOf(topology: Topology): number {
  return topology.nodeNames.findIndex((name) => name.endsWith('/storage0'));
}
