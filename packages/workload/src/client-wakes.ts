import { message } from '@braess/kernel';

// How a client wakes itself.

export const clientArrival = message('clientArrival');
export const clientTurn = message('clientTurn', ['row']);
/** Row of the task that has thought, or -1 - phase for a worker of that phase. */
export const clientThought = message('clientThought', ['row']);
export const clientTimeout = message('clientTimeout', ['row']);
export const clientRetry = message('clientRetry', ['row']);
export const clientPhase = message('clientPhase');
export const clientTick = message('clientTick');
export const clientMove = message('clientMove', ['frontend']);
export const clientReport = message('clientReport');
export const clientCut = message('clientCut');
/** client -> itself: it notices an answer. */
export const clientAnswer = message('clientAnswer', ['row', 'outcome', 'firstTokenNs', 'lastTokenNs', 'outputTokens']);
export const clientWoken = message('clientWoken');

/** How a client policy's client wakes itself. */
export const clientWake = { turn: clientTurn, woken: clientWoken };
