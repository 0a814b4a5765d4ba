/** A person's own coordinates among published items, solved on the device from true ratings, which stay there. */
import { equationsOf } from "./equations.ts";
import { LARGEST } from "./item-arrays.ts";
import type { ItemModel } from "./item-model.ts";
import { damaged } from "./item-wire.ts";
import { dot, row } from "./rows.ts";

/** A person among the items of one model; to be kept as secret as the ratings it follows from. */
export interface Person {
  /** Returns the score of an item; it may lie beyond the scale. */
  scoreOf(item: number): number;
  /** Returns by how much every rating of the person moves the score of one item, in the order they were given in. */
  effectsOn(item: number): number[];
}

/** Solves the coordinates of who rated the items with these indices, rising. */
export function fitPerson(model: ItemModel, rated: readonly number[], ratings: readonly number[]): Person {
  const { mean, offsets, factors, pattern } = model;
  const place = pattern ? pattern.placeOf(rated) : new Float64Array();
  // The score for a person of whom nothing but their place is known.
  const expected = (item: number): number =>
    mean + offsets[item]! + (pattern ? dot(row(pattern.responses, item), place) : 0);
  const residuals = Float64Array.from(rated, (item, at) => ratings[at]! - expected(item));
  const { design, weights, landmarks, rowOf, solved, solution } = equationsOf(model, rated);
  const { coordinates, spreadWeights } = solved(residuals);
  if (![...coordinates, ...place].every((part) => Math.abs(part) <= LARGEST)) throw damaged("place for a person");
  const [ownTraits, ownFactors] = [1 + (pattern?.traits.columns ?? 0), coordinates.length - factors.columns];
  const traitWeights = coordinates.slice(1, ownTraits);
  const pulls = landmarks?.pulls(coordinates.slice(ownTraits, ownFactors));
  const own = coordinates.slice(ownFactors);
  return {
    scoreOf(item) {
      const score = expected(item) + coordinates[0]! + dot(row(factors, item), own);
      return pattern && landmarks && pulls
        ? score + dot(row(pattern.traits, item), traitWeights) + landmarks.pulled(item, pulls) : score;
    },
    effectsOn(item) {
      const answer = solution(rowOf(item), spreadWeights);
      return design.map((part, at) => dot(part, answer) * weights[at]! * residuals[at]!);
    },
  };
}
