/**
 * Fair queueing by tokens over tenants: self-clocked fair queueing (S. J. Golestani, "A self-clocked fair queueing scheme for broadband applications",
 * INFOCOM 1994) with the tokens to compute as length. A request's tag is max(tag of the request in service, last tag of its tenant) + its tokens, and the
 * lowest tag goes first: over any busy time tenants that always have something waiting get equal tokens. Plain data.
 */
export interface FairOrder {
  /** Tag of the request dispatched last. */
  served: number;
  /** Last tag by tenant. */
  readonly finish: Map<number, number>;
}

export const createFairOrder = (): FairOrder => ({ served: 0, finish: new Map() });

/** The tag of a request that comes. */
export function fairTag(order: FairOrder, tenant: number, tokens: number): number {
  const tag = Math.max(order.served, order.finish.get(tenant) ?? 0) + tokens;
  order.finish.set(tenant, tag);
  return tag;
}

/** A request goes to its engine. */
export function noteServed(order: FairOrder, tag: number): void {
  if (tag > order.served) order.served = tag;
}
