/** ns in a unit that ends a name. */
const unitNs = { Us: 1e3, Ms: 1e6, Seconds: 1e9, S: 1e9 } as const;
const unitNames = { Us: 'us', Ms: 'ms', Seconds: 's', S: 's' } as const;

/** Times of a run are whole ns in a number, exact up to 2^53; half of that leaves room for what follows a latest moment. */
export const longestNs = 2 ** 52;

/** A time of a scenario that simulated time cannot hold. */
export interface TimeProblem {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

/**
 * Times that simulated time cannot hold: beyond its end, or so short that they round to nothing. Names carry their unit, so every time of a scenario is found,
 * those that a later option brings, too. A policy's parameters are its own; constants of a latency model may be any.
 */
export function timeProblems(value: unknown, path: readonly PropertyKey[] = []): TimeProblem[] {
  if (typeof value === 'object' && value !== null) {
    return Object.entries(value).flatMap(([key, entry]) =>
      /^(parameters|.*Parameters|slopeSeconds|interceptSeconds)$/.test(key)
        ? []
        : timeProblems(entry, [...path, Array.isArray(value) ? Number(key) : key]),
    );
  }
  const unit = /(Us|Ms|Seconds|S)$/.exec(String(path.at(-1) ?? ''))?.[1] as keyof typeof unitNs | undefined;
  if (unit === undefined || typeof value !== 'number') return [];
  const ns = value * unitNs[unit];
  const name = unitNames[unit];
  if (ns > longestNs)
    return [
      { path, message: `is ${value} ${name}; at most ${Math.floor(longestNs / unitNs[unit])} ${name} (52 days): times are whole ns` },
    ];
  if (ns > 0 && ns < 1) return [{ path, message: `is ${value} ${name}, less than 1 ns; times are whole ns` }];
  return [];
}
