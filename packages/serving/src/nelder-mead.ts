/** A point and its value. */
export interface Minimum {
  point: number[];
  value: number;
}

/** Downhill simplex (Nelder, Mead 1965) with the usual coefficients; stops after `iterations` steps. Deterministic. */
export function nelderMead(
  f: (point: readonly number[]) => number,
  start: readonly number[],
  steps: readonly number[],
  iterations: number,
): Minimum {
  const size = start.length;
  let simplex = [evaluated(f, [...start])];
  for (let i = 0; i < size; i++) {
    const point = [...start];
    point[i] = point[i]! + steps[i]!;
    simplex.push(evaluated(f, point));
  }
  for (let iteration = 0; iteration < iterations; iteration++) {
    simplex.sort((a, b) => a.value - b.value);
    const worst = simplex[size]!;
    const centre = start.map((_, j) => simplex.slice(0, size).reduce((sum, corner) => sum + corner.point[j]!, 0) / size);
    const at = (factor: number): Minimum =>
      evaluated(
        f,
        centre.map((c, j) => c + factor * (c - worst.point[j]!)),
      );
    const reflected = at(1);
    if (reflected.value < simplex[0]!.value) {
      const expanded = at(2);
      simplex[size] = expanded.value < reflected.value ? expanded : reflected;
    } else if (reflected.value < simplex[size - 1]!.value) {
      simplex[size] = reflected;
    } else {
      const contracted = at(reflected.value < worst.value ? 0.5 : -0.5);
      if (contracted.value < Math.min(reflected.value, worst.value)) simplex[size] = contracted;
      else simplex = simplex.map((corner) => (corner === simplex[0] ? corner : shrunk(f, simplex[0]!.point, corner.point)));
    }
  }
  return simplex.reduce((best, corner) => (corner.value < best.value ? corner : best));
}

function evaluated(f: (point: readonly number[]) => number, point: number[]): Minimum {
  return { point, value: f(point) };
}

function shrunk(f: (point: readonly number[]) => number, best: readonly number[], point: readonly number[]): Minimum {
  return evaluated(
    f,
    point.map((value, j) => best[j]! + (value - best[j]!) / 2),
  );
}
