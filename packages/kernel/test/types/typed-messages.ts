/** Compiled, not run, by typed-messages.test.ts: every line under an `@ts-expect-error` must be an error, every other line none. */
import { type ActorId, type ActorReference, actorKind, body, defineProgram, message, record } from '@braess/kernel';
import { ActorBench } from '@braess/kernel/testing';

const ping = message('ping', ['hops', 'weight']);
const bare = message('bare');
const parcel = message('parcel', ['size'], body<{ readonly text: string }>());
const noted = record('noted', ['value']);
const full = record('full', [], body<readonly number[]>());

const receiver = actorKind({
  name: 'receiver',
  messages: { ping, parcel },
  state: () => ({ count: 0 }),
  on: {
    ping(state, { hops, sender }, context) {
      state.count += hops;
      const from: ActorId = sender;
      context.send(from, bare, 0);
      // @ts-expect-error The state has no such property.
      state.total = 1;
    },
    parcel(_state, view, context) {
      const text: string = view.body.text;
      context.emit(noted, text.length + view.size);
      // @ts-expect-error The body has no such property.
      view.body.missing;
      // @ts-expect-error A view is read only.
      view.size = 3;
    },
  },
});

interface Setup {
  readonly to: ActorReference<typeof receiver>;
}

export const sender = actorKind({
  name: 'sender',
  messages: { bare },
  streams: ['draws'],
  state: ({ to }: Setup) => ({ to: to.id }),
  on: {
    bare(state, view, context) {
      context.send(state.to, ping, 5, 1, 2);
      context.sendBody(state.to, parcel, 5, { text: 'x' }, 1);
      context.random('draws');
      context.timer(bare, 5);
      context.emitBody(full, [1, 2]);
      context.promiseSilence(state.to, 100);
      // @ts-expect-error A receiver handles no 'bare'.
      context.send(state.to, bare, 5);
      // @ts-expect-error A field is missing.
      context.send(state.to, ping, 5, 1);
      // @ts-expect-error A field too many.
      context.send(state.to, ping, 5, 1, 2, 3);
      // @ts-expect-error Fields are numbers.
      context.send(state.to, ping, 5, 1, 'two');
      // @ts-expect-error The delay is missing.
      context.send(state.to, ping);
      // @ts-expect-error A message with a body needs sendBody.
      context.send(state.to, parcel, 5, 1);
      // @ts-expect-error The body is of another type.
      context.sendBody(state.to, parcel, 5, { text: 7 }, 1);
      // @ts-expect-error No such stream is declared.
      context.random('service');
      // @ts-expect-error 'ping' has two fields.
      context.timer(ping, 5);
      // @ts-expect-error The record has one field.
      context.emit(noted);
      // @ts-expect-error A record with a body needs emitBody.
      context.emit(full);
      // @ts-expect-error 'bare' has no field.
      view.hops;
      // @ts-expect-error 'bare' has no body.
      view.body;
      // @ts-expect-error Time is read only.
      context.now = 3;
    },
  },
});

actorKind({
  name: 'incomplete',
  messages: { ping, bare },
  state: () => ({}),
  // @ts-expect-error The handler of 'bare' is missing.
  on: { ping() {} },
});

actorKind({
  name: 'surplus',
  messages: { bare },
  state: () => ({}),
  on: {
    bare() {},
    // @ts-expect-error 'ping' is not among the messages.
    ping() {},
  },
});

export const program = defineProgram<{ readonly count: number }>(undefined, 'typed', (world, { count }) => {
  const to = world.actor('receiver', receiver, undefined);
  for (let index = 0; index < count; index++) world.actor(`sender${index}`, sender, { to });
  // @ts-expect-error The set-up is missing.
  world.actor('a', sender);
  // @ts-expect-error The set-up is of another type.
  world.actor('b', sender, { to: 3 });
  const other = world.actor('other', sender, { to });
  // @ts-expect-error The set-up needs a receiver, not a sender.
  world.actor('c', sender, { to: other });
});

const driven = new ActorBench().drive('r', receiver, undefined);
driven.receive(ping, { fields: [1, 2] });
driven.receive(parcel, { fields: [1], body: { text: 'x' } });
driven.receive(bare);
// @ts-expect-error The fields are missing.
driven.receive(ping);
// @ts-expect-error The body is missing.
driven.receive(parcel, { fields: [1] });
// @ts-expect-error A field is missing.
driven.receive(ping, { fields: [1] });
