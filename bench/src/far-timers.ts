import { actorKind, defineProgram, message } from '@braess/kernel';

export interface FarTimersParameters {
  readonly actors: number;
}

const tick = message('tick');
const alarm = message('alarm');
export const tickNs = 1000;
const hourNs = 3_600_000_000_000;

/** Actors that, at every tick, cancel the timer they set an hour ahead and set the next: as a time-out does that never strikes. */
export default defineProgram<FarTimersParameters>(import.meta.url, 'far-timers', (world, { actors }) => {
  const patient = actorKind({
    name: 'patient',
    messages: { tick, alarm },
    state: () => ({ timer: -1, missed: 0 }),
    start(_state, context) {
      context.send(context.self, tick, tickNs);
    },
    on: {
      tick(state, _message, context) {
        if (state.timer >= 0 && !context.cancelTimer(state.timer)) state.missed++;
        state.timer = context.timer(alarm, hourNs);
        context.send(context.self, tick, tickNs);
      },
      alarm(state) {
        state.missed++;
      },
    },
  });
  for (let index = 0; index < actors; index++) world.actor(`patient${String(index).padStart(5, '0')}`, patient, undefined);
  world.lookahead('default', 'default', tickNs);
});
