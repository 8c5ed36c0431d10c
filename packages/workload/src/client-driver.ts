import type { Context, MessageType } from '@braess/kernel';
import type { ClientOptions } from './client-options.js';

/** What a driver may do. */
export interface DriverActions {
  /** Send request number `request` after `delayNs`. Each request once. */
  submit(request: number, delayNs: number): void;
  /** Call `woken` after `delayNs`. */
  wake(delayNs: number): void;
}

/** What a driver sees of its workload; columns by request. */
export interface DriverView {
  readonly nowNs: number;
  readonly requests: number;
  readonly arrivalNs: { readonly [request: number]: number };
  readonly inputTokens: { readonly [request: number]: number };
  readonly tenant: { readonly [request: number]: number };
}

/** Decides when requests are sent, in place of an arrival time or a closed loop. `State` is plain data. */
export interface ClientDriver<State = unknown> {
  createState(requests: number): State;
  start(view: DriverView, actions: DriverActions, state: State, random: () => number): void;
  /** A request is over; `outcome` is a value of the protocol's `outcome`. */
  settled(view: DriverView, request: number, outcome: number, actions: DriverActions, state: State, random: () => number): void;
  woken(view: DriverView, actions: DriverActions, state: State, random: () => number): void;
}

/** Plain data. */
export interface DriverState {
  readonly policy: unknown;
  /** 1 for each request sent. */
  readonly sent: Uint8Array;
}

type DriverContext = Context<'policy'>;

/** Messages by which the client wakes itself: a request's time has come, and a wake-up. */
export interface DriverTimers {
  readonly turn: MessageType<'clientTurn', readonly ['row'], never>;
  readonly woken: MessageType<'clientWoken', readonly [], never>;
}

export function createDriverState({ driver, table }: ClientOptions): DriverState | null {
  return driver === undefined ? null : { policy: driver.createState(table.requestCount), sent: new Uint8Array(table.requestCount) };
}

/** Starts or wakes the driver. */
export function drive(
  options: ClientOptions,
  state: DriverState,
  context: DriverContext,
  timers: DriverTimers,
  what: 'start' | 'woken',
): void {
  options.driver![what](viewOf(options, context), actionsOf(state, context, timers), state.policy, () => context.random('policy'));
}

/** Tells the driver that a request is over. */
export function tellDriver(
  options: ClientOptions,
  state: DriverState,
  context: DriverContext,
  timers: DriverTimers,
  row: number,
  code: number,
): void {
  const draw = (): number => context.random('policy');
  options.driver!.settled(viewOf(options, context), row, code, actionsOf(state, context, timers), state.policy, draw);
}

function viewOf({ table }: ClientOptions, context: DriverContext): DriverView {
  const { requestCount, arrivalNs, inputTokens, tenant } = table;
  return { nowNs: context.now, requests: requestCount, arrivalNs, inputTokens, tenant };
}

function actionsOf({ sent }: DriverState, context: DriverContext, { turn, woken }: DriverTimers): DriverActions {
  return {
    submit(row, delayNs) {
      if (!(Number.isInteger(row) && row >= 0 && row < sent.length))
        throw new RangeError(`sent request ${String(row)}; requests are numbered 0 to ${sent.length - 1}`);
      if (sent[row] === 1) throw new RangeError(`sent request ${row} a second time; each may be sent once`);
      sent[row] = 1;
      context.send(context.self, turn, delayNs, row);
    },
    wake: (delayNs) => context.send(context.self, woken, delayNs),
  };
}
