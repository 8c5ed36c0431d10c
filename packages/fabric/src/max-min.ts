/** A link as the reference solver sees it. */
export interface LinkCapacity {
  bytesPerSecond: number;
  /** Constant share of the capacity taken by background traffic, 0..1. */
  backgroundShare?: number;
}

/** A flow as the reference solver sees it. `path` lists indexes into the links; each at most once. */
export interface FlowDemand {
  path: readonly number[];
  weight?: number;
  /** Rate the flow never exceeds (its source's or sink's own limit). */
  capBytesPerSecond?: number;
}

/**
 * Exact weighted max-min fair rates, bytes per second, by progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2):
 * the level of all unfixed flows (rate / weight) rises together until a link is full or a flow reaches its cap; these are
 * fixed, the rest goes on. Slow and plain on purpose: it is what the incremental allocator is checked against.
 * A flow without links and without cap gets Infinity.
 */
export function maxMinRates(links: readonly LinkCapacity[], flows: readonly FlowDemand[]): Float64Array {
  const rates = new Float64Array(flows.length).fill(Number.NaN);
  const free = links.map((link) => link.bytesPerSecond * (1 - (link.backgroundShare ?? 0)));
  let unfixed = flows.map((_flow, index) => index);
  while (unfixed.length > 0) {
    const weightOnLink = new Float64Array(links.length);
    for (const flow of unfixed) for (const link of flows[flow]!.path) weightOnLink[link]! += flows[flow]!.weight ?? 1;
    let level = Number.POSITIVE_INFINITY;
    links.forEach((_link, index) => {
      if (weightOnLink[index]! > 0) level = Math.min(level, Math.max(0, free[index]!) / weightOnLink[index]!);
    });
    for (const flow of unfixed) level = Math.min(level, capLevel(flows[flow]!));
    // Everything that stops at this level, within rounding, stops now.
    const stop = level * (1 + 1e-12);
    const full = links.map((_link, index) => weightOnLink[index]! > 0 && Math.max(0, free[index]!) / weightOnLink[index]! <= stop);
    const fixed = unfixed.filter((flow) => capLevel(flows[flow]!) <= stop || level === Infinity || flows[flow]!.path.some((l) => full[l]));
    for (const flow of fixed) {
      rates[flow] = level * (flows[flow]!.weight ?? 1);
      for (const link of flows[flow]!.path) free[link]! -= rates[flow]!;
    }
    unfixed = unfixed.filter((flow) => Number.isNaN(rates[flow]!));
  }
  return rates;
}

function capLevel(flow: FlowDemand): number {
  return (flow.capBytesPerSecond ?? Number.POSITIVE_INFINITY) / (flow.weight ?? 1);
}
