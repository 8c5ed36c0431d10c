import { type ActorKind, type ActorReference, actorKind, message, record } from '@braess/kernel';
import { memberSpeed, setGpuSpeed } from '@braess/protocol';

/** engine -> gpu, where series are on: blocks of the group's KV in use and passes since the last report. */
export const gpuUsage = message('gpuUsage', ['usedBlocks', 'busyNs']);

/** HBM (G1) bytes in use on one GPU, its speed, and the time it was busy since the last such record. */
export const gpuSample = record('gpuSample', ['usedBytes', 'hbmBytes', 'factor', 'busyNs']);

/** Constants of GPU actors. */
export interface GpuKindOptions {
  readonly name?: string;
  /** Size of HBM, and bytes of weights and of one KV block on one GPU. */
  readonly hbmBytes: number;
  readonly weightBytes: number;
  readonly kvBlockBytes: number;
  readonly sendsTo?: readonly string[];
}

export interface GpuSetup {
  /** The engine of its group, how long word to it takes (0 in its cell), and its place in the group. */
  readonly engine: ActorReference;
  readonly engineDelayNs?: number;
  readonly member: number;
  /** Node of its NIC in the topology. */
  readonly nicNode: number;
}

/** State of a GPU actor: plain data. */
export interface GpuState {
  engine: number;
  engineDelayNs: number;
  member: number;
  nicNode: number;
  /** 1 healthy, below slow, 0 dead. */
  factor: number;
  usedBytes: number;
  busyNs: number;
  /** Changes of speed, and deaths, so far. */
  speedChanges: number;
  deaths: number;
}

const messages = { setGpuSpeed, gpuUsage };

export type GpuKind = ActorKind<string, keyof typeof messages & string, GpuSetup>;

/** A GPU: health and speed, which it tells the engine of its group, and its HBM. Passes send it nothing; a report period does. */
export function gpuKind(options: GpuKindOptions): GpuKind {
  if (!(options.weightBytes >= 0 && options.weightBytes <= options.hbmBytes))
    throw new Error(`gpu: ${options.weightBytes} bytes of weights in ${options.hbmBytes} bytes of HBM`);
  return actorKind({
    name: options.name ?? 'gpu',
    messages,
    ...(options.sendsTo === undefined ? {} : { sendsTo: options.sendsTo }),
    state: (setup: GpuSetup): GpuState => ({
      engine: setup.engine.id,
      engineDelayNs: setup.engineDelayNs ?? 0,
      member: setup.member,
      nicNode: setup.nicNode,
      factor: 1,
      usedBytes: options.weightBytes,
      busyNs: 0,
      speedChanges: 0,
      deaths: 0,
    }),
    on: {
      setGpuSpeed(state, { factor }, context) {
        if (!(factor >= 0 && factor <= 1)) throw new Error(`gpu: speed factor ${factor}; must be from 0 (dead) to 1 (healthy)`);
        if (factor === state.factor) return;
        state.speedChanges++;
        if (factor === 0) {
          state.deaths++;
          state.usedBytes = 0;
        } else if (state.factor === 0) state.usedBytes = options.weightBytes;
        state.factor = factor;
        context.send(state.engine as typeof context.self, memberSpeed, state.engineDelayNs, state.member, factor);
      },
      gpuUsage(state, { usedBlocks, busyNs }, context) {
        if (state.factor > 0) state.usedBytes = options.weightBytes + usedBlocks * options.kvBlockBytes;
        state.busyNs += busyNs;
        context.emit(gpuSample, state.usedBytes, options.hbmBytes, state.factor, busyNs);
      },
    },
  }) as unknown as GpuKind;
}
