import { record } from '@braess/kernel';
import { outcome } from '@braess/protocol';

/** What has become of a client's requests. Always submitted = completed + rejected + failed + cancelled + timedOut + in flight. */
export interface ClientCounts {
  /** Requests that have come, also those that still wait for a permit or a connection. Attempts do not count. */
  submitted: number;
  completed: number;
  rejected: number;
  failed: number;
  cancelled: number;
  /** Given up by the client, or by the frontend at the client's deadline. */
  timedOut: number;
}

/**
 * Client -> telemetry, at the end of a request of a client with features: attempts made, when it came, the wait for a permit and a connection
 * before it was first sent (-1: never sent), the outcome as the client saw it, and whether the client itself refused it (1), having no place for one more that waits.
 */
export const clientRequest = record('clientRequest', ['request', 'attempts', 'cameNs', 'clientWaitNs', 'outcome', 'refused']);

/** Client -> telemetry, where the run is cut: a request that has come and not ended, wherever it is. */
export const clientInFlight = record('clientInFlight', ['request', 'attempts', 'cameNs']);

export function createCounts(): ClientCounts {
  return { submitted: 0, completed: 0, rejected: 0, failed: 0, cancelled: 0, timedOut: 0 };
}

export function inFlightRequests(counts: ClientCounts): number {
  return counts.submitted - counts.completed - counts.rejected - counts.failed - counts.cancelled - counts.timedOut;
}

/** Counts how a request ended, by the codes of the protocol's `outcome`. Throws on an unknown code. */
export function countOutcome(counts: ClientCounts, code: number): void {
  if (code === outcome.completed) counts.completed++;
  else if (code === outcome.rejected) counts.rejected++;
  else if (code === outcome.failed) counts.failed++;
  else if (code === outcome.cancelled) counts.cancelled++;
  else if (code === outcome.timedOut) counts.timedOut++;
  else throw new RangeError(`a request was settled with outcome ${code}; it must be one of 0..4 (the protocol's outcome)`);
}
