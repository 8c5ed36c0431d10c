/** A mathematical input that has no meaning: the message names the object, the value, the limit and the fix. */
export class GameInputError extends RangeError {
  override readonly name = 'GameInputError';
}

/** @throws GameInputError unless `value` is a finite number of at least `minimum`. */
export function requireAtLeast(name: string, value: number, minimum: number): void {
  if (!(Number.isFinite(value) && value >= minimum)) {
    throw new GameInputError(`${name} is ${value}; it must be a finite number of at least ${minimum}`);
  }
}

/** @throws GameInputError unless `value` is a finite number above `bound`. */
export function requireAbove(name: string, value: number, bound: number): void {
  if (!(Number.isFinite(value) && value > bound)) {
    throw new GameInputError(`${name} is ${value}; it must be a finite number above ${bound}`);
  }
}

/** @throws GameInputError unless `value` is an integer in [minimum, maximum]. */
export function requireInteger(name: string, value: number, minimum: number, maximum: number = Number.MAX_SAFE_INTEGER): void {
  if (!(Number.isInteger(value) && value >= minimum && value <= maximum)) {
    throw new GameInputError(`${name} is ${value}; it must be an integer from ${minimum} to ${maximum}`);
  }
}

/** @throws GameInputError unless `value` lies in [minimum, maximum]. */
export function requireWithin(name: string, value: number, minimum: number, maximum: number): void {
  if (!(value >= minimum && value <= maximum)) {
    throw new GameInputError(`${name} is ${value}; it must lie between ${minimum} and ${maximum}`);
  }
}

/** @throws GameInputError unless an array has the length that the rest of the input implies. */
export function requireLength(name: string, actual: number, expected: number, because: string): void {
  if (actual !== expected) {
    throw new GameInputError(`${name} has ${actual} entries but ${because} needs ${expected}; pass one value for each`);
  }
}
