import {
  type ActorReference,
  actorKind,
  body,
  type Context,
  defineProgram,
  type MessageType,
  message,
  modelOf,
  Simulation,
} from '@braess/kernel';
import {
  answerBegun,
  cancel,
  cancelTransfer,
  changeRole,
  decode,
  engineState,
  fetch,
  fetched,
  finished,
  firstToken,
  kvEvents,
  loadReport,
  lookup,
  lookupAnswer,
  offload,
  prefill,
  prefilled,
  refused,
  setGpuSpeed,
  setTelemetryLoss,
  startEngine,
  startTransfer,
  stopEngine,
  tierHits,
  tokens,
  transferEnded,
} from '@braess/protocol';
import {
  countingEngineBlocks,
  type EngineActorState,
  type EngineBlocks,
  type EngineKindOptions,
  type EngineRules,
  engineKind,
  gpuKind,
  type TimingModel,
} from '@braess/serving';

/** Delays of the test cluster: control 0.5 ms, fabric 10 us, server to server 20 us. */
export const controlNs = 500_000;
export const fabricNs = 10_000;
export const serverNs = 20_000;

export interface TestRequest {
  atNs: number;
  inputTokens: number;
  outputTokens: number;
  engine: number;
  /** With it the engine computes the prompt only. */
  decodeEngine?: number;
  chain?: Float64Array | null;
  cancelNs?: number;
}

/** What the script does to an engine (or a GPU of it) at a time. */
export interface TestAction {
  atNs: number;
  engine: number;
  act: 'gpuSpeed' | 'role' | 'start' | 'stop' | 'telemetryLoss';
  fields: number[];
}

export interface TestCluster {
  requests: readonly TestRequest[];
  engines: readonly { role: number; gpus?: number; started?: boolean; tiers?: boolean }[];
  rules: EngineRules;
  timing: TimingModel;
  actions?: readonly TestAction[];
  options?: Partial<EngineKindOptions<never>>;
  blocks?: EngineBlocks<never>;
  /** Bytes per second of every transfer; transfers from these engines are unreachable. */
  fabric?: { bytesPerSecond: number; unreachable?: readonly number[] };
  promises?: boolean;
  reports?: { loadNs: number; kvNs: number };
  /** Blocks the fake tier holds, what a block takes, and whether what is fetched is lost on the way. */
  tier?: { holds: readonly number[]; blockNs: number; loses?: boolean };
}

/** A row of the frontend's diary: the message, when it came, its fields, and the account of `finished`. */
export interface DiaryRow {
  name: string;
  nowNs: number;
  fields: number[];
  account?: { maxGapNs: number; preemptions: number };
  events?: { kinds: number[]; identities: number[] };
}

const arrive = message('arrive', ['request']);
const giveUp = message('giveUp', ['request']);
const action = message('action', ['index']);
const tierDone = message('tierDone', ['question', 'blocks'], body<null>());

export function buildCluster(spec: TestCluster, shards = 1, strict = false): Simulation {
  const program = defineProgram(undefined, 'test-cluster', (world) => {
    const listeners: ActorReference[] = [];
    const engines: ActorReference[] = [];
    const fabric = world.cell('fabric', { class: 'fabric' }).actor('fabric', fabricKind(spec, engines), undefined);
    const nodesOf = (engine: number): number[] => [engines.findIndex((reference) => reference.id === engine)];
    const reports = spec.reports;
    const promised = spec.promises === true ? [{ to: lateReference(listeners), delayNs: controlNs }] : undefined;
    const kind = engineKind<never>({
      rules: spec.rules,
      timing: spec.timing,
      blocks: spec.blocks ?? (countingEngineBlocks as unknown as EngineBlocks<never>),
      kvBytesPerToken: 1000,
      controlDelayNs: controlNs,
      serverDelayNs: serverNs,
      stateReports: { to: listeners },
      ...(spec.fabric === undefined ? {} : { fabric: { actor: fabric, delayNs: fabricNs, nodesOf } }),
      ...(reports === undefined
        ? {}
        : { loadReports: { to: listeners, periodNs: reports.loadNs }, kvEvents: { to: listeners, periodNs: reports.kvNs } }),
      ...(promised === undefined ? {} : { promises: promised, sendsTo: ['control', 'fabric', 'server'] }),
      ...spec.options,
    });
    const gpu = gpuKind({
      hbmBytes: 80e9,
      weightBytes: 16e9,
      kvBlockBytes: 16_000,
      ...(promised === undefined ? {} : { sendsTo: ['server'] }),
    });
    const gpus: ActorReference[][] = [];
    for (const [index, { role, gpus: members = 1, started = true, tiers = false }] of spec.engines.entries()) {
      const cell = world.cell(`server${index}`, { class: 'server' });
      const own: ActorReference[] = [];
      const below = tiers ? [cell.actor('g2', tierKind(spec), undefined)] : [];
      const engine = cell.actor('engine0', kind, { role, members, started, gpus: own, tiers: below });
      engines.push(engine);
      for (let member = 0; member < members; member++) own.push(cell.actor(`gpu${member}`, gpu, { engine, member, nicNode: index }));
      gpus.push(own);
    }
    const control = world.cell('control', { class: 'control' });
    listeners.push(control.actor('frontend', frontendKind(spec, engines, gpus), undefined));
    world.lookahead('control', 'server', controlNs);
    world.lookahead('server', 'control', controlNs);
    world.lookahead('server', 'fabric', fabricNs);
    world.lookahead('fabric', 'server', fabricNs);
    world.lookahead('server', 'server', serverNs);
  });
  return new Simulation(modelOf(program, undefined), { shards, strict, keepRecords: true });
}

/** A reference to the frontend, which is declared last. */
function lateReference(listeners: readonly ActorReference[]): ActorReference {
  return {
    get id() {
      return listeners[0]!.id;
    },
  } as unknown as ActorReference;
}

interface FrontendState {
  diary: DiaryRow[];
  /** Tokens of each request so far. */
  counts: number[];
  engineIds: number[];
  gpuIds: number[][];
}

export const diaryOf = (simulation: Simulation): DiaryRow[] => (simulation.stateOf('control/frontend') as FrontendState).diary;
export const engineOf = (simulation: Simulation, index: number): EngineActorState<never> =>
  simulation.stateOf(`server${index}/engine0`) as EngineActorState<never>;

/** The fingerprint of what the frontend received. */
export function frontendLane(simulation: Simulation): string {
  const id = simulation.actorId('control/frontend');
  return [...simulation.lanes().slice(2 * id, 2 * id + 2)].join(',');
}

function frontendKind(spec: TestCluster, engines: readonly ActorReference[], gpus: readonly ActorReference[][]) {
  const note = (name: string, ...names: string[]) => {
    return (state: FrontendState, view: unknown, context: Context): void => {
      const fields = names.map((field) => (view as Record<string, number>)[field]!);
      state.diary.push({ name, nowNs: context.now, fields });
    };
  };
  const chainOf = (request: number): Float64Array | undefined => spec.requests[request]!.chain?.slice();
  return actorKind({
    name: 'frontend',
    messages: {
      arrive,
      giveUp,
      action,
      tierHits,
      prefilled,
      answerBegun,
      firstToken,
      finished,
      refused,
      tokens,
      kvEvents,
      loadReport,
      engineState,
    },
    sendsTo: ['server'],
    state: (): FrontendState => ({
      diary: [],
      counts: spec.requests.map(() => 1),
      engineIds: engines.map((engine) => engine.id),
      gpuIds: gpus.map((each) => each.map((gpu) => gpu.id)),
    }),
    start(_state, context) {
      for (const [request, { atNs, cancelNs }] of spec.requests.entries()) {
        context.timer(arrive, atNs, request);
        if (cancelNs !== undefined) context.timer(giveUp, cancelNs, request);
      }
      for (const [index, { atNs }] of (spec.actions ?? []).entries()) context.timer(action, atNs, index);
    },
    on: {
      arrive(state, { request }, context) {
        const { inputTokens, outputTokens, engine, decodeEngine } = spec.requests[request]!;
        const to = state.engineIds[engine] as typeof context.self;
        const here = decodeEngine === undefined ? 1 : 0;
        context.sendBody(to, prefill, controlNs, chainOf(request), request, inputTokens, outputTokens, 0, here);
      },
      giveUp(state, { request }, context) {
        const { engine, decodeEngine } = spec.requests[request]!;
        for (const index of new Set([engine, decodeEngine ?? engine]))
          context.send(state.engineIds[index] as typeof context.self, cancel, controlNs, request);
      },
      action(state, { index }, context) {
        const { engine, act, fields } = spec.actions![index]!;
        const types: Record<TestAction['act'], MessageType> = {
          gpuSpeed: setGpuSpeed,
          role: changeRole,
          start: startEngine,
          stop: stopEngine,
          telemetryLoss: setTelemetryLoss,
        };
        const to = act === 'gpuSpeed' ? state.gpuIds[engine]![fields[0]!]! : state.engineIds[engine]!;
        const rest = act === 'gpuSpeed' ? fields.slice(1) : fields;
        (context.send as (...all: unknown[]) => void)(to, types[act], controlNs, ...rest);
      },
      prefilled(state, view, context) {
        note('prefilled', 'request', 'startNs', 'endNs', 'hitTokens', 'computedTokens')(state, view, context);
        const { request } = view;
        const { inputTokens, outputTokens, engine, decodeEngine, cancelNs } = spec.requests[request]!;
        const from = state.engineIds[engine]!;
        // A client that gave up is served no further; its KV was given back by the cancel.
        if (cancelNs !== undefined && cancelNs <= context.now) return;
        const to = state.engineIds[decodeEngine!] as typeof context.self;
        context.sendBody(to, decode, controlNs, chainOf(request), request, inputTokens, outputTokens, from, 0, 0);
      },
      tierHits: note('tierHits', 'request', 'hitTokensG2', 'hitTokensG3', 'hitTokensG4', 'fetchNs', 'fetchBytes'),
      answerBegun: note('answerBegun', 'request', 'startNs', 'atNs', 'hitTokens', 'computedTokens'),
      firstToken: note('firstToken', 'request', 'atNs', 'transferStartNs', 'transferEndNs', 'transferBytes', 'networkTier'),
      finished(state, view, context) {
        note('finished', 'request', 'outcome', 'lastTokenNs', 'outputTokens')(state, view, context);
        const { maxGapNs, preemptions } = view;
        state.diary.at(-1)!.account = { maxGapNs, preemptions };
      },
      refused(state, view, context) {
        note('refused', 'request', 'reason', 'stage')(state, view, context);
        // Nobody else is tried; the prefill engine must not hold the KV for ever.
        const { engine, decodeEngine } = spec.requests[view.request]!;
        if (view.stage === 2 && decodeEngine !== undefined)
          context.send(state.engineIds[engine] as typeof context.self, cancel, controlNs, view.request);
      },
      tokens(state, view, context) {
        // A row for each request, as if each had a message of its own; the first token comes with another message.
        for (const request of [view.first, view.second, view.third, view.fourth, view.fifth, view.sixth]) {
          if (request < 0) continue;
          const count = 1 + (state.counts[request] ?? 1);
          state.counts[request] = count;
          state.diary.push({ name: 'tokens', nowNs: context.now, fields: [request, count, context.now - controlNs] });
        }
      },
      kvEvents(state, view, context) {
        note('kvEvents', 'engine', 'sequence')(state, view, context);
        state.diary.at(-1)!.events = { kinds: [...view.body.kinds], identities: [...view.body.identities] };
      },
      loadReport: note('loadReport', 'engine', 'queuedTokens', 'runningSequences', 'waitingSequences', 'usedBlocks', 'totalBlocks'),
      engineState: note('engineState', 'engine', 'role', 'status'),
    },
  });
}

/** A fabric where every transfer has the same rate. */
function fabricKind(spec: TestCluster, _engines: readonly ActorReference[]) {
  const moved = message('moved', ['transfer', 'requester', 'startNs', 'movedBytes', 'status']);
  return actorKind({
    name: 'fabric',
    messages: { startTransfer, cancelTransfer, moved },
    sendsTo: ['server'],
    state: () => ({ under: new Map<string, boolean>(), movedBytes: 0 }),
    on: {
      startTransfer(state, { sender, transfer, source, transferBytes }, context) {
        const cut = spec.fabric!.unreachable?.includes(source) === true;
        const key = `${sender} ${transfer}`;
        if (state.under.has(key)) throw new Error(`transfer ${key} is under way already`);
        state.under.set(key, true);
        const takesNs = cut ? 0 : Math.ceil((transferBytes / spec.fabric!.bytesPerSecond) * 1e9);
        context.send(context.self, moved, takesNs, transfer, sender, context.now, transferBytes, cut ? 1 : 0);
      },
      cancelTransfer(state, { sender, transfer }, context) {
        if (!state.under.delete(`${sender} ${transfer}`)) return;
        context.send(sender, transferEnded, fabricNs, transfer, 2, context.now, 0, 0, context.now);
      },
      moved(state, { transfer, requester, startNs, movedBytes, status }, context) {
        if (!state.under.delete(`${requester} ${transfer}`)) return;
        if (status === 0) state.movedBytes += movedBytes;
        context.send(
          requester as typeof context.self,
          transferEnded,
          fabricNs,
          transfer,
          status,
          startNs,
          status === 0 ? movedBytes : 0,
          2,
          context.now,
        );
      },
    },
  });
}

export interface FakeTierState {
  holds: number[];
  pinned: number;
  offloaded: number[];
  fetchedBlocks: number;
}

/** A tier that holds fixed blocks, takes a fixed time a block, and counts its pins. */
function tierKind(spec: TestCluster) {
  return tierKinds.get(spec) ?? makeTierKind(spec);
}
const tierKinds = new WeakMap<TestCluster, ReturnType<typeof makeTierKind>>();
function makeTierKind(spec: TestCluster) {
  const { holds, blockNs, loses = false } = spec.tier!;
  const kind = actorKind({
    name: 'tier',
    messages: { lookup, fetch, offload, tierDone },
    sendsTo: ['server'],
    state: (): FakeTierState => ({ holds: [...holds], pinned: 0, offloaded: [], fetchedBlocks: 0 }),
    on: {
      lookup(state, view, context) {
        const { question, from, sender } = view;
        const { chain } = view.body;
        let held = 0;
        while (from + held < chain.length && state.holds.includes(chain[from + held]!)) held++;
        if (held > 0) state.pinned++;
        context.send(sender, lookupAnswer, 0, question, 2, held, held * blockNs);
      },
      fetch(state, { question, blocks, sender }, context) {
        state.pinned--;
        if (blocks > 0) context.sendBody(context.self, tierDone, blocks * blockNs, null, question * 2 ** 20 + sender, blocks);
      },
      offload(state, view) {
        state.offloaded.push(...view.body.identities);
      },
      tierDone(state, { question, blocks }, context) {
        state.fetchedBlocks += blocks;
        const to = (question % 2 ** 20) as typeof context.self;
        context.send(to, fetched, 0, Math.floor(question / 2 ** 20), 2, loses ? 0 : blocks);
      },
    },
  });
  tierKinds.set(spec, kind);
  return kind;
}
