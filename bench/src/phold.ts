import { type ActorReference, actorKind, defineProgram, exponential, message } from '@braess/kernel';

/** What PHOLD is made of. Times in ns. */
export interface PholdParameters {
  readonly actors: number;
  /** Share of events that go to an actor drawn from all. */
  readonly remote: number;
  readonly meanDelayNs: number;
  readonly lookaheadNs: number;
  /** Extra work an event, in rounds of an integer mix (see `workRoundsPerMicrosecond`). */
  readonly workRounds: number;
}

const event = message('event');

/** Some integer work whose result feeds the next round, so that it cannot be skipped. */
export function spinWork(seed: number, rounds: number): number {
  let value = seed;
  // Kept an int32 each round: a sum that overflows turns the loop into doubles, three times as slow, but only in long loops.
  for (let round = 0; round < rounds; round++) value = (Math.imul(value ^ (value >>> 13), 0x5bd1e995) + round) | 0;
  return value;
}

export function actorName(index: number): string {
  return `particle${String(index).padStart(7, '0')}`;
}

export default defineProgram<PholdParameters>(import.meta.url, 'phold', (world, parameters) => {
  const { actors, remote, lookaheadNs, workRounds } = parameters;
  const exponentialMeanNs = parameters.meanDelayNs - lookaheadNs;
  let first: ActorReference | undefined;
  const particle = actorKind({
    name: 'particle',
    messages: { event },
    streams: ['draws'],
    state: () => ({ first: first?.id ?? 0, work: 0 }),
    start(_state, context) {
      context.send(context.self, event, lookaheadNs + Math.floor(exponential(context.random('draws'), exponentialMeanNs)));
    },
    on: {
      event(state, _message, context) {
        if (workRounds > 0) state.work = spinWork(state.work, workRounds);
        const to =
          context.random('draws') < remote
            ? ((state.first + Math.floor(context.random('draws') * actors)) as typeof context.self)
            : context.self;
        context.send(to, event, lookaheadNs + Math.floor(exponential(context.random('draws'), exponentialMeanNs)));
      },
    },
  });
  for (let index = 0; index < actors; index++) {
    const reference = world.actor(actorName(index), particle, undefined);
    first ??= reference;
  }
  world.lookahead('default', 'default', lookaheadNs);
});
