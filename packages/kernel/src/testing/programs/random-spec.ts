/**
 * What a random program is made of: plain data, so that it crosses to worker threads, shrinks, and is printed with a failure.
 * Indices are taken modulo the length of what they point into, so every spec is a valid program.
 */
export interface RandomSpec {
  readonly cells: readonly CellSpec[];
  /** Lookahead in ns from class to class (classes x classes, square by construction); 0 declares nothing. */
  readonly lookaheadNs: readonly (readonly number[])[];
  readonly links: readonly { readonly from: number; readonly to: number; readonly delayNs: number }[];
  /** Reactions to messages; an actor of offset o reacts to tag t with reaction (o + t) modulo their count. */
  readonly reactions: readonly (readonly Operation[])[];
  /** Bodies that messages, records and states carry. */
  readonly values: readonly unknown[];
  /** Messages that each actor's start may cause, shared out over what they cause in turn. */
  readonly budget: number;
}

export interface CellSpec {
  readonly class: number;
  readonly weight: number;
  readonly actors: readonly ActorSpec[];
}

export interface ActorSpec {
  readonly offset: number;
  /** Declares where it sends (its reachable classes), so that its promises widen windows. */
  readonly promises: boolean;
  /** Starts with a message to itself after this delay; negative for none. */
  readonly startNs: number;
}

/** What a handler does; delays come on top of the declared lookahead (0 inside a cell). */
export type Operation =
  | { readonly do: 'send'; readonly to: number; readonly delayNs: number; readonly tag: number }
  | { readonly do: 'sendBody'; readonly to: number; readonly delayNs: number; readonly tag: number; readonly value: number }
  | { readonly do: 'forward'; readonly to: number; readonly delayNs: number; readonly tag: number }
  | { readonly do: 'sendRandom'; readonly spreadNs: number }
  | { readonly do: 'timer'; readonly delayNs: number; readonly tag: number }
  | { readonly do: 'cancel'; readonly which: number }
  | { readonly do: 'emit'; readonly value: number }
  | { readonly do: 'emitBody'; readonly value: number }
  | { readonly do: 'store'; readonly value: number }
  | { readonly do: 'promise'; readonly to: number; readonly forNs: number };
