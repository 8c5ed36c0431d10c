import type { AcceptedBy, ActorKind } from './actor.js';
import { KernelError } from './errors.js';
import { Hash } from './fingerprint.js';
import { checkLookahead, LookaheadRules } from './lookahead.js';
import type { ActorId, MessageType } from './message.js';
import { checkPlainData } from './plain-check.js';

type AnyKind = ActorKind<string, string, never>;

/** An actor as the program declares it; its id is known once the whole program is built. */
export class ActorReference<Kind extends AnyKind = AnyKind> {
  readonly name: string;
  readonly kind: Kind;
  #id = -1;

  constructor(name: string, kind: Kind) {
    this.name = name;
    this.kind = kind;
  }

  /** The actor's id; usable from `state` functions and handlers on, not while the program is still being built. */
  get id(): ActorId<AcceptedBy<Kind>> {
    if (this.#id < 0)
      throw new KernelError(
        'bad-model',
        `the id of '${this.name}' is not known while the program is being built; read it in the kind's state function`,
      );
    return this.#id as ActorId<AcceptedBy<Kind>>;
  }

  /** @internal */
  assignId(id: number): void {
    this.#id = id;
  }
}

interface DeclaredCell {
  readonly name: string;
  readonly className: string;
  readonly weight: number;
}

interface DeclaredActor {
  readonly reference: ActorReference;
  readonly kind: AnyKind;
  readonly setup: unknown;
  readonly cell: DeclaredCell;
}

/** A set of actors that never parts; inside it, delay 0 is allowed. */
export interface Cell {
  readonly name: string;
  /** Adds an actor named `cell/localName`. */
  actor<Name extends string, Accepts extends string, Setup>(
    localName: string,
    kind: ActorKind<Name, Accepts, Setup>,
    setup: Setup,
  ): ActorReference<ActorKind<Name, Accepts, Setup>>;
}

/** What a program declares: cells, actors, and the least delays between cells. */
export interface World {
  /** Declares a cell. `class` groups cells for lookahead rules (default 'default'); `weight` guides placement (default 1). */
  cell(name: string, options?: { readonly class?: string; readonly weight?: number }): Cell;
  /** Declares an actor in a cell of its own, both with this name. */
  actor<Name extends string, Accepts extends string, Setup>(
    name: string,
    kind: ActorKind<Name, Accepts, Setup>,
    setup: Setup,
    options?: { readonly class?: string; readonly weight?: number },
  ): ActorReference<ActorKind<Name, Accepts, Setup>>;
  /** Least delay in ns from each cell of one class to each of another. */
  lookahead(fromClass: string, toClass: string, delayNs: number): void;
  /** Least delay in ns from one cell to another; overrides the rule of their classes. */
  link(from: Cell | string, to: Cell | string, delayNs: number): void;
}

/** Everything of a program that does not change during a run; the same on every thread. */
export interface Model {
  readonly programName: string;
  readonly actorNames: readonly string[];
  readonly kinds: readonly AnyKind[];
  readonly kindOfActor: Int32Array;
  readonly cellNames: readonly string[];
  readonly cellOfActor: Int32Array;
  readonly classOfCell: Int32Array;
  readonly weightOfCell: Float64Array;
  readonly lookahead: LookaheadRules;
  /** Message types in the order of their names; a message's number is its index. */
  readonly messages: readonly MessageType[];
  readonly streamBase: Int32Array;
  /** Set-ups in the order of the ids. */
  readonly setups: readonly unknown[];
  /** Digest of names, kinds, cells and rules: two threads, or a run and a checkpoint, must agree on it. */
  readonly digest: string;
  /** Digest of the parameters it was built from; '' when they are not plain data. A checkpoint notes it, since states hold what they took from them. */
  readonly parametersDigest: string;
}

/** Runs a program's build function and freezes what it declared. @throws KernelError `bad-model`. */
export function buildModel<Parameters>(
  programName: string,
  build: (world: World, parameters: Parameters) => void,
  parameters: Parameters,
): Model {
  const builder = new WorldBuilder();
  try {
    refusePromise(programName, build(builder, parameters));
    return builder.freeze(programName, parameters);
  } catch (error) {
    if (error instanceof KernelError) throw error;
    throw new KernelError('bad-model', `the build function of program '${programName}' failed: ${String(error)}`, {}, error);
  }
}

/** What an async build declares after its first await would be lost. */
function refusePromise(programName: string, returned: unknown): void {
  if (typeof (returned as { then?: unknown } | undefined)?.then !== 'function') return;
  Promise.resolve(returned).catch(() => undefined);
  throw new KernelError(
    'bad-model',
    `the build function of program '${programName}' returned a promise; it must declare everything before it returns: load what it needs before the run and pass it as parameters`,
  );
}

class WorldBuilder implements World {
  readonly #cells = new Map<string, DeclaredCell>();
  readonly #actors = new Map<string, DeclaredActor>();
  readonly #rules: { from: string; to: string; delayNs: number }[] = [];
  readonly #links: { from: string; to: string; delayNs: number }[] = [];
  #isFrozen = false;

  cell(name: string, options: { readonly class?: string; readonly weight?: number } = {}): Cell {
    const declared = this.#declareCell(name, options);
    return {
      name,
      actor: (localName, kind, setup) => this.#declareActor(`${name}/${localName}`, kind, setup, declared),
    };
  }

  actor<Name extends string, Accepts extends string, Setup>(
    name: string,
    kind: ActorKind<Name, Accepts, Setup>,
    setup: Setup,
    options: { readonly class?: string; readonly weight?: number } = {},
  ): ActorReference<ActorKind<Name, Accepts, Setup>> {
    return this.#declareActor(name, kind, setup, this.#declareCell(name, options));
  }

  lookahead(fromClass: string, toClass: string, delayNs: number): void {
    this.#refuseLate();
    checkLookahead(`lookahead from class '${fromClass}' to class '${toClass}'`, delayNs);
    const known = this.#rules.find((rule) => rule.from === fromClass && rule.to === toClass);
    if (known === undefined) this.#rules.push({ from: fromClass, to: toClass, delayNs });
    else refuseSecond(`lookahead from class '${fromClass}' to class '${toClass}'`, known.delayNs, delayNs);
  }

  link(from: Cell | string, to: Cell | string, delayNs: number): void {
    this.#refuseLate();
    const fromName = typeof from === 'string' ? from : from.name;
    const toName = typeof to === 'string' ? to : to.name;
    checkLookahead(`link from cell '${fromName}' to cell '${toName}'`, delayNs);
    this.#links.push({ from: fromName, to: toName, delayNs });
  }

  freeze(programName: string, parameters: unknown): Model {
    this.#isFrozen = true;
    if (this.#actors.size === 0) throw new KernelError('bad-model', `program '${programName}' declares no actor; declare at least one`);
    const actors = [...this.#actors.values()].sort((a, b) => compareByCodeUnit(a.reference.name, b.reference.name));
    const usedCells = new Set(actors.map((actor) => actor.cell));
    const cells = [...usedCells].sort((a, b) => compareByCodeUnit(a.name, b.name));
    const cellIndex = new Map(cells.map((cell, index) => [cell, index]));
    const kinds = collectKinds(actors);
    const kindIndex = new Map(kinds.map((kind, index) => [kind, index]));
    const classNames = [...new Set(cells.map((cell) => cell.className))].sort(compareByCodeUnit);
    const classIndex = new Map(classNames.map((name, index) => [name, index]));
    const streamBase = new Int32Array(actors.length + 1);
    for (const [id, actor] of actors.entries()) {
      actor.reference.assignId(id);
      streamBase[id + 1] = (streamBase[id] as number) + actor.kind.streams.length;
    }
    const model = {
      programName,
      actorNames: actors.map((actor) => actor.reference.name),
      kinds,
      kindOfActor: Int32Array.from(actors, (actor) => kindIndex.get(actor.kind) as number),
      cellNames: cells.map((cell) => cell.name),
      cellOfActor: Int32Array.from(actors, (actor) => cellIndex.get(actor.cell) as number),
      classOfCell: Int32Array.from(cells, (cell) => classIndex.get(cell.className) as number),
      weightOfCell: Float64Array.from(cells, (cell) => cell.weight),
      lookahead: this.#rulesOver(classNames, cells),
      messages: collectMessages(kinds),
      streamBase,
      setups: actors.map((actor) => actor.setup),
    };
    let parametersDigest: string | undefined;
    return {
      ...model,
      digest: digestOf(model),
      get parametersDigest() {
        parametersDigest ??= digestOfParameters(parameters); // Only checkpoints ask for it, and parameters may be large.
        return parametersDigest;
      },
    };
  }

  #declareCell(name: string, options: { readonly class?: string; readonly weight?: number }): DeclaredCell {
    if (name === '') throw new KernelError('bad-model', 'a cell needs a name');
    if (this.#cells.has(name)) throw new KernelError('bad-model', `cell '${name}' is declared twice; names must be unique`);
    const weight = options.weight ?? 1;
    if (!(weight >= 0 && weight < Number.POSITIVE_INFINITY))
      throw new KernelError('bad-model', `cell '${name}' has weight ${weight}; it must be finite and not negative`);
    const cell = { name, className: options.class ?? 'default', weight };
    this.#cells.set(name, cell);
    return cell;
  }

  #refuseLate(): void {
    if (this.#isFrozen) throw new KernelError('bad-model', 'the build function has returned: nothing can be declared any more');
  }

  #declareActor<Kind extends AnyKind>(name: string, kind: Kind, setup: unknown, cell: DeclaredCell): ActorReference<Kind> {
    this.#refuseLate();
    if (this.#actors.has(name)) throw new KernelError('bad-model', `actor '${name}' is declared twice; names must be unique`);
    const reference = new ActorReference(name, kind);
    this.#actors.set(name, { reference, kind, setup, cell });
    return reference;
  }

  #rulesOver(classNames: readonly string[], cells: readonly DeclaredCell[]): LookaheadRules {
    const byClass = new Float64Array(classNames.length ** 2).fill(Number.NaN);
    for (const rule of this.#rules) {
      const from = classNames.indexOf(rule.from);
      const to = classNames.indexOf(rule.to);
      if (from < 0 || to < 0) continue; // A rule for a class that this scenario has no cells of.
      byClass[from * classNames.length + to] = rule.delayNs;
    }
    const indexByName = this.#links.length === 0 ? new Map<string, number>() : new Map(cells.map((cell, index) => [cell.name, index]));
    const links = new Map<number, number>();
    for (const link of this.#links) {
      const from = indexByName.get(link.from);
      const to = indexByName.get(link.to);
      if (from === undefined || to === undefined) {
        throw new KernelError(
          'bad-model',
          `link from '${link.from}' to '${link.to}': no cell with actors is named '${from === undefined ? link.from : link.to}'`,
        );
      }
      const key = from * cells.length + to;
      const known = links.get(key);
      if (known !== undefined) refuseSecond(`link from cell '${link.from}' to cell '${link.to}'`, known, link.delayNs);
      links.set(key, link.delayNs);
    }
    return new LookaheadRules(classNames, byClass, links, cells.length);
  }
}

/** The same again is harmless; another value would overwrite the first one silently. */
function refuseSecond(what: string, firstNs: number, secondNs: number): void {
  if (firstNs === secondNs) return;
  throw new KernelError('bad-model', `${what} is declared twice, as ${firstNs} ns and as ${secondNs} ns; declare it once`);
}

/** Order by UTF-16 code unit, the same in every locale. */
function compareByCodeUnit(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function collectKinds(actors: readonly DeclaredActor[]): AnyKind[] {
  const byName = new Map<string, AnyKind>();
  for (const { kind } of actors) {
    const known = byName.get(kind.name);
    if (known !== undefined && known !== kind) throw new KernelError('bad-model', `two actor kinds are named '${kind.name}'; rename one`);
    byName.set(kind.name, kind);
  }
  return [...byName.values()].sort((a, b) => compareByCodeUnit(a.name, b.name));
}

function collectMessages(kinds: readonly AnyKind[]): MessageType[] {
  const byName = new Map<string, MessageType>();
  for (const kind of kinds) {
    for (const type of kind.messages) {
      const known = byName.get(type.name);
      if (known !== undefined && known !== type)
        throw new KernelError(
          'bad-model',
          `two messages are named '${type.name}' (one of them handled by kind '${kind.name}'); rename one, or declare it once and share it`,
        );
      byName.set(type.name, type);
    }
  }
  return [...byName.values()].sort((a, b) => compareByCodeUnit(a.name, b.name));
}

function digestOf(model: Omit<Model, 'digest' | 'parametersDigest'>): string {
  const hash = new Hash();
  hash.string(model.programName);
  for (const name of model.actorNames) hash.string(name);
  for (const kind of model.kinds) {
    hash.string(kind.name);
    hash.value([...kind.streams]);
  }
  for (const type of model.messages) hash.value([type.name, [...type.fields], type.hasBody]);
  hash.value([model.kindOfActor, model.cellOfActor, model.classOfCell, model.lookahead.byClass]);
  for (const [key, delayNs] of model.lookahead.links) hash.value([key, delayNs]);
  return hash.digest();
}

function digestOfParameters(parameters: unknown): string {
  try {
    checkPlainData(parameters, 'the parameters');
  } catch {
    return ''; // Functions or instances, on this thread: there is nothing to compare them by.
  }
  const hash = new Hash();
  hash.value(parameters);
  return hash.digest();
}
