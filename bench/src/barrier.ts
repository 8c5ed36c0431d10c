import { availableParallelism } from 'node:os';
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

/** Wall time of one round of synchronisation between `shards` shards, in microseconds, measured for about `budgetMs`. */
export async function measureBarrierMicroseconds(options: SteadyOptions & { readonly budgetMs?: number }): Promise<number> {
  const { shards, budgetMs = 600 } = options;
  // Shards that outnumber the cores take a turn of the scheduler each round.
  // On as many cores a round takes a microsecond or two once the compiler has settled, which takes tens of thousands of them.
  const warmRounds = shards > availableParallelism() ? 200 : 400_000;
  const result = await runSteady(
    ticking,
    { cells: shards },
    warmRounds * stepNs,
    (warm) => {
      const rounds = (budgetMs * warm.rounds) / Math.max(1, warm.loopMs);
      return (warmRounds + Math.ceil(Math.min(2_000_000, Math.max(200, rounds)))) * stepNs;
    },
    options,
  );
  return (result.steadyMs * 1000) / result.steadyRounds;
}
