import { type ActorId, type ActorKind, actorKind, type Context, message } from '@braess/kernel';
import { moveClient, settled } from '@braess/protocol';
import { checkBlockTokens } from './block-identity.js';
import { careClientKind } from './client-care.js';
import { type ClientCounts, countOutcome, createCounts } from './client-counts.js';
import { type ClientOptions, checkClientOptions, isPlainOpenLoop } from './client-options.js';
import { type ClientRows, dealRows } from './client-rows.js';
import { type ClientSetup, createFrontendChoice, type FrontendChoice, submitRow } from './client-submit.js';
import { hasDelays } from './requests.js';

/** State of a client without features: counts and a cursor. */
export interface OpenLoopState extends FrontendChoice {
  readonly client: number;
  readonly counts: ClientCounts;
  /** Place in this client's rows. */
  next: number;
}

const clientArrival = message('clientArrival');

/**
 * The kind of a run's client actors. All of them share one kind: create it once in the build function, and one actor with it for each client.
 * A client without features costs one timer and one `submit` a request and keeps counts only, of outcomes where its frontends answer; every other
 * one answers for each request under way (see client-care.ts): frontends must then answer every `submit` with exactly one `settled`, also after a `cancel`.
 * @throws RangeError for options that contradict themselves.
 */
export function clientKind(options: ClientOptions): ActorKind<'client', string, ClientSetup> {
  checkClientOptions(options);
  checkBlockTokens(options.table.blockTokens, options.blockTokens);
  const rows = dealRows(options.table, options.clients ?? 1, options.sessions !== undefined);
  return isPlainOpenLoop({ ...options, delays: hasDelays(options.table) }) ? openLoopKind(options, rows) : careClientKind(options, rows);
}

function openLoopKind(options: ClientOptions, rows: ClientRows): ActorKind<'client', string, ClientSetup> {
  const { table, promiseTo } = options;

  /** Sends all that is due now and sets the timer for what comes next. */
  const walk = (state: OpenLoopState, context: Context): void => {
    const own = rows.rowsOfClient === null ? null : rows.rowsOfClient[state.client]!;
    const count = own === null ? table.requestCount : own.length;
    let nextNs = Number.MAX_SAFE_INTEGER - options.submitDelayNs;
    while (state.next < count) {
      const row = own === null ? state.next : own[state.next]!;
      const arrivalNs = table.arrivalNs[row]!;
      if (arrivalNs > context.now) {
        nextNs = arrivalNs;
        context.send(context.self, clientArrival, arrivalNs - context.now);
        break;
      }
      state.next++;
      state.counts.submitted++;
      submitRow(options, state, context, row, -1);
    }
    if (promiseTo === undefined) return;
    for (const frontend of state.frontends) context.promiseSilence(frontend as ActorId, nextNs + options.submitDelayNs);
  };

  return actorKind({
    name: 'client',
    messages: { clientArrival, settled, moveClient },
    ...(promiseTo === undefined ? {} : { sendsTo: promiseTo }),
    state: (setup: ClientSetup): OpenLoopState => ({
      client: setup.client,
      counts: createCounts(),
      next: 0,
      ...createFrontendChoice(setup),
    }),
    start: walk,
    on: {
      clientArrival(state, _message, context) {
        walk(state, context);
      },
      settled(state, message) {
        countOutcome(state.counts, message.outcome);
      },
      moveClient(state, message) {
        state.movedTo = message.frontend;
      },
    },
  });
}
