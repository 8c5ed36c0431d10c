/** How a transfer ended, as `transferEnded.status` says. */
export const transferStatus = { arrived: 0, unreachable: 1, cancelled: 2 } as const;

const TWO_32 = 4294967296;

/** Flow id of a requester's transfer: the same however busy the network is, so its path does not depend on what else runs. */
export function flowIdOf(requester: number, transfer: number): number {
  if (!(Number.isInteger(transfer) && transfer >= 0 && transfer < TWO_32)) {
    throw new Error(`transfer ${transfer} of actor ${requester}: its number must be whole, from 0 to 2^32 - 1`);
  }
  return requester * TWO_32 + transfer;
}

export function requesterOf(flowId: number): number {
  return Math.floor(flowId / TWO_32);
}

export function transferOf(flowId: number): number {
  return flowId % TWO_32;
}

/** What is wrong where nothing happens any more and these transfers have not ended. On-off traffic (negative ids) is none of them. */
export function transfersAtEnd(transfers: ReadonlyMap<number, unknown>): string[] {
  return [...transfers.keys()]
    .filter((flow) => flow >= 0)
    .map((flow) => `transfer ${transferOf(flow)} of actor ${requesterOf(flow)} is still under way at the end`);
}
