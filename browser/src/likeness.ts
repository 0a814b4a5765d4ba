/**
 * How alike items are by who rates them: whoever likes an item better than expected likes those most like it, too.
 *
 * Likeness is a covariance of tastes, written as columns for some of the person's own items.
 */
import { lowerRoot, solveLower, solveUpper } from "./cholesky.ts";
import { dot, row, type Matrix } from "./rows.ts";

/** Of a person with more ratings, those of the items with most reports speak of their neighbours. */
export const MOST_LANDMARKS = 256;

/** Added to each landmark's likeness to itself: items that the same people rated are one and the same here. */
const RIDGE = 1e-3;

/** Some of a person's items, of independent columns that have the likeness between items as their products. */
export interface Landmarks {
  /** Returns the columns of an item, one for each landmark. */
  columns(item: number): Float64Array;
  /** Returns what a person's weights on the columns give each landmark to multiply its likeness with. */
  pulls(weights: Float64Array): Float64Array;
  /** Returns by how much the score of an item is moved by landmarks that pull so much. */
  pulled(item: number, pulls: Float64Array): number;
}

/** Takes items as landmarks by their directions. */
export function landmarksOf(directions: Matrix, items: readonly number[]): Landmarks {
  const own = items.map((item) => row(directions, item));
  // The cosine to every landmark, moved to 0 to 1, to the power 8; products are much quicker than a power.
  const likeness = (item: number): Float64Array => {
    const direction = row(directions, item);
    const alike = new Float64Array(own.length);
    own.forEach((other, at) => {
      const moved = 0.5 + dot(direction, other) / 2;
      const fourth = moved * moved * moved * moved;
      alike[at] = fourth * fourth;
    });
    return alike;
  };
  const data = Float64Array.from(items.flatMap((item) => [...likeness(item)]));
  const root = lowerRoot({ size: items.length, data }, () => RIDGE);
  return {
    columns: (item) => solveLower(root, likeness(item)),
    pulls: (weights) => solveUpper(root, weights),
    pulled: (item, pulls) => dot(likeness(item), pulls),
  };
}
