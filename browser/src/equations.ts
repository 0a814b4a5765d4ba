/**
 * The normal equations of one person among published items.
 *
 * What their coordinates are believed to be beforehand, what each rating says of them, and the solution.
 */
import { lowerRoot, solveLower, solveUpper, type Square } from "./cholesky.ts";
import { LARGEST } from "./item-arrays.ts";
import type { ItemModel } from "./item-model.ts";
import { landmarksOf, MOST_LANDMARKS, type Landmarks } from "./likeness.ts";
import { addTo, dot, row, total } from "./rows.ts";

/** How many times more, in variance, a person's tastes may differ from others' than the provider believes. */
const SPREADS = [0.25, 0.5, 1, 2, 4];

/** The inverse-gamma prior of a scale that all variances of a person share. */
const SHAPE = 5;
const RATE = 5;

// Where a provider publishes no beliefs: the deviations of a rating around its score, and of ratings among each
// other, in widths of the scale; the offset, and all factors together, each explain this share of the latter.
const RESIDUAL_DEVIATION = 0.24;
const RATING_DEVIATION = 0.3;
const EXPLAINED_SHARE = 0.15;

interface Prior {
  /** The variance of ratings around scores. */
  readonly residual: number;
  /** The prior variances of all coordinates. */
  readonly variances: Float64Array;
}

/** The equations of a person, one system for every spread, each solved for any right side. */
export interface Equations {
  readonly landmarks: Landmarks | null;
  /** The rows of the rated items; what has no variance is zero there, so that it stays at zero. */
  readonly design: readonly Float64Array[];
  /** How much each rating counts. */
  readonly weights: Float64Array;
  /** Returns what a person's coordinates are multiplied by in an item's score: 1, traits, likeness, factors. */
  rowOf(item: number): Float64Array;
  /** Returns the coordinates, averaged over spreads, and what each spread weighs by its evidence. */
  solved(residuals: Float64Array): { coordinates: Float64Array; spreadWeights: number[] };
  /** Returns the solution for a right side, averaged over spreads by these weights. */
  solution(right: Float64Array, spreadWeights: readonly number[]): Float64Array;
}

/** One of the systems: its lower Cholesky factor, and the logarithm of its determinant over that of the prior. */
interface System {
  readonly root: Square;
  readonly logDeterminant: number;
}

/** Sets the equations of a person up who rated items with these indices, rising. */
export function equationsOf(model: ItemModel, rated: readonly number[]): Equations {
  const { beliefs, pattern, factors } = model;
  const landmarks = pattern && landmarksOf(pattern.directions, rated.slice(0, MOST_LANDMARKS));
  const rowOf = (item: number): Float64Array => {
    const taste = pattern && landmarks ? [...row(pattern.traits, item), ...landmarks.columns(item)] : [];
    return Float64Array.from([1, ...taste, ...row(factors, item)]);
  };
  const { residual, variances } = priorOf(model, Math.min(rated.length, MOST_LANDMARKS));
  const design = rated.map((item) => rowOf(item).map((part, at) => (variances[at] === 0 ? 0 : part)));
  const weights = Float64Array.from(rated, (item) => 1 / (residual + (beliefs?.itemOffsetVariances[item] ?? 0)));
  const gram = gramOf(design, weights, variances.length);
  const unsure = unsureOf(model, rated, weights, variances.length);
  const systems = (pattern ? SPREADS : [1]).map((spread) =>
    systemOf(gram, precisionsOf(variances, spread, factors.columns).map((part, at) => part + unsure[at]!)));
  const solution = (right: Float64Array, spreadWeights: readonly number[]): Float64Array =>
    mixed(solutions(systems, right), spreadWeights);
  const solved: Equations["solved"] = (residuals) => {
    const pull = new Float64Array(variances.length);
    const pulls = weights.map((weight, at) => weight * residuals[at]!);
    design.forEach((part, at) => addTo(pull, part, pulls[at]!));
    const spreadWeights = evidenceOf(systems, pull, dot(pulls, residuals), rated.length);
    return { coordinates: solution(pull, spreadWeights), spreadWeights };
  };
  return { landmarks, design, weights, rowOf, solved, solution };
}

function systemOf(gram: Square, precisions: Float64Array): System {
  const root = lowerRoot(gram, (at) => precisions[at]!);
  const diagonal = precisions.map((_, at) => root.data[at * (root.size + 1)]!);
  return { root, logDeterminant: 2 * total(diagonal.map(Math.log)) - total(precisions.map(Math.log)) };
}

function solutions(systems: readonly System[], right: Float64Array): Float64Array[] {
  return systems.map(({ root }) => solveUpper(root, solveLower(root, right)));
}

/** Returns how much ratings speak for each of the spreads, in sum 1. */
function evidenceOf(systems: readonly System[], pull: Float64Array, squares: number, ratings: number): number[] {
  const evidence = solutions(systems, pull).map((solution, at) => {
    const left = Math.max(squares - dot(solution, pull), 0);
    const belief = systems.length > 1 ? 0.5 * Math.log(SPREADS[at]!) ** 2 : 0;
    return -0.5 * systems[at]!.logDeterminant - (SHAPE + ratings / 2) * Math.log(RATE + left / 2) - belief;
  });
  const likely = evidence.map((part) => Math.exp(part - Math.max(...evidence)));
  const all = total(likely);
  return likely.map((part) => part / all);
}

/** Returns what the provider's doubt about the rated items' factors adds to precisions. */
function unsureOf({ beliefs }: ItemModel, rated: readonly number[], weights: Float64Array, size: number): Float64Array {
  const unsure = new Float64Array(size);
  if (beliefs) {
    const { itemFactorVariances: variances } = beliefs;
    const ownFactors = unsure.subarray(size - variances.columns);
    rated.forEach((item, at) => addTo(ownFactors, row(variances, item), weights[at]!));
  }
  return unsure;
}

function mixed(rows: readonly Float64Array[], weights: readonly number[]): Float64Array {
  const sum = new Float64Array(rows[0]!.length);
  rows.forEach((part, at) => addTo(sum, part, weights[at]!));
  return sum;
}

/** Returns the lower triangle of the weighted products of columns. */
function gramOf(design: readonly Float64Array[], weights: Float64Array, size: number): Square {
  const data = new Float64Array(size * size);
  design.forEach((part, at) => {
    for (let one = 0; one < size; one++) {
      addTo(data.subarray(one * size, one * size + one + 1), part, weights[at]! * part[one]!);
    }
  });
  return { size, data };
}

function priorOf(model: ItemModel, landmarks: number): Prior {
  const { beliefs, pattern } = model;
  if (!beliefs) return defaultPrior(model);
  const tastes = pattern ? [...pattern.traitVariances, ...Array<number>(landmarks).fill(pattern.embeddedVariance)] : [];
  const variances = Float64Array.from([beliefs.offsetVariance, ...tastes, ...beliefs.factorVariances]);
  return { residual: beliefs.residualVariance, variances };
}

/** Returns a prior for models that publish none. */
function defaultPrior({ scale, mean, offsets, factors }: ItemModel): Prior {
  const [low, high] = [Number(scale.low), Number(scale.high)];
  let explained = EXPLAINED_SHARE * (RATING_DEVIATION * (high - low)) ** 2;
  let offset = explained;
  if (mean === 0 && offsets.every((number) => number === 0)) {
    // The factors alone carry the level of the ratings, so a person's own offset would take it away from them.
    [offset, explained] = [0, Math.max(Math.abs(low), Math.abs(high)) ** 2];
  }
  const variances = Float64Array.from({ length: factors.columns + 1 }, (_, at) => {
    if (at === 0) return offset;
    // The median: without a ridge, factors of an item with one report can be huge.
    const squares = Float64Array.from(offsets, (_, item) => row(factors, item)[at - 1]! ** 2);
    // A factor that few items have says little, whatever its variance.
    return Math.min(explained / (factors.columns * medianOf(squares) || 1), LARGEST);
  });
  return { residual: (RESIDUAL_DEVIATION * (high - low)) ** 2, variances };
}

function medianOf(numbers: Float64Array): number {
  const sorted = numbers.sort();
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** Returns the prior precisions of all coordinates; a spread widens the tastes that the pattern tells only. */
function precisionsOf(variances: Float64Array, spread: number, rank: number): Float64Array {
  return variances.map((variance, at) => {
    const scaled = at >= 1 && at < variances.length - rank ? variance * spread : variance;
    return scaled > 0 ? 1 / scaled : 1;
  });
}
