import { actorKind } from '../../actor.js';
import { message, record } from '../../message.js';
import type { ActorReference } from '../../model.js';
import { defineProgram } from '../../program.js';

/** Two actors that answer each other's pokes; one or both may tick, emit, work and fail. At the end they tell what they have seen. */
export interface EchoParameters {
  /** 'x', 'y' or 'xy'. */
  readonly ticking: string;
  /** 0 for no ticks. */
  readonly tickNs: number;
  readonly failAtTick?: number;
  /** Without it the ticks have no end. */
  readonly lastTick?: number;
  /** Wall time of each tick. */
  readonly workMs?: number;
  /** Between the two, and the delay of an echo (default 1000). */
  readonly lookaheadNs?: number;
  /** What `atEnd` does instead of telling. */
  readonly atEnd?: 'throw' | 'text' | 'promise' | 'stall';
}

const poke = message('poke', ['number']);
const echo = message('echo', ['number']);
const tick = message('tick', ['count']);
const ticked = record('ticked', ['count']);

// Taken before the guards hide it: this program shows what slow handlers do.
const now = performance.now.bind(performance);

export default defineProgram<EchoParameters>(import.meta.url, 'echo', (world, parameters) => {
  const { lookaheadNs = 1000 } = parameters;
  const references: ActorReference[] = [];
  const player = actorKind({
    name: 'player',
    messages: { poke, echo, tick },
    state: (name: string) => ({ name, seen: 0 }),
    start(state, context) {
      if (parameters.ticking.includes(state.name) && parameters.tickNs > 0) context.timer(tick, parameters.tickNs, 1);
    },
    atEnd: ({ seen }) => (parameters.atEnd === undefined ? (seen === 0 ? [] : [`has seen ${seen}`]) : failAtEnd(parameters.atEnd)),
    on: {
      poke(state, { number }) {
        state.seen += number;
      },
      echo(state) {
        state.seen++;
      },
      tick(_state, { count }, context) {
        for (const endMs = now() + (parameters.workMs ?? 0); now() < endMs; );
        if (count === parameters.failAtTick) throw new Error(`tick ${count}`);
        context.emit(ticked, count);
        if (count !== parameters.lastTick) context.timer(tick, parameters.tickNs, count + 1);
        context.send((references[1] as ActorReference).id, echo, lookaheadNs, count);
      },
    },
  });
  for (const name of ['x', 'y']) references.push(world.actor(name, player, name));
  world.lookahead('default', 'default', lookaheadNs);
});

function failAtEnd(how: 'throw' | 'text' | 'promise' | 'stall'): readonly string[] {
  for (let looks = 0; how === 'stall'; looks++) if (looks < 0) break;
  if (how === 'throw') throw new RangeError('no end');
  return (how === 'text' ? 'no list' : Promise.reject(new Error('nobody waits for it'))) as unknown as readonly string[];
}
