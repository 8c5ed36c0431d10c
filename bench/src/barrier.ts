import { actorKind, defineProgram, message } from '@braess/kernel';
import { runSteady, type SteadyOptions } from './steady-run.js';

const tick = message('tick');
const stepNs = 1000;

/** One actor a shard that ticks once a lookahead: every window holds one event a shard, so a round is little but its barrier. */
const ticking = defineProgram<{ readonly cells: number }>(import.meta.url, 'barrier', (world, { cells }) => {
  const clock = actorKind({
    name: 'clock',
    messages: { tick },
    state: () => ({ ticks: 0 }),
    start(_state, context) {
      context.send(context.self, tick, stepNs);
    },
    on: {
      tick(state, _message, context) {
        state.ticks++;
        context.send(context.self, tick, stepNs);
      },
    },
  });
  for (let cell = 0; cell < cells; cell++) world.actor(`clock${String(cell).padStart(2, '0')}`, clock, undefined);
  world.lookahead('default', 'default', stepNs);
});
export default ticking;

/** Rounds until the compiler has settled, and how much faster than the first ones they are by then at most. */
const settlingRounds = 400_000;
const settlingGain = 10;

/** Wall time of one round of synchronisation between `shards` shards, in microseconds, measured for about `budgetMs` once the compiler has settled. */
export async function measureBarrierMicroseconds(options: SteadyOptions & { readonly budgetMs?: number }): Promise<number> {
  const { budgetMs = 600 } = options;
  // The first rounds tell how many there is time for: on idle cores one soon takes a microsecond, on busy ones a turn of the scheduler.
  const first = await measureRounds(options, 200, () => 200);
  const warmRounds = Math.ceil(Math.min(settlingRounds, Math.max(200, (settlingGain * budgetMs) / first)));
  return 1000 * (await measureRounds(options, warmRounds, (roundMs) => Math.ceil(Math.min(2_000_000, Math.max(200, budgetMs / roundMs)))));
}

/** Milliseconds a round after `warmRounds` of them; `count` is told how long those took. */
async function measureRounds(options: SteadyOptions, warmRounds: number, count: (roundMs: number) => number): Promise<number> {
  const until = (warm: { readonly rounds: number; readonly loopMs: number }): number =>
    (warmRounds + count(Math.max(warm.loopMs, 1e-3) / Math.max(warm.rounds, 1))) * stepNs;
  const result = await runSteady(ticking, { cells: options.shards }, warmRounds * stepNs, until, options);
  return result.steadyMs / result.steadyRounds;
}
