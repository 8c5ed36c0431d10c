/**
 * Price of anarchy of a placement of requests on equal engines whose latency grows linearly with their requests, l(n) = a n: total latency, a sum of
 * squares, over that of the best placement of as many requests. Exact under these assumptions and at least 1, whatever a is. NaN in `requests` stands
 * for engines that do not decode; NaN is returned when there are no requests.
 */
export function placementPoa(requests: Float64Array): number {
  let engines = 0;
  let total = 0;
  let squares = 0;
  for (let engine = 0; engine < requests.length; engine++) {
    const count = requests[engine]!;
    if (Number.isNaN(count)) continue;
    engines++;
    total += count;
    squares += count * count;
  }
  if (total === 0 || engines === 0) return Number.NaN;
  const least = Math.floor(total / engines);
  const more = total - least * engines;
  return squares / (more * (least + 1) * (least + 1) + (engines - more) * least * least);
}
