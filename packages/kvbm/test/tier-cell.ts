import { type ActorReference, actorKind, type Context, defineProgram, message, modelOf, Simulation } from '@braess/kernel';
import { checkTierState, type TierKindOptions, type TierState, tierKind } from '@braess/kvbm';
import { fetch, fetched, lookup, lookupAnswer, offload, offloadFew, setTierSpeed, startTransfer, transferEnded } from '@braess/protocol';

export const blockBytes = 1_000_000;
export const storageNs = 5_000;
const step = message('step', ['index']);

/** From this number on an engine fetches some of what was found, or none. */
export const autoQuestions = 1000;

export interface Step {
  atNs: number;
  act: 'offload' | 'offloadFew' | 'lookup' | 'fetch' | 'speed';
  /** Tier by name; identities; question and blocks. */
  tier: string;
  chain?: number[];
  from?: number;
  anonymous?: number;
  question?: number;
  blocks?: number;
  factor?: number;
}

export interface Cell {
  /** Steps of each engine. */
  engines: Step[][];
  tiers: { name: string; options: TierKindOptions; below?: string }[];
  /** Transfers that start from then on fail. */
  unreachableFromNs?: number;
  strict?: boolean;
}

/** A device of 1 GB/s (1 ms a block), half of it for a worker, found out at once. */
export function deviceTier(tier: 2 | 3, capacityBlocks: number, rest: Partial<TierKindOptions> = {}, pipe = {}): TierKindOptions {
  return {
    tier,
    blockBytes,
    store: { capacityBlocks },
    through: {
      device: { pipe: { deviceBytesPerSecond: 1e9, workerBytesPerSecond: 1e9, ...pipe }, duplex: true },
    },
    answerDelayNs: 0,
    ...rest,
  };
}

export interface EngineLog {
  lines: string[];
  tiers: Record<string, number>;
}

export function build(cell: Cell, shards = 1): Simulation {
  const program = defineProgram(undefined, 'tiers', (world) => {
    const references = new Map<string, ActorReference>();
    const engines: ActorReference[] = [];
    const fabric = world
      .cell('fabric', { class: 'fabric' })
      .actor('fabric', fabricKind(cell.unreachableFromNs ?? Number.POSITIVE_INFINITY), undefined);
    const server = world.cell('server', { class: 'server' });
    const storage = world.cell('storage', { class: 'storage' });
    for (const { name, options, below } of [...cell.tiers].reverse()) {
      const through = 'fabric' in options.through ? { fabric: { ...options.through.fabric, actor: fabric } } : options.through;
      const kind = tierKind({ ...options, name, through });
      const place = options.tier === 4 ? storage : server;
      const target = below === undefined ? undefined : references.get(below)!;
      references.set(name, place.actor(name, kind, { workers: engines, ...(target === undefined ? {} : { below: target }) }));
    }
    const engine = engineKind(cell, references);
    for (const index of cell.engines.keys()) engines.push(server.actor(`engine${index}`, engine, index));
    world.lookahead('server', 'storage', storageNs);
    world.lookahead('storage', 'server', storageNs);
    world.lookahead('storage', 'fabric', storageNs);
    world.lookahead('fabric', 'storage', storageNs);
  });
  return new Simulation(modelOf(program, undefined), { shards, strict: cell.strict ?? true, keepRecords: true });
}

function engineKind(cell: Cell, references: Map<string, ActorReference>) {
  return actorKind({
    name: 'engine',
    messages: { step, lookupAnswer, fetched },
    state: (index: number) => ({
      index,
      lines: [] as string[],
      tiers: Object.fromEntries([...references].map(([name, reference]) => [name, reference.id])),
    }),
    start(state, context) {
      for (const [index, { atNs }] of cell.engines[state.index]!.entries()) context.timer(step, atNs, index);
    },
    on: {
      step(state, { index }, context) {
        take(state, cell.engines[state.index]![index]!, context, cell);
      },
      lookupAnswer(state, { question, tier, held, estimateNs, sender }, context) {
        if (question >= autoQuestions && held > 0) {
          const blocks = question % (held + 1);
          context.send(sender, fetch, 0, question, blocks, blocks * blockBytes);
        }
        state.lines.push(`${context.now} answer ${question} g${tier} ${held} ${estimateNs}`);
      },
      fetched(state, { question, tier, blocks }, context) {
        state.lines.push(`${context.now} fetched ${question} g${tier} ${blocks}`);
      },
    },
  });
}

function take(state: EngineLog, what: Step, context: Context, cell: Cell): void {
  const to = state.tiers[what.tier] as typeof context.self;
  const delayNs = cell.tiers.find((tier) => tier.name === what.tier)!.options.tier === 4 ? storageNs : 0;
  const chain = Float64Array.from(what.chain ?? []);
  if (what.act === 'lookup') context.sendBody(to, lookup, delayNs, { chain }, what.question!, what.from ?? 0);
  else if (what.act === 'speed') context.send(to, setTierSpeed, delayNs, what.factor!);
  else if (what.act === 'fetch') context.send(to, fetch, delayNs, what.question!, what.blocks!, what.blocks! * blockBytes);
  else {
    const blocks = chain.length + (what.anonymous ?? 0);
    if (what.act === 'offloadFew') {
      const [block0 = 0, block1 = 0, block2 = 0, block3 = 0] = chain;
      context.send(to, offloadFew, delayNs, blocks, blocks * blockBytes, block0, block1, block2, block3);
      return;
    }
    const parents = Float64Array.from(chain, (_, index) => (index === 0 ? 0 : chain[index - 1]!));
    context.sendBody(to, offload, delayNs, { identities: chain, parents }, blocks, blocks * blockBytes);
  }
}

/** 1 GB/s for each transfer. */
function fabricKind(unreachableFromNs: number) {
  const moved = message('moved', ['transfer', 'requester', 'startNs', 'movedBytes']);
  return actorKind({
    name: 'fabric',
    messages: { startTransfer, moved },
    state: () => ({ ends: [] as number[] }),
    on: {
      startTransfer(state, { transfer, sender, transferBytes, source, destination }, context) {
        state.ends.push(source, destination);
        context.send(
          context.self,
          moved,
          context.now >= unreachableFromNs ? 0 : transferBytes,
          transfer,
          sender,
          context.now,
          transferBytes,
        );
      },
      moved(_state, { transfer, requester, startNs, movedBytes }, context) {
        const to = requester as typeof context.self;
        const unreachable = startNs >= unreachableFromNs;
        context.send(to, transferEnded, storageNs, transfer, unreachable ? 1 : 0, startNs, unreachable ? 0 : movedBytes, 3, context.now);
      },
    },
  });
}

/** Runs a cell to its end and checks its tiers; faults are errors. */
export function run(cell: Cell) {
  const simulation = build(cell);
  simulation.runUntil();
  const tier = (name: string): TierState =>
    simulation.stateOf(`${cell.tiers.find((each) => each.name === name)!.options.tier === 4 ? 'storage' : 'server'}/${name}`) as TierState;
  for (const { name } of cell.tiers) {
    const faults = checkTierState(tier(name));
    if (faults.length > 0) throw new Error(faults.join('; '));
  }
  return { simulation, tier, lines: cell.engines.map((_, index) => (simulation.stateOf(`server/engine${index}`) as EngineLog).lines) };
}
