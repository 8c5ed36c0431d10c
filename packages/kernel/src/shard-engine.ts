import type { Context, TimerId } from './actor.js';
import { actorLayout, actorLinesOf, recordLinesOf, undeclaredClasses } from './actor-lines.js';
import type { EngineOptions, EventTap } from './engine-options.js';
import { fromUnknown, KernelError } from './errors.js';
import { EventQueue } from './event-queue.js';
import { EventSlab, slotLayout } from './event-slab.js';
import { Hash, mixA, mixB, nameHash } from './fingerprint.js';
import { type Handler, handlerTable, refuseReturned } from './handlers.js';
import { type ActorId, createView, type MessageType, type RowType } from './message.js';
import { MessageBatch } from './message-batch.js';
import type { Model } from './model.js';
import { checkBody } from './plain-check.js';
import { copyValue } from './plain-copy.js';
import { RandomStreams, streamName } from './random-streams.js';
import { RecordBuffer } from './records.js';
import {
  actorName,
  followLoop,
  kindOf,
  nameFullest,
  refuseActor,
  refuseBroken,
  refuseClass,
  refuseCrossing,
  refuseDelay,
  refuseMessage,
  refuseStream,
} from './refusals.js';
import { frameFrontWords } from './shard-link.js';
import { showWork, workName } from './shard-task.js';
import type { SilenceGates } from './silence-gates.js';
import { strictContext } from './strict-context.js';
import { StrictStates } from './strict-states.js';
import { maximumTimeNs, timeFault } from './time.js';
import { TimerTable } from './timer-table.js';

const { actorKindMask, actorWords, cellWord, declaredFlag, laneAWord, laneBWord, promisedFlag, sequenceDouble, shardWord, streamWord } =
  actorLayout;

const { bodyFlag, cancelledTarget, fieldWords, kindMask, kindOffset, senderOffset, slotWords, stepOffset, targetOffset, timerFlag } =
  slotLayout;

/**
 * The events, actors and clock of one shard. It is also the `Context` its handlers see. The hot path (runBefore, send) does not allocate.
 */
export class ShardEngine {
  // Context fields. They start as doubles so that storing a time never changes their representation.
  now = Number.NaN;
  self = 0 as ActorId;

  readonly model: Model;
  readonly shard: number;
  readonly seed: string;
  readonly slab: EventSlab;
  readonly queue: EventQueue;
  readonly timers: TimerTable;
  readonly streams: RandomStreams;
  readonly records = new RecordBuffer();
  readonly batches: readonly MessageBatch[];
  readonly states: unknown[];
  readonly actorLines: Int32Array<ArrayBuffer>;
  readonly actorDoubles: Float64Array<ArrayBuffer>;
  /** Lanes a and b, then the count, of each actor's records. */
  readonly recordLines: Int32Array;
  /** Promise of actor * cellCount + cell: silent until. */
  readonly promises = new Map<number, number>();
  gates: SilenceGates | undefined;
  tap: EventTap | undefined;
  eventCount = 0;

  /** By actor, the latest of its promises: most sends lie past it, and need no look at the single ones. */
  private readonly promisedUntilNs: Float64Array;
  private step = 0;
  /** A limit that was passed. Handlers cannot catch it: the message is half sent, and on another count of shards there is no such error. */
  private passedLimit: KernelError | undefined;
  private cancelledCount = 0;
  /** Of the message just posted: how many fields it has, and to which shard it left. */
  private postedFields = 0;
  private postedTo = 0;
  private readonly handlers: (Handler | undefined)[];
  private readonly handlerStride: number;
  private readonly views: unknown[];
  private readonly numberOfDeclaration: Int32Array;
  private readonly fieldCounts: Uint8Array;
  private readonly nameHashes: Int32Array;
  private readonly streamNames: readonly (readonly string[])[];
  private readonly byClass: Float64Array;
  private readonly classCount: number;
  private readonly classOfCell: Int32Array;
  /** Kinds x classes: 1 for a class that a kind with `sendsTo` does not list. */
  private readonly isOutside: Uint8Array;
  private readonly hasLinks: boolean;
  private readonly actorCount: number;
  private readonly stepLimit: number;
  private readonly strict: boolean;
  /** What handlers see: this engine, or in strict runs the checks before it. */
  private readonly context: Context;
  private readonly strictStates: StrictStates;
  private readonly keepRecords: boolean;
  readonly watch: Int32Array;
  private readonly watchDoubles: Float64Array;
  private readonly loop: string[] = [];
  private readonly scratchHash = new Hash();
  /** Hash of the name of each record emitted so far, by declaration. */
  private readonly recordHashes: number[] = [];

  constructor(model: Model, shard: number, shardCount: number, shardOfCell: Int32Array, options: EngineOptions) {
    this.model = model;
    this.shard = shard;
    this.seed = options.seed;
    this.strict = options.strict;
    this.context = options.strict ? strictContext(this as unknown as Context) : (this as unknown as Context);
    this.strictStates = new StrictStates(options.strict ? model.actorNames : []);
    this.keepRecords = options.keepRecords;
    this.stepLimit = options.limits.zeroDelaySteps;
    this.actorCount = model.actorNames.length;
    this.slab = new EventSlab(options.limits.pendingBytes);
    this.queue = new EventQueue(this.slab);
    this.timers = new TimerTable(this.slab);
    this.streams = new RandomStreams(model.streamBase[this.actorCount] as number, (stream) => streamName(model, this.seed, stream));
    this.batches = Array.from(
      { length: shardCount },
      () =>
        new MessageBatch(
          options.limits.batchBytes,
          (actor) => actorName(model, actor),
          frameFrontWords(shardCount),
          (error) => this.noteLimit(error),
        ),
    );
    this.watch = options.watch ?? new Int32Array(16);
    this.watchDoubles = new Float64Array(this.watch.buffer);
    this.streamNames = model.kinds.map((kind) => kind.streams);
    this.byClass = model.lookahead.byClass;
    this.classCount = model.lookahead.classNames.length;
    this.classOfCell = model.classOfCell;
    this.isOutside = undeclaredClasses(model);
    this.hasLinks = model.lookahead.links.size > 0;
    this.handlerStride = model.messages.length + 1;
    this.handlers = handlerTable(model, this.handlerStride);
    this.views = [...model.messages.map((type) => createView(type, this.slab.cursor, options.strict)), undefined];
    this.fieldCounts = Uint8Array.from([...model.messages.map((type) => type.fields.length), 0]);
    this.nameHashes = Int32Array.from([...model.messages.map((type) => nameHash(type.name)), nameHash('start')]);
    this.numberOfDeclaration = new Int32Array(1 + Math.max(...model.messages.map((type) => type.declaration), 0)).fill(-1);
    for (const [number, type] of model.messages.entries()) this.numberOfDeclaration[type.declaration] = number;
    this.actorLines = actorLinesOf(model, shardOfCell);
    this.actorDoubles = new Float64Array(this.actorLines.buffer);
    this.recordLines = recordLinesOf(model);
    this.promisedUntilNs = new Float64Array(this.actorCount);
    this.states = new Array<unknown>(this.actorCount).fill(undefined);
  }

  owns(actor: number): boolean {
    return this.actorLines[actor * actorWords + shardWord] === this.shard;
  }

  /** The ids of this shard's actors, ascending. */
  ownActors(): Int32Array<ArrayBuffer> {
    const own = new Int32Array(this.actorCount);
    let count = 0;
    for (let actor = 0; actor < this.actorCount; actor++) if (this.owns(actor)) own[count++] = actor;
    return own.slice(0, count);
  }

  /** Builds the states of this shard's actors and queues their `start`. */
  begin(): void {
    for (let actor = 0; actor < this.actorCount; actor++) {
      if (!this.owns(actor)) continue;
      showWork(this.watch, this.model, actor, 'state');
      const kind = kindOf(this.model, actor);
      try {
        const state = (kind.createState as (setup: unknown) => unknown)(this.model.setups[actor]);
        this.states[actor] = this.strict ? this.strictStates.separate(actor, state) : state;
      } catch (error) {
        throw this.located(error, { actor: this.model.actorNames[actor] as string, message: 'state', timeNs: 0 });
      }
      if (kind.start === undefined) continue;
      this.place(0, 0, actor, this.nextSequence(actor), actor, this.model.messages.length);
    }
  }

  /** Runs events before `boundNs`, at most `maximum` of them; returns how many. */
  runBefore(boundNs: number, maximum: number): number {
    this.watch[3] = 1;
    try {
      const events = this.dispatch(boundNs, maximum);
      this.eventCount += events;
      if (this.passedLimit !== undefined) throw this.passedLimit;
      return events;
    } catch (error) {
      throw this.passedLimit ?? this.located(error, this.currentSite());
    } finally {
      this.watch[3] = 0;
      this.slab.cursor.base = -1;
      this.slab.cursor.body = undefined;
    }
  }

  private dispatch(boundNs: number, maximum: number): number {
    const {
      queue,
      slab,
      actorLines,
      handlers,
      handlerStride,
      views,
      nameHashes,
      fieldCounts,
      states,
      watch,
      watchDoubles,
      tap,
      strict,
      context,
    } = this;
    const cursor = slab.cursor;
    const before = this.eventCount + 1;
    for (let done = 0; done < maximum; done++) {
      const slot = queue.popBefore(boundNs);
      if (slot < 0) return done;
      const base = slot * slotWords;
      const integers = slab.integers;
      const kindWord = integers[2 * base + kindOffset] as number;
      const target = integers[2 * base + targetOffset] as number;
      const line = target * actorWords;
      const number = kindWord & kindMask;
      const now = slab.words[base] as number;
      this.now = now;
      watchDoubles[4] = now;
      this.self = target as ActorId;
      this.step = integers[2 * base + stepOffset] as number;
      watch[0] = before + done;
      watch[1] = target;
      watch[2] = number;
      // Fingerprint: time, name, sender, fields; see fingerprint.ts.
      const sender = integers[2 * base + senderOffset] as number;
      let a = actorLines[line + laneAWord] as number;
      let b = actorLines[line + laneBWord] as number;
      let word = integers[2 * base] as number;
      a = mixA(a, word);
      b = mixB(b, word);
      word = integers[2 * base + 1] as number;
      a = mixA(a, word);
      b = mixB(b, word);
      word = (nameHashes[number] as number) ^ Math.imul(sender, 0x01000193);
      a = mixA(a, word);
      b = mixB(b, word);
      const fieldCount = fieldCounts[number] as number;
      if (fieldCount > 0) {
        const fieldsBase = slot * fieldWords;
        cursor.fieldsBase = fieldsBase;
        const { fieldIntegers } = slab;
        for (let at = 2 * fieldsBase; at < 2 * (fieldsBase + fieldCount); at += 2) {
          let low = fieldIntegers[at] as number;
          let high = fieldIntegers[at + 1] as number;
          if ((high & 0x7ff00000) === 0x7ff00000 && ((high & 0xfffff) !== 0 || low !== 0)) {
            low = 0; // NaN comes in many bit patterns.
            high = 0x7ff80000;
          }
          a = mixA(mixA(a, low), high);
          b = mixB(mixB(b, low), high);
        }
      }
      actorLines[line + laneAWord] = a;
      actorLines[line + laneBWord] = b;
      if ((kindWord & ~kindMask) !== 0) this.takeExtras(slot, kindWord, line);
      cursor.base = base;
      if (tap !== undefined) tap(this.now, this.step, sender, target, this.messageName(number));
      const handler = handlers[((actorLines[line] as number) & actorKindMask) * handlerStride + number];
      if (handler === undefined) refuseMessage(this.model, target, number, sender);
      else {
        const returned = handler(states[target], views[number], context);
        if (returned !== undefined) refuseReturned(returned);
      }
      if ((kindWord & bodyFlag) !== 0) cursor.body = undefined; // A message without a body shows none.
      if (strict) this.afterHandlerStrict(target);
      slab.free(slot);
    }
    return maximum;
  }

  /** The rarer parts of an event: a body to hand over and hash, a timer to forget. */
  private takeExtras(slot: number, kindWord: number, line: number): void {
    if ((kindWord & bodyFlag) !== 0) {
      const body = this.slab.takeBody(slot);
      this.slab.cursor.body = body;
      const hash = this.scratchHash;
      hash.a = this.actorLines[line + laneAWord] as number;
      hash.b = this.actorLines[line + laneBWord] as number;
      hash.value(body);
      this.actorLines[line + laneAWord] = hash.a;
      this.actorLines[line + laneBWord] = hash.b;
    }
    if ((kindWord & timerFlag) !== 0) this.timers.remove(this.self, this.slab.words[slot * slotWords + 1] as number);
  }

  send(to: ActorId, type: MessageType, delayNs: number, a = 0, b = 0, c = 0, d = 0, e = 0, f = 0): void {
    const slot = this.post(to, type, delayNs, 0, undefined);
    if (this.postedFields > 0) this.storeFields(slot, a, b, c, d, e, f);
  }

  sendBody(to: ActorId, type: MessageType, delayNs: number, body: unknown, a = 0, b = 0, c = 0, d = 0, e = 0, f = 0): void {
    const slot = this.post(to, type, delayNs, body === undefined ? 0 : bodyFlag, body);
    if (this.postedFields > 0) this.storeFields(slot, a, b, c, d, e, f);
  }

  timer(type: MessageType, delayNs: number, a = 0, b = 0, c = 0, d = 0, e = 0, f = 0): TimerId {
    const slot = this.post(this.self, type, delayNs, timerFlag, undefined);
    if (this.postedFields > 0) this.storeFields(slot, a, b, c, d, e, f);
    this.timers.add(slot);
    return this.slab.words[slot * slotWords + 1] as number;
  }

  cancelTimer(timer: TimerId): boolean {
    const slot = this.timers.remove(this.self, timer);
    if (slot < 0) return false;
    this.slab.integers[slot * (2 * slotWords) + targetOffset] = cancelledTarget;
    // Cancelled events stay where they are; once they outnumber the live ones they are swept out, so memory stays bounded.
    if (++this.cancelledCount > 4096 && 2 * this.cancelledCount > this.slab.liveCount) this.sweepCancelled();
    return true;
  }

  random(stream: string): number {
    const line = this.self * actorWords;
    const names = this.streamNames[(this.actorLines[line] as number) & actorKindMask] as readonly string[];
    // Short enough to be inlined into handlers, where a draw then needs no box: most kinds have one stream, and it is the first.
    const index = names[0] === stream ? 0 : this.streamIndex(names, stream);
    return this.streams.draw((this.actorLines[line + streamWord] as number) + index);
  }

  private streamIndex(names: readonly string[], stream: string): number {
    const index = names.indexOf(stream);
    return index < 0 ? refuseStream(this.model, this.self, stream, names) : index;
  }

  emit(type: MessageType, a = 0, b = 0, c = 0, d = 0, e = 0, f = 0): void {
    this.record(type, false, undefined, a, b, c, d, e, f);
  }

  emitBody(type: MessageType, body: unknown, a = 0, b = 0, c = 0, d = 0, e = 0, f = 0): void {
    // The body is kept until the next flush, so it must be a copy of its own.
    this.record(type, true, copyValue(body, `the body of record '${type.name}'`), a, b, c, d, e, f);
  }

  emitRow(type: RowType, numbers: Float64Array): void {
    if (numbers.length !== type.fields.length)
      throw new KernelError('bad-value', `row '${type.name}' was given ${numbers.length} numbers; it needs ${type.fields.length}`);
    const number = this.beginRecord(type);
    this.scratchHash.numbers(numbers);
    this.endRecord();
    if (this.keepRecords) this.records.appendRow(this.now, this.step, this.self, number, type, numbers);
  }

  promiseSilence(destination: ActorId, untilNs: number): void {
    if (!Number.isSafeInteger(untilNs) || untilNs < 0)
      throw new KernelError('bad-time', `promiseSilence until ${untilNs}: ${timeFault(untilNs)}`);
    this.checkActor(destination);
    const cell = this.actorLines[destination * actorWords + cellWord] as number;
    const key = this.self * this.model.cellNames.length + cell;
    if (untilNs <= (this.promises.get(key) ?? 0)) return;
    this.keepPromise(this.self, key, untilNs);
  }

  /** Notes a promise just made, or made before a checkpoint. */
  keepPromise(actor: number, key: number, untilNs: number): void {
    this.promises.set(key, untilNs);
    this.promisedUntilNs[actor] = Math.max(untilNs, this.promisedUntilNs[actor] as number);
    this.actorLines[actor * actorWords] = (this.actorLines[actor * actorWords] as number) | promisedFlag;
    this.gates?.raise(key, untilNs);
  }

  /** Queues a message and returns its slot, -1 when it leaves the shard. Its fields are stored afterwards: many messages have none. */
  private post(to: ActorId, type: MessageType, delayNs: number, flags: number, body: unknown): number {
    const self = this.self;
    const timeNs = this.now + delayNs;
    if (!(delayNs >= 0 && timeNs <= maximumTimeNs) || Math.floor(delayNs) !== delayNs)
      refuseDelay(this.model, this.self, this.now, type, delayNs);
    const number = this.numberOfDeclaration[type.declaration] as number;
    if (!(number >= 0))
      throw new KernelError('unknown-message', `no actor of this program handles message '${type.name}'; add it to the receiver's kind`);
    let step = 0;
    if (delayNs === 0) {
      step = this.step + 1;
      if (step > this.stepLimit - 64) followLoop(this.model, this.loop, self, to, type, step, this.stepLimit);
    }
    const bodyBytes = (flags & bodyFlag) === 0 ? 0 : checkBody(body, type);
    const doubles = this.actorDoubles;
    const sequenceAt = self * (actorWords / 2) + sequenceDouble;
    const sequence = doubles[sequenceAt] as number;
    doubles[sequenceAt] = sequence + 1;
    const fieldCount = this.fieldCounts[number] as number;
    this.postedFields = fieldCount;
    if (to !== self) {
      this.checkActor(to);
      const line = to * actorWords;
      const toCell = this.actorLines[line + cellWord] as number;
      if (toCell !== this.actorLines[self * actorWords + cellWord]) this.checkCrossing(to, toCell, type, delayNs, timeNs);
      const toShard = this.actorLines[line + shardWord] as number;
      if (toShard !== this.shard) {
        const batch = this.batches[toShard] as MessageBatch;
        batch.append(timeNs, sequence, self, to, number | flags, fieldCount);
        this.postedTo = toShard;
        if ((flags & bodyFlag) !== 0) batch.appendBody(body, bodyBytes, to);
        return -1;
      }
    }
    const slot = this.place(timeNs, step, self, sequence, to, number | flags);
    if ((flags & bodyFlag) !== 0) this.keepBody(slot, body, bodyBytes);
    return slot;
  }

  private storeFields(slot: number, a: number, b: number, c: number, d: number, e: number, f: number): void {
    if (slot < 0) {
      (this.batches[this.postedTo] as MessageBatch).storeFields(this.postedFields, a, b, c, d, e, f);
      return;
    }
    const { fields } = this.slab;
    const at = slot * fieldWords;
    fields[at] = a;
    fields[at + 1] = b;
    fields[at + 2] = c;
    fields[at + 3] = d;
    fields[at + 4] = e;
    fields[at + 5] = f;
  }

  /** Queues an event and returns its slot; fields and body are the caller's to store. */
  place(timeNs: number, step: number, sender: number, sequence: number, target: number, kindWord: number): number {
    const slab = this.slab;
    const slot = this.allocate();
    const base = slot * slotWords;
    const { words, integers } = slab;
    words[base] = timeNs;
    words[base + 1] = sequence;
    integers[2 * base + stepOffset] = step;
    integers[2 * base + senderOffset] = sender;
    integers[2 * base + targetOffset] = target;
    integers[2 * base + kindOffset] = kindWord;
    this.queue.push(slot);
    return slot;
  }

  /** Queues a message that came from another shard, from outside, or from a checkpoint. */
  receive(
    timeNs: number,
    step: number,
    sequence: number,
    sender: number,
    target: number,
    kindWord: number,
    fields: Float64Array,
    fieldsAt: number,
    fieldCount: number,
    body: unknown,
  ): void {
    try {
      const slot = this.place(timeNs, step, sender, sequence, target, kindWord);
      const at = slot * fieldWords;
      for (let field = 0; field < fieldCount; field++) this.slab.fields[at + field] = fields[fieldsAt + field] as number;
      if ((kindWord & bodyFlag) !== 0) this.keepBody(slot, body, checkBody(body, this.model.messages[kindWord & kindMask] as MessageType));
      if ((kindWord & timerFlag) !== 0) this.timers.add(slot);
    } catch (error) {
      // No handler runs: the place is that of the message that could not be taken in.
      throw this.located(error, { actor: actorName(this.model, target), message: this.messageName(kindWord & kindMask), timeNs });
    }
  }

  messageName(number: number): string {
    return workName(this.model, number);
  }

  private allocate(): number {
    try {
      return this.slab.allocate();
    } catch (error) {
      throw this.withFullest(error);
    }
  }

  private keepBody(slot: number, body: unknown, bytes: number): void {
    try {
      this.slab.keepBody(slot, body, bytes);
    } catch (error) {
      throw this.withFullest(error);
    }
  }

  private withFullest(error: unknown): unknown {
    return error instanceof KernelError && error.code === 'limit'
      ? this.noteLimit(nameFullest(this.model, this.slab, this.queue, error))
      : error;
  }

  private noteLimit(error: KernelError): KernelError {
    // Outside a handler whoever called knows the place.
    if (this.watch[3] === 1) this.passedLimit ??= this.located(error, this.currentSite());
    return error;
  }

  private nextSequence(actor: number): number {
    const at = actor * (actorWords / 2) + sequenceDouble;
    const sequence = this.actorDoubles[at] as number;
    this.actorDoubles[at] = sequence + 1;
    return sequence;
  }

  private record(
    type: MessageType,
    hasBody: boolean,
    body: unknown,
    a: number,
    b: number,
    c: number,
    d: number,
    e: number,
    f: number,
  ): void {
    const number = this.beginRecord(type);
    const hash = this.scratchHash;
    const fieldCount = type.fields.length;
    if (fieldCount > 0) hash.number(a);
    if (fieldCount > 1) hash.number(b);
    if (fieldCount > 2) hash.number(c);
    if (fieldCount > 3) hash.number(d);
    if (fieldCount > 4) hash.number(e);
    if (fieldCount > 5) hash.number(f);
    if (hasBody) hash.value(body);
    this.endRecord();
    if (!this.keepRecords) return;
    this.records.append(this.now, this.step, this.self, number, type, hasBody, a, b, c, d, e, f);
    if (hasBody) this.records.appendBody(body);
  }

  /** Counts a record of the actor at work and begins its part of the actor's record hash; returns its number. */
  private beginRecord(type: { readonly name: string; readonly declaration: number }): number {
    const line = this.self * 3;
    const number = this.recordLines[line + 2] as number;
    this.recordLines[line + 2] = number + 1;
    const hash = this.scratchHash;
    hash.a = this.recordLines[line] as number;
    hash.b = this.recordLines[line + 1] as number;
    hash.number(this.now);
    hash.word(this.step);
    hash.word((this.recordHashes[type.declaration] ??= nameHash(type.name)));
    return number;
  }

  private endRecord(): void {
    this.recordLines[this.self * 3] = this.scratchHash.a;
    this.recordLines[this.self * 3 + 1] = this.scratchHash.b;
  }

  private sweepCancelled(): void {
    this.queue.retain((slot) => this.slab.integers[slot * (2 * slotWords) + targetOffset] !== cancelledTarget);
    this.cancelledCount = 0;
  }

  private checkActor(id: number): void {
    if (id >>> 0 === id && id < this.actorCount) return;
    refuseActor(this.model, this.self, id);
  }

  private checkCrossing(to: number, toCell: number, type: MessageType, delayNs: number, timeNs: number): void {
    const cell = this.actorLines[this.self * actorWords + cellWord] as number;
    const least = this.hasLinks
      ? this.model.lookahead.between(cell, toCell, this.classOfCell)
      : (this.byClass[(this.classOfCell[cell] as number) * this.classCount + (this.classOfCell[toCell] as number)] as number);
    if (!(delayNs >= least)) refuseCrossing(this.model, this.self, to, type, delayNs, least);
    const flags = this.actorLines[this.self * actorWords] as number;
    if ((flags & (promisedFlag | declaredFlag)) !== 0) this.checkDeclared(flags, to, toCell, type, timeNs);
  }

  /** Apart, so that what every message passes stays short enough to be inlined. */
  private checkDeclared(flags: number, to: number, toCell: number, type: MessageType, timeNs: number): void {
    // Windows open by what a kind declares: a message to another class would arrive where time has run on.
    const place = (flags & actorKindMask) * this.classCount + (this.classOfCell[toCell] as number);
    if ((flags & declaredFlag) !== 0 && this.isOutside[place] === 1) refuseClass(this.model, this.self, to, type);
    if ((flags & promisedFlag) === 0 || timeNs >= (this.promisedUntilNs[this.self] as number)) return;
    const silentUntil = this.promises.get(this.self * this.model.cellNames.length + toCell) ?? 0;
    if (timeNs < silentUntil) refuseBroken(this.model, this.self, to, type, timeNs, silentUntil);
  }

  private afterHandlerStrict(target: number): void {
    this.slab.cursor.base = -1;
    this.slab.cursor.body = undefined;
    this.strictStates.afterEvent(target, this.states[target]);
  }

  private currentSite(): { actor: string; message: string; timeNs: number } {
    return { actor: actorName(this.model, this.self), message: this.messageName(this.watch[2] as number), timeNs: this.now };
  }

  private located(error: unknown, site: { actor: string; message: string; timeNs: number }): KernelError {
    const full = { ...site, shard: this.shard, seed: this.seed };
    return error instanceof KernelError ? error.at(full) : fromUnknown(error, full);
  }
}
