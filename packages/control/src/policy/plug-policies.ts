import type { Cell, World } from '@braess/kernel';
import { definePolicy, type Policy, type Random } from './policy.js';

/**
 * A KV cache's eviction policy: the envelope only. `create` returns the functions that the cache calls (an `EvictionPolicy` of @braess/kvbm, which this
 * package does not know); the caller says which type it expects.
 */
export interface EvictionPlug<Parameters = unknown, Functions extends object = object> extends Policy<'eviction', Parameters> {
  create(parameters: Parameters): Functions;
}

export function defineEvictionPolicy<Parameters, Functions extends object>(
  declaration: Omit<EvictionPlug<Parameters, Functions>, 'kind'>,
): EvictionPlug<Parameters, Functions> {
  return definePolicy<EvictionPlug<Parameters, Functions>>('eviction', declaration);
}

/** What a client policy may do. */
export interface ClientActions {
  /** Send request number `request` of the workload after `delayNs`. Each may be sent once. */
  submit(request: number, delayNs: number): void;
  /** Call `woken` after `delayNs`. */
  wake(delayNs: number): void;
}

/** What a client policy sees of the workload. */
export interface ClientView {
  readonly nowNs: number;
  /** Requests 0 .. requests - 1 may be sent, each once. */
  readonly requests: number;
  readonly arrivalNs: { readonly [request: number]: number };
  readonly inputTokens: { readonly [request: number]: number };
  /** By the tenant's number. */
  readonly tenant: { readonly [request: number]: number };
}

/** Decides when requests are sent. `outcome` is a value of the protocol's `outcome`. */
export interface ClientPolicy<Parameters = unknown, State = unknown> extends Policy<'client', Parameters> {
  createState?(parameters: Parameters, requests: number): State;
  start(view: ClientView, actions: ClientActions, parameters: Parameters, state: State, random: Random): void;
  settled?(
    view: ClientView,
    request: number,
    outcome: number,
    actions: ClientActions,
    parameters: Parameters,
    state: State,
    random: Random,
  ): void;
  woken?(view: ClientView, actions: ClientActions, parameters: Parameters, state: State, random: Random): void;
}

export function defineClientPolicy<Parameters, State>(
  declaration: Omit<ClientPolicy<Parameters, State>, 'kind'>,
): ClientPolicy<Parameters, State> {
  return definePolicy<ClientPolicy<Parameters, State>>('client', declaration);
}

/** Actors of the cluster that a user's actor may talk to, by name; ids are known in state functions and handlers. */
export interface ActorSetting {
  readonly actors: ReadonlyMap<string, { readonly id: number }>;
}

/** Whole actors of a user: `build` declares them in a cell of the control class, with `actorKind` of @braess/kernel. */
export interface ActorPlug<Parameters = unknown> extends Policy<'actor', Parameters> {
  build(cell: Cell, parameters: Parameters, setting: ActorSetting, world: World): void;
}

export function defineActorPolicy<Parameters>(declaration: Omit<ActorPlug<Parameters>, 'kind'>): ActorPlug<Parameters> {
  return definePolicy<ActorPlug<Parameters>>('actor', declaration);
}
