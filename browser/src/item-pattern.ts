import { SMALLEST_VARIANCE, type Arrays } from "./item-arrays.ts";
import { addTo, dot, row, total, type Matrix } from "./rows.ts";

/** How many columns of traits come before the embedding. */
const POPULARITY_COLUMNS = 2;
/** An item's share is its number of reports to this power. */
const SHARE_POWER = -0.4;
/** Where the embedding speaks against an item, so much of what its popularity alone says is left. */
const LEAST_OF_POPULARITY = 0.01;
/** An embedded row shorter than this has no direction. */
const SHORTEST = 1e-30;

/** What it says of items who reported on them; which items were rated is not protected. */
export interface ItemPattern {
  readonly traits: Matrix;
  /** Prior variances of a person's weights on the traits. */
  readonly traitVariances: Float32Array;
  /** How an item's score responds to the person's place. */
  readonly responses: Matrix;
  /** Every item's row of the embedding, at length 1. */
  readonly directions: Matrix;
  /** How much a person's weights on the embedding are believed to move the score of the average report's item. */
  readonly embeddedVariance: number;
  /** Returns the place of a person who rated the items with these indices: nowhere in particular if none. */
  placeOf(rated: readonly number[]): Float64Array;
  /** Estimates for every item how likely a person who rated the items with these indices is to rate it. */
  chancesOf(rated: readonly number[]): Float64Array;
}

/** Reads the pattern of a model with so many items, traits and responses. */
export function readPattern(arrays: Arrays, items: number, columns: number, places: number): ItemPattern {
  const traits = arrays.matrix("traits", items, columns);
  const responses = arrays.matrix("responses", items, places);
  const shares = arrays.vector("shares", items, SMALLEST_VARIANCE);
  const traitVariances = arrays.small("person_trait_variances", columns, SMALLEST_VARIANCE);
  const placeScale = arrays.small("place_scale", places);
  const popularities = popularitiesOf(shares);
  const embedded = embeddingOf(traits);
  const variances = traitVariances.subarray(POPULARITY_COLUMNS);
  const sumOf = (rated: readonly number[]): Float64Array => {
    const sum = new Float64Array(embedded.columns);
    for (const item of rated) addTo(sum, row(embedded, item), shares[item]!);
    return sum;
  };
  return {
    traits,
    traitVariances,
    responses,
    directions: directionsOf(embedded),
    embeddedVariance: dot(columnSizes(embedded, popularities), variances),
    placeOf(rated) {
      const sum = sumOf(rated);
      const size = rated.length && rated.length ** -0.25;
      return Float64Array.from(placeScale, (scale, column) => scale * size * sum[column]!);
    },
    chancesOf(rated) {
      const sizes = columnSizes(embedded, new Float64Array(items).fill(1));
      const weights = sumOf(rated).map((part, column) => (sizes[column]! > 0 ? part / sizes[column]! : 0));
      return popularities.map((popularity, item) => {
        const alone = Math.max(rated.length, 1) * popularity;
        const chance = alone + dot(row(embedded, item), weights) / shares[item]!;
        return Math.min(Math.max(chance, LEAST_OF_POPULARITY * alone), 1);
      });
    },
  };
}

/** Returns every item's part of all reports. */
function popularitiesOf(shares: Float32Array): Float64Array {
  const reports = Float64Array.from(shares, (share) => share ** (1 / SHARE_POWER));
  const all = total(reports);
  return reports.map((count) => count / all);
}

function embeddingOf(traits: Matrix): Matrix {
  const embedded = emptyLike(traits, traits.columns - POPULARITY_COLUMNS);
  for (let item = 0; item < traits.rows; item++) row(embedded, item).set(row(traits, item, POPULARITY_COLUMNS));
  return embedded;
}

function directionsOf(embedded: Matrix): Matrix {
  const directions = emptyLike(embedded, embedded.columns);
  for (let item = 0; item < embedded.rows; item++) {
    const part = row(embedded, item);
    const length = Math.max(Math.sqrt(dot(part, part)), SHORTEST);
    row(directions, item).set(part.map((number) => number / length));
  }
  return directions;
}

/** Returns every column's sum of squares, weighted by item. */
function columnSizes(embedded: Matrix, weights: Float64Array): Float64Array {
  const sums = new Float64Array(embedded.columns);
  weights.forEach((weight, item) => addTo(sums, row(embedded, item).map((part) => part * part), weight));
  return sums;
}

function emptyLike({ rows }: Matrix, columns: number): Matrix {
  return { rows, columns, data: new Float32Array(rows * columns) };
}
