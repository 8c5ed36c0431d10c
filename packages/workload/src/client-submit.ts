import type { ActorId, ActorReference, Context } from '@braess/kernel';
import { submit } from '@braess/protocol';
import type { ClientOptions } from './client-options.js';
import { hashedChoice, requestChain } from './client-rows.js';

/** What the program passes for each client actor. */
export interface ClientSetup {
  /** Number of this client, 0 to clients - 1. */
  readonly client: number;
  readonly frontends: readonly ActorReference[];
}

/** Where a client sends its requests; part of its state. */
export interface FrontendChoice {
  readonly frontends: number[];
  turn: number;
  /** Actor id of the frontend a controller has moved this client to, -1 for none. */
  movedTo: number;
}

export function createFrontendChoice(setup: ClientSetup): FrontendChoice {
  const { client, frontends } = setup;
  if (frontends.length === 0) throw new RangeError(`client ${client} has no frontends; give at least one`);
  return { frontends: frontends.map((frontend) => frontend.id), turn: client % frontends.length, movedTo: -1 };
}

/** Sends a row to a frontend, whose actor id it returns. `deadlineNs` -1: the client waits for ever. */
export function submitRow(options: ClientOptions, state: FrontendChoice, context: Context, row: number, deadlineNs: number): number {
  const { table, priorities } = options;
  const frontend = chooseFrontend(options, state, row);
  const tenant = table.tenant[row]!;
  context.sendBody(
    frontend as ActorId,
    submit,
    options.submitDelayNs,
    requestChain(table, row, options.blockTokens),
    row,
    table.inputTokens[row]!,
    table.outputTokens[row]!,
    tenant,
    priorities === undefined ? 0 : priorities[tenant]!,
    deadlineNs,
  );
  return frontend;
}

function chooseFrontend(options: ClientOptions, state: FrontendChoice, row: number): number {
  if (state.movedTo >= 0) return state.movedTo;
  const { frontends } = state;
  if (frontends.length === 1) return frontends[0]!;
  if (options.frontendBy === 'hash') return frontends[hashedChoice(options.table, row, frontends.length)]!;
  const frontend = frontends[state.turn]!;
  if (options.frontendBy === 'turn') state.turn = (state.turn + 1) % frontends.length;
  return frontend;
}
