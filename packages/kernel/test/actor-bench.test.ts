import { type ActorReference, actorKind, body, defineProgram, message, modelOf, record, Simulation } from '@braess/kernel';
import { ActorBench } from '@braess/kernel/testing';
import { describe, expect, it } from 'vitest';

const order = message('order', ['amount']);
const shipment = message('shipment', ['amount'], body<{ readonly items: number[] }>());
const restock = message('restock');
const sold = record('sold', ['amount', 'stock']);

const shop = actorKind({ name: 'shop', messages: { shipment }, state: () => ({}), on: { shipment() {} } });

/** A warehouse: ships what it has, reorders after 100 ns, gives up waiting when goods arrive. */
const warehouse = actorKind({
  name: 'warehouse',
  messages: { order, restock, shipment },
  streams: ['sizes'],
  state: ({ shop: to, stock }: { shop: ActorReference<typeof shop>; stock: number }) => ({ shop: to.id, stock, timer: -1, items: [1, 2] }),
  start(state, context) {
    context.promiseSilence(state.shop, 50);
  },
  on: {
    order(state, { amount, sender }, context) {
      state.stock -= amount;
      context.emit(sold, amount, state.stock);
      context.sendBody(sender, shipment, 60, { items: [...state.items] }, amount);
      if (state.stock < 5 && state.timer < 0) state.timer = context.timer(restock, 100);
    },
    restock(state, _message, context) {
      state.timer = -1;
      state.stock += 10 + Math.floor(context.random('sizes') * 10);
    },
    shipment(state, { amount }, context) {
      state.stock += amount;
      if (state.timer >= 0) context.cancelTimer(state.timer);
      state.timer = -1;
    },
  },
});

function stocked(stock: number) {
  const bench = new ActorBench('seed');
  const reference = bench.reference('shop', shop);
  const actor = bench.drive('warehouse', warehouse, { shop: reference, stock });
  return { bench, reference, actor, state: actor.state as { stock: number; timer: number } };
}

describe('the actor bench', () => {
  it('shows what an actor sent, emitted and promised', () => {
    const { reference, actor, state } = stocked(20);
    expect(actor.promises).toEqual([{ destination: reference.id, madeNs: 0, untilNs: 50 }]);
    actor.advanceTo(7);
    actor.receive(order, { sender: reference.id, fields: [3] });
    expect(state.stock).toBe(17);
    expect(actor.takeSent()).toEqual([
      { to: reference.id, toName: 'shop', message: 'shipment', sentNs: 7, delayNs: 60, fields: [3], body: { items: [1, 2] } },
    ]);
    expect(actor.takeSent()).toEqual([]);
    expect(actor.takeRecords()).toEqual([{ timeNs: 7, type: 'sold', fields: [3, 17], body: undefined }]);
  });

  it('fires timers when time is advanced, and not those cancelled', () => {
    const { actor, state, reference } = stocked(5);
    actor.receive(order, { sender: reference.id, fields: [1] });
    expect(actor.pending.map(({ message: name, arrivesNs }) => [name, arrivesNs])).toEqual([['restock', 100]]);
    actor.advance(99);
    expect(state.stock).toBe(4);
    actor.receive(shipment, { fields: [2], body: { items: [] } });
    expect(actor.timersCancelled).toEqual(actor.timersSet);
    actor.advance(1000);
    expect([state.stock, actor.nowNs]).toEqual([6, 1099]);
    actor.receive(order, { sender: reference.id, fields: [6] });
    actor.advance(100);
    expect(state.stock).toBeGreaterThanOrEqual(10);
  });

  it('draws the numbers that an actor of this name draws in a run', () => {
    const { actor, state, reference } = stocked(4);
    actor.receive(order, { sender: reference.id, fields: [0] });
    actor.advance(100);
    const alone = new Simulation(
      modelOf(
        defineProgram(undefined, 'alone', (world) => {
          const to = world.actor('shop', shop, undefined);
          world.actor('warehouse', warehouse, { shop: to, stock: 4 });
          world.lookahead('default', 'default', 1);
        }),
        undefined,
      ),
      { seed: 'seed' },
    );
    alone.inject({ timeNs: 0, actor: 'warehouse', message: 'restock' });
    alone.runUntil();
    expect((alone.stateOf('warehouse') as { stock: number }).stock).toBe(state.stock);
  });

  it('delivers zero-delay messages to itself in the order of steps', () => {
    const log: string[] = [];
    const a = message('a', ['left']);
    const kind = actorKind({
      name: 'self',
      messages: { a },
      state: () => ({}),
      on: {
        a(_state, { left }, context) {
          log.push(`${context.now}/${left}`);
          if (left === 3) for (const next of [1, 0]) context.send(context.self, a, next === 1 ? 0 : 5, next);
          if (left === 1) context.send(context.self, a, 0, 0);
        },
      },
    });
    const actor = new ActorBench().drive('self', kind, undefined);
    actor.receive(a, { fields: [3] });
    actor.advance(5);
    expect(log).toEqual(['0/3', '0/1', '0/0', '5/0']);
  });

  const go = message('go');
  const box = message('box', [], body<unknown>());
  function doing(act: (state: { part: unknown; twice: unknown }, context: { self: number } & Record<string, unknown>) => unknown) {
    const kind = actorKind({
      name: 'doing',
      messages: { go, box },
      state: (): { part: unknown; twice: unknown } => ({ part: { list: [1] }, twice: null }),
      on: { go: (state, _message, context): void => act(state, context as never) as undefined, box() {} },
    });
    const bench = new ActorBench();
    return { bench, actor: bench.drive('x', kind, undefined) };
  }

  it.each<[string, Parameters<typeof doing>[0], RegExp]>([
    ['a state that is not plain', (state) => void (state.part = () => 1), /the state of 'x' after 'go'\.part holds a function/],
    [
      'a state with a part held twice',
      (state) => void (state.twice = state.part),
      /\.twice is the same object as the state of 'x' after 'go'\.part/,
    ],
    [
      'a body that the sender still holds',
      (state, context) => (context.sendBody as (...given: unknown[]) => void)(context.self, box, 1, [state.part]),
      /the body of message 'box'\[0\] is the same object as the state\.part of the sender; send a copy/,
    ],
    [
      'a fractional delay',
      (_state, context) => (context.send as (...given: unknown[]) => void)(context.self, go, 0.5),
      /delay 0.5: it must be a whole number/,
    ],
    [
      'a negative delay',
      (_state, context) => (context.send as (...given: unknown[]) => void)(context.self, go, -1),
      /must not be negative/,
    ],
    [
      'a field too many',
      (_state, context) => (context.send as (...given: unknown[]) => void)(context.self, go, 1, 2),
      /'go' was given \[2\]; it has 0 numeric fields/,
    ],
    [
      'a recipient nobody named',
      (_state, context) => (context.send as (...given: unknown[]) => void)(99, go, 1),
      /actor 99 was never named on this bench/,
    ],
    ['an undeclared stream', (_state, context) => (context.random as (name: string) => number)('dice'), /declares no random stream 'dice'/],
    [
      'a promise that is broken at once',
      (_state, context) => {
        (context.promiseSilence as (...given: unknown[]) => void)(context.self, 10);
        (context.send as (...given: unknown[]) => void)(context.self, go, 9);
      },
      /promised silence until 10 ns/,
    ],
    ['an await', async () => undefined, /must not await/],
  ])('refuses %s', (_what, act, text) => {
    const { actor } = doing(act);
    expect(() => actor.receive(go)).toThrow(text);
  });

  it('refuses a message the kind does not handle, and a view read after the handler', () => {
    const { actor } = doing(() => undefined);
    expect(() => actor.receive(order, { fields: [1] })).toThrow(/kind 'doing' handles no message 'order'; it handles \[go, box\]/);
    let kept: { readonly amount: number } | undefined;
    const keeping = actorKind({
      name: 'keeping',
      messages: { order },
      state: () => ({}),
      on: { order: (_state, view) => void (kept = view) },
    });
    new ActorBench().drive('k', keeping, undefined).receive(order, { fields: [1] });
    expect(() => kept?.amount).toThrow(/was read after its handler returned/);
  });
});
