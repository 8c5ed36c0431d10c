import { existsSync, writeFileSync } from 'node:fs';
import { actorKind, type Context } from '../../actor.js';
import { type ActorId, body, message, record } from '../../message.js';
import type { ActorReference } from '../../model.js';
import { defineProgram } from '../../program.js';

/** What goes wrong in the chosen actor, at its chosen message. */
export type Fault =
  | 'none'
  | 'throw'
  | 'exit'
  | 'exit-once'
  | 'memory'
  | 'stall'
  | 'Date'
  | 'Date.now'
  | 'Math.random'
  | 'Math.pow'
  | 'setTimeout'
  | 'performance.now'
  | 'performance.mark'
  | 'Intl.DateTimeFormat'
  | 'SharedArrayBuffer'
  | 'await'
  | 'rejection'
  | 'flood'
  | 'zero-delay'
  | 'share-body'
  | 'bare-body';

/** A ring of actors, each in a cell of its own, that pass tokens on; one of them fails. */
export interface FaultParameters {
  readonly actors: number;
  readonly fault: Fault;
  /** Index of the actor that fails, and which of its messages it fails at. */
  readonly failing: number;
  readonly atCount: number;
  /** Tokens stop after this many hops. */
  readonly hops: number;
  readonly delayNs: number;
  /** Bytes of body on every hop (0 for none), and messages an actor sends at once at its start. */
  readonly bodyBytes?: number;
  readonly burst?: number;
  /** Where `exit-once` notes that it has happened, and (with `.again` appended) that it was passed over the second time. */
  readonly markerFile?: string;
  /** A file that `exit-once` waits for before it exits. */
  readonly waitForFile?: string;
}

const token = message('token', ['hops'], body<Uint8Array | { count: number } | null>());
const passed = record('passed', ['hops']);

interface State {
  readonly index: number;
  readonly next: ActorId<'token'>;
  count: number;
  kept: unknown;
  readonly tally: { count: number };
}

export default defineProgram<FaultParameters>(import.meta.url, 'fault', (world, parameters) => {
  const references: ActorReference[] = [];
  const member = actorKind({
    name: 'member',
    messages: { token },
    state: (index: number): State => ({
      index,
      next: (references[(index + 1) % references.length] as ActorReference).id,
      count: 0,
      kept: null,
      tally: { count: 0 },
    }),
    start(state, context) {
      for (let sent = 0; sent < (parameters.burst ?? 1); sent++) pass(parameters, state, context, parameters.hops);
    },
    on: {
      token(state, { hops, body }, context): unknown {
        state.count++;
        if (parameters.fault === 'bare-body') state.kept = body;
        context.emit(passed, hops);
        if (hops > 0) pass(parameters, state, context, hops - 1);
        if (state.index === parameters.failing && state.count === parameters.atCount) return fail(parameters, state, context);
        return undefined;
      },
    },
  });
  for (let index = 0; index < parameters.actors; index++) {
    references.push(world.actor(`ring${String(index).padStart(6, '0')}`, member, index) as unknown as ActorReference);
  }
  world.lookahead('default', 'default', parameters.delayNs);
});

function pass(parameters: FaultParameters, state: State, context: Context, hops: number): void {
  const { bodyBytes = 0, fault, delayNs } = parameters;
  state.tally.count++;
  context.sendBody(state.next, token, delayNs, contentOf(fault, state, bodyBytes, hops), hops);
}

function contentOf(fault: Fault, state: State, bodyBytes: number, hops: number): Uint8Array | { count: number } | null {
  if (fault === 'share-body') return state.tally;
  if (fault === 'bare-body') return Object.assign(Object.create(null) as { count: number }, { count: hops });
  return bodyBytes === 0 ? null : new Uint8Array(bodyBytes).fill(hops & 255);
}

function fail(parameters: FaultParameters, state: State, context: Context): unknown {
  switch (parameters.fault) {
    case 'none':
    case 'share-body':
    case 'bare-body':
      return undefined;
    case 'throw':
      throw new TypeError('the handler broke');
    case 'exit':
      return process.exit(3);
    case 'exit-once':
      return exitOnce(parameters);
    case 'memory': {
      const hoard: unknown[] = [];
      for (;;) hoard.push({ number: hoard.length, text: `entry ${hoard.length}` });
    }
    case 'stall':
      for (;;) state.kept = state.count;
    case 'Date':
      return void new Date();
    case 'Date.now':
      return void Date.now();
    case 'performance.mark':
      return void performance.mark('x');
    case 'Intl.DateTimeFormat':
      return void new Intl.DateTimeFormat().format();
    case 'rejection':
      return void Promise.reject(new Error('nobody waits for it'));
    case 'Math.random':
      return void Math.random();
    case 'Math.pow':
      // biome-ignore lint/style/useExponentiationOperator: the guard is on the function.
      return void Math.pow(2, 0.5);
    case 'setTimeout':
      return void setTimeout(() => undefined, 1);
    case 'performance.now':
      return void performance.now();
    case 'SharedArrayBuffer':
      return void new SharedArrayBuffer(8);
    case 'await':
      return (async () => {
        await Promise.resolve();
      })();
    case 'flood':
      for (;;) context.sendBody(context.self as ActorId<'token'>, token, 1000, null, 0);
    case 'zero-delay':
      context.sendBody(context.self as ActorId<'token'>, token, 0, null, 0);
      state.count--; // So that the next one fails again.
      return undefined;
  }
}

function exitOnce({ markerFile = '', waitForFile }: FaultParameters): void {
  if (existsSync(markerFile)) {
    writeFileSync(`${markerFile}.again`, '');
    return;
  }
  for (let looks = 0; waitForFile !== undefined && !existsSync(waitForFile) && looks < 5_000_000; looks++);
  writeFileSync(markerFile, '');
  process.exit(3);
}
