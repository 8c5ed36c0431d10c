import type { Random, ReadonlyColumn } from '../policy/policy.js';
import type { RouterView } from '../policy/router-policy.js';

/**
 * The candidate with the lowest score; among equals each is as likely. Draws only when there is a tie. Scores that stand in a column of the
 * engines are given as `column`, and copied as they are read. @throws RangeError for a NaN score.
 */
export function lowestScore(view: RouterView, random: Random, column: ReadonlyColumn = view.scores): number {
  if (lowest.length < view.count) lowest = new Int32Array(2 * view.count);
  const ties = column === view.scores ? listLowest(view, lowest) : copyLowest(view, column, lowest);
  return lowest[ties === 1 ? 0 : Math.floor(random() * ties)]!;
}

// Filled and read within one choice; never state.
let lowest = new Int32Array(256);

/**
 * Lists the candidates with the lowest score in order; returns how many. Scores that a policy computed are rarely equal. No code stands behind the loop: V8,
 * compiling in the middle of the first call, would take it for never reached, and throw the code away there.
 */
function listLowest(view: RouterView, list: Int32Array): number {
  const { candidates, count, scores } = view;
  let low = Number.POSITIVE_INFINITY;
  let ties = 0;
  for (let place = 0; place < count; place++) {
    const engine = candidates[place]!;
    const score = scores[engine]!;
    if (score > low) continue;
    if (score < low) {
      low = score;
      list[0] = engine;
      ties = 1;
    } else if (score === low) list[ties++] = engine;
    else throw scoreFault(view, engine);
  }
  return ties;
}

/** The same of a column, which is copied. Loads are often equal: no branch depends on ties, which nothing could predict, among thousands most of a run. */
function copyLowest(view: RouterView, column: ReadonlyColumn, list: Int32Array): number {
  const { candidates, count, scores } = view;
  let low = Number.POSITIVE_INFINITY;
  let ties = 0;
  for (let place = 0; place < count; place++) {
    const engine = candidates[place]!;
    const score = column[engine]!;
    scores[engine] = score;
    if (!(score >= low)) {
      if (Number.isNaN(score)) throw scoreFault(view, engine);
      low = score;
      ties = 0;
    }
    list[ties] = engine;
    ties += Number(score === low);
  }
  return ties;
}

export function scoreFault(view: RouterView, engine: number): RangeError {
  return new RangeError(`the score of engine ${engine} (${view.engines.names[engine]}) is ${view.scores[engine]}; it must be a number`);
}

/**
 * Draws a candidate with probability proportional to exp(-x / temperature), x the score scaled to 0 (lowest) .. 1 (highest), as Dynamo's KV
 * router samples. Equal scores are equally likely. One draw, none with a single candidate.
 */
export function softmaxScore(view: RouterView, temperature: number, random: Random): number {
  const { candidates, count, scores } = view;
  if (count === 1) return candidates[0]!;
  let low = Number.POSITIVE_INFINITY;
  let high = Number.NEGATIVE_INFINITY;
  for (let place = 0; place < count; place++) {
    const score = scores[candidates[place]!]!;
    if (score < low) low = score;
    if (score > high) high = score;
  }
  if (high === low) return candidates[Math.floor(random() * count)]!;
  const scale = -1 / ((high - low) * temperature);
  let sum = 0;
  for (let place = 0; place < count; place++) sum += Math.exp((scores[candidates[place]!]! - low) * scale);
  let left = random() * sum;
  for (let place = 0; place < count - 1; place++) {
    const engine = candidates[place]!;
    left -= Math.exp((scores[engine]! - low) * scale);
    if (left < 0) return engine;
  }
  return candidates[count - 1]!;
}
