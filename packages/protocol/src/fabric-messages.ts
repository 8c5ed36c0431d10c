import { message } from '@braess/kernel';

/**
 * engine, tier -> fabric: move bytes between two endpoints (node ids of the topology). The requester names the transfer with a number of its
 * own, unique among its transfers under way. `weight` shares a bottleneck (1 is normal).
 */
export const startTransfer = message('startTransfer', ['transfer', 'source', 'destination', 'transferBytes', 'weight']);

/** requester -> fabric: give up a transfer under way. */
export const cancelTransfer = message('cancelTransfer', ['transfer']);

/** fabric -> requester: the last byte arrived at `endNs`. `status` 0 arrived, 1 unreachable, 2 cancelled. `networkTier` as the topology counts it. */
export const transferEnded = message('transferEnded', ['transfer', 'status', 'startNs', 'movedBytes', 'networkTier', 'endNs']);

/** fabric -> switch or NIC actor -> telemetry listeners: utilisation of a link since the last report, 0..1, and bytes. */
export const linkReport = message('linkReport', ['link', 'utilisation', 'transferBytes', 'flows', 'marks', 'pausedNs']);
