import { GameInputError, requireAbove, requireAtLeast, requireInteger } from './input-check.js';

/**
 * Game 1: prefill (P) and decode (D) each choose a number of GPUs under the shared constraint G_P + G_D <= G: a generalized Nash
 * equilibrium problem (GNEP), because each player's feasible set depends on the other's choice.
 * Payoffs are in one common unit (for example requests per second within their SLO); marginals are per GPU.
 * U_P must be concave in G_P, U_D concave in G_D and increasing in G_P (the externality: prompts that are ready keep decode busy).
 */
export interface ResourceGame {
  /** G. */
  readonly totalGpus: number;
  readonly minimumPrefillGpus: number;
  readonly minimumDecodeGpus: number;
  /** U_P(G_P, G_D) and U_D(G_P, G_D). */
  prefillPayoff(prefillGpus: number, decodeGpus: number): number;
  decodePayoff(prefillGpus: number, decodeGpus: number): number;
  /** dU_P/dG_P: what prefill sees. */
  prefillMarginal(prefillGpus: number, decodeGpus: number): number;
  /** dU_D/dG_D: what decode sees. */
  decodeMarginal(prefillGpus: number, decodeGpus: number): number;
  /** dU_D/dG_P: what prefill does not see. */
  externality(prefillGpus: number, decodeGpus: number): number;
}

/** A split of the GPUs, real-valued. */
export interface ResourceSplit {
  readonly prefillGpus: number;
  readonly decodeGpus: number;
  /** Price of the shared constraint: the common marginal payoff per GPU; 0 when GPUs are left over. */
  readonly pricePerGpu: number;
  readonly constraintActive: boolean;
  /** U_P + U_D here. */
  readonly welfare: number;
}

/** U_P = p ln G_P, U_D = d ln G_D + e ln G_P. Equilibrium share of prefill p / (p + d); social share (p + e) / (p + d + e). */
export function logarithmicResourceGame(parameters: {
  readonly totalGpus: number;
  readonly prefillWeight: number;
  readonly decodeWeight: number;
  readonly externalityWeight?: number;
}): ResourceGame {
  const { totalGpus, prefillWeight, decodeWeight, externalityWeight = 0 } = parameters;
  requireAbove('prefillWeight', prefillWeight, 0);
  requireAbove('decodeWeight', decodeWeight, 0);
  requireAtLeast('externalityWeight', externalityWeight, 0);
  return {
    totalGpus,
    minimumPrefillGpus: 0,
    minimumDecodeGpus: 0,
    prefillPayoff: (prefill) => prefillWeight * Math.log(prefill),
    decodePayoff: (prefill, decode) =>
      decodeWeight * Math.log(decode) + (externalityWeight === 0 ? 0 : externalityWeight * Math.log(prefill)),
    prefillMarginal: (prefill) => prefillWeight / prefill,
    decodeMarginal: (_, decode) => decodeWeight / decode,
    externality: (prefill) => externalityWeight / prefill,
  };
}

/** Builds a game from payoffs alone; marginals are central differences over `stepGpus` (default 1e-4 GPU, error of order step squared). */
export function resourceGameFromPayoffs(
  payoffs: Pick<ResourceGame, 'totalGpus' | 'minimumPrefillGpus' | 'minimumDecodeGpus' | 'prefillPayoff' | 'decodePayoff'>,
  stepGpus = 1e-4,
): ResourceGame {
  const inPrefill = (payoff: (p: number, d: number) => number) => (prefill: number, decode: number) => {
    const low = Math.max(0, prefill - stepGpus);
    return (payoff(prefill + stepGpus, decode) - payoff(low, decode)) / (prefill + stepGpus - low);
  };
  return {
    ...payoffs,
    prefillMarginal: inPrefill((p, d) => payoffs.prefillPayoff(p, d)),
    externality: inPrefill((p, d) => payoffs.decodePayoff(p, d)),
    decodeMarginal: (prefill, decode) => {
      const low = Math.max(0, decode - stepGpus);
      return (payoffs.decodePayoff(prefill, decode + stepGpus) - payoffs.decodePayoff(prefill, low)) / (decode + stepGpus - low);
    },
  };
}

/**
 * The variational equilibrium: the GNEP solution at which both players put the same price on the shared constraint,
 * dU_P/dG_P = dU_D/dG_D (F. Facchinei, C. Kanzow, "Generalized Nash equilibrium problems", 4OR 5, 2007, section 3).
 * At a corner (a player at its minimum) the price is the marginal of the other. If that price is negative, GPUs stay unused and each
 * player stops where its own marginal is 0.
 */
export function variationalEquilibrium(game: ResourceGame): ResourceSplit {
  return solveSplit(game, game.prefillMarginal, game.decodeMarginal);
}

/** The split of greatest U_P + U_D: dU_P/dG_P + dU_D/dG_P = dU_D/dG_D. With a positive externality prefill gets more. */
export function socialSplit(game: ResourceGame): ResourceSplit {
  return solveSplit(game, (p, d) => game.prefillMarginal(p, d) + game.externality(p, d), game.decodeMarginal);
}

/**
 * All generalized equilibria with the budget used up: the interval of G_P on which both marginals are at least 0 (each would take
 * more if the other left any). A GNEP has a continuum of them; the variational equilibrium is one. Undefined when there is none.
 */
export function generalizedEquilibria(game: ResourceGame): { readonly lowestPrefill: number; readonly highestPrefill: number } | undefined {
  const [low, high] = prefillRange(game);
  // Along G_P + G_D = G, prefill's marginal falls and decode's rises with G_P.
  const highestPrefill = fallingRoot((p) => game.prefillMarginal(p, game.totalGpus - p), low, high);
  const lowestPrefill = fallingRoot((p) => -game.decodeMarginal(p, game.totalGpus - p), low, high);
  return lowestPrefill <= highestPrefill ? { lowestPrefill, highestPrefill } : undefined;
}

/** U(social) / U(equilibrium); NaN unless both welfares are positive (a ratio of utilities has no meaning across 0). */
export function resourcePriceOfAnarchy(game: ResourceGame): number {
  const equilibrium = variationalEquilibrium(game).welfare;
  const social = socialSplit(game).welfare;
  return equilibrium > 0 && social > 0 ? social / equilibrium : Number.NaN;
}

/** Result of the check of Rosen's condition on a grid. */
export interface UniquenessCheck {
  /** True when the condition held at every grid point: then the variational equilibrium is unique (up to what happens between points). */
  readonly holds: boolean;
  /** Largest eigenvalue of J + J^T met; the condition is that it is negative. Payoff per GPU squared. */
  readonly largestEigenvalue: number;
  readonly atPrefillGpus: number;
  readonly atDecodeGpus: number;
}

/**
 * Diagonal strict concavity (J. B. Rosen, Econometrica 33, 1965, theorem 4): J + J^T negative definite, J the Jacobian of
 * (dU_P/dG_P, dU_D/dG_D). Sufficient, not necessary; checked on an n x n grid of feasible interior splits by finite differences, so it
 * is evidence, not proof, between the points.
 */
export function checkUniqueness(game: ResourceGame, gridPoints = 16): UniquenessCheck {
  requireInteger('gridPoints', gridPoints, 1, 1000);
  const [low] = prefillRange(game);
  const room = game.totalGpus - game.minimumPrefillGpus - game.minimumDecodeGpus;
  let worst: UniquenessCheck = { holds: true, largestEigenvalue: Number.NEGATIVE_INFINITY, atPrefillGpus: 0, atDecodeGpus: 0 };
  for (let row = 1; row <= gridPoints; row++) {
    for (let column = 1; column <= gridPoints; column++) {
      const prefill = low + (room * row) / (gridPoints + 1);
      const decode = game.minimumDecodeGpus + ((room - (prefill - low)) * column) / gridPoints;
      const eigenvalue = largestEigenvalue(game, prefill, decode, (room / (gridPoints + 1)) * 1e-3);
      if (eigenvalue > worst.largestEigenvalue || Number.isNaN(eigenvalue)) {
        worst = { holds: eigenvalue < 0, largestEigenvalue: eigenvalue, atPrefillGpus: prefill, atDecodeGpus: decode };
      }
    }
  }
  return worst;
}

/** Splits in whole units of GPUs (for example one tensor-parallel group), the budget used up. */
export interface WholeSplit {
  readonly prefillGpus: number;
  readonly decodeGpus: number;
  readonly welfare: number;
}

/**
 * Integer counterparts, by enumeration of all splits in units of `unitGpus`:
 * `social` has the greatest U_P + U_D (fewest prefill GPUs among equals);
 * `equilibrium` moves a unit to prefill while prefill gains from it at least what decode loses by giving it up, each counting its own.
 */
export function wholeGpuSplits(game: ResourceGame, unitGpus = 1): { readonly equilibrium: WholeSplit; readonly social: WholeSplit } {
  requireAbove('unitGpus', unitGpus, 0);
  const first = Math.ceil(game.minimumPrefillGpus / unitGpus) * unitGpus;
  const last = game.totalGpus - Math.ceil(game.minimumDecodeGpus / unitGpus) * unitGpus;
  if (first > last) throw new GameInputError(`no split of ${game.totalGpus} GPUs in units of ${unitGpus} meets both minima; lower one`);
  const at = (prefill: number): WholeSplit => ({
    prefillGpus: prefill,
    decodeGpus: game.totalGpus - prefill,
    welfare: game.prefillPayoff(prefill, game.totalGpus - prefill) + game.decodePayoff(prefill, game.totalGpus - prefill),
  });
  let equilibrium = first;
  while (equilibrium + unitGpus <= last && prefillWins(game, equilibrium, unitGpus)) equilibrium += unitGpus;
  let social = at(first);
  for (let prefill = first + unitGpus; prefill <= last; prefill += unitGpus) {
    const split = at(prefill);
    if (split.welfare > social.welfare) social = split;
  }
  return { equilibrium: at(equilibrium), social };
}

function prefillWins(game: ResourceGame, prefill: number, unit: number): boolean {
  const decode = game.totalGpus - prefill;
  const gain = game.prefillPayoff(prefill + unit, decode - unit) - game.prefillPayoff(prefill, decode - unit);
  // Decode's own loss at unchanged prefill: the externality is what it does not see coming.
  const loss = game.decodePayoff(prefill, decode) - game.decodePayoff(prefill, decode - unit);
  return gain >= loss;
}

type Marginal = (prefillGpus: number, decodeGpus: number) => number;

function solveSplit(game: ResourceGame, prefillMarginal: Marginal, decodeMarginal: Marginal): ResourceSplit {
  const [low, high] = prefillRange(game);
  const total = game.totalGpus;
  const prefill = fallingRoot((p) => prefillMarginal(p, total - p) - decodeMarginal(p, total - p), low, high);
  const price = Math.max(prefillMarginal(prefill, total - prefill), decodeMarginal(prefill, total - prefill));
  const interior = prefill > low && prefill < high;
  const shared = interior ? prefillMarginal(prefill, total - prefill) : price;
  if (shared >= 0) return describe(game, prefill, total - prefill, shared, true);
  return unconstrainedSplit(game, prefillMarginal, decodeMarginal, high);
}

/** Both marginals zero, players in turn; the payoffs couple weakly, so a few rounds suffice (limit 1,000). */
function unconstrainedSplit(game: ResourceGame, prefillMarginal: Marginal, decodeMarginal: Marginal, highest: number): ResourceSplit {
  const decodeHighest = game.totalGpus - game.minimumPrefillGpus;
  let prefill = game.minimumPrefillGpus;
  let decode = game.minimumDecodeGpus;
  for (let round = 0; round < 1000; round++) {
    const before = prefill;
    const fixedDecode = decode;
    prefill = fallingRoot((p) => prefillMarginal(p, fixedDecode), game.minimumPrefillGpus, highest);
    const fixedPrefill = prefill;
    decode = fallingRoot((d) => decodeMarginal(fixedPrefill, d), game.minimumDecodeGpus, decodeHighest);
    if (round > 0 && Math.abs(prefill - before) <= 1e-12 * game.totalGpus) break;
  }
  return describe(game, prefill, decode, 0, false);
}

function describe(
  game: ResourceGame,
  prefillGpus: number,
  decodeGpus: number,
  pricePerGpu: number,
  constraintActive: boolean,
): ResourceSplit {
  const welfare = game.prefillPayoff(prefillGpus, decodeGpus) + game.decodePayoff(prefillGpus, decodeGpus);
  return { prefillGpus, decodeGpus, pricePerGpu, constraintActive, welfare };
}

function prefillRange(game: ResourceGame): [number, number] {
  requireAbove('totalGpus', game.totalGpus, 0);
  requireAtLeast('minimumPrefillGpus', game.minimumPrefillGpus, 0);
  requireAtLeast('minimumDecodeGpus', game.minimumDecodeGpus, 0);
  const high = game.totalGpus - game.minimumDecodeGpus;
  if (high < game.minimumPrefillGpus) {
    throw new GameInputError(
      `minima ${game.minimumPrefillGpus} + ${game.minimumDecodeGpus} exceed totalGpus ${game.totalGpus}; raise totalGpus or lower a minimum`,
    );
  }
  return [game.minimumPrefillGpus, high];
}

/** Where a falling function crosses 0 in [low, high]; an end when it does not. Infinite values at the ends are fine. */
function fallingRoot(value: (x: number) => number, low: number, high: number): number {
  if (value(low) <= 0) return low;
  if (value(high) >= 0) return high;
  let left = low;
  let right = high;
  // 100 halvings reach the last bit of any double interval in use.
  for (let step = 0; step < 100 && left < right; step++) {
    const middle = (left + right) / 2;
    if (value(middle) > 0) left = middle;
    else right = middle;
  }
  return (left + right) / 2;
}

function largestEigenvalue(game: ResourceGame, prefill: number, decode: number, step: number): number {
  const slope = (marginal: Marginal, dp: number, dd: number) =>
    (marginal(prefill + dp, decode + dd) - marginal(prefill - dp, decode - dd)) / (2 * step);
  const a = 2 * slope(game.prefillMarginal, step, 0);
  const c = 2 * slope(game.decodeMarginal, 0, step);
  const b = slope(game.prefillMarginal, 0, step) + slope(game.decodeMarginal, step, 0);
  return (a + c) / 2 + Math.sqrt(((a - c) / 2) * ((a - c) / 2) + b * b);
}
