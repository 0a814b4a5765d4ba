/** Personal ranking: published items in the order of one person's own true ratings; nothing leaves the device. */
import { ModelError } from "./errors.ts";
import type { ItemModel } from "./item-model.ts";
import { fitPerson, type Person } from "./person.ts";
import { checkItem } from "./report.ts";

/** An item of a list. */
export interface Suggestion {
  readonly item: string;
  /**
   * What the list is ordered by, on the scale: the rating to expect if an item left unrated counts as the lowest, or
   * the predicted rating where that was asked for or no pattern is known.
   */
  readonly score: number;
  /** Its place in the list, from 1 on. */
  readonly rank: number;
  /** The rating predicted for it, on the scale, if the person gets to rate it. */
  readonly rating: number;
}

/** One of the person's own ratings, and by how much it moves the predicted rating of another item. */
export interface Reason {
  readonly item: string;
  readonly rating: number;
  readonly effect: number;
}

export interface ListOptions {
  /** Whether to order by predicted rating alone. */
  byRating?: boolean;
  /** Whether to leave out what the person rated; it is left out unless told otherwise. */
  excludeRated?: boolean;
}

/** All items of an item model as one person would rate them; made by `rankItems`. */
export class PersonalRanking {
  readonly #model: ItemModel;
  readonly #rated: readonly number[];
  readonly #ratings: readonly number[];
  readonly #person: Person;
  readonly #scores: Float64Array;

  /**
   * @param rated The indices of the rated items, rising.
   * @param unknown How many of the person's ratings are of items that the model does not know.
   */
  constructor(model: ItemModel, rated: readonly number[], ratings: readonly number[], readonly unknown: number) {
    this.#model = model;
    this.#rated = rated;
    this.#ratings = ratings;
    this.#person = fitPerson(model, rated, ratings);
    this.#scores = Float64Array.from(model.items, (_, item) => this.#person.scoreOf(item));
  }

  /** Whether there was nothing to go by: the order is then that of everybody's ratings. */
  get fallback(): boolean {
    return this.#rated.length === 0;
  }

  /** Returns the predicted ratings of all items, on the scale. */
  predictions(): Float64Array {
    const { low, high } = this.#model.scale;
    return this.#scores.map((score) => Math.min(Math.max(score, Number(low)), Number(high)));
  }

  /**
   * Finds the n best items; there may be fewer.
   *
   * A list is for choosing from, so that what the person is unlikely ever to rate has no place at its top, however
   * high the prediction; `byRating` orders by prediction alone.
   */
  recommend(n = 10, { byRating = false, excludeRated = true }: ListOptions = {}): Suggestion[] {
    if (!(n >= 1)) throw new ModelError(`a list of ${n} items is empty; ask for 1 at least`);
    const predicted = this.predictions();
    const listed = byRating ? predicted : this.#listScores(predicted);
    const left = new Set(excludeRated ? this.#rated : []);
    const best = [...predicted.keys()].filter((at) => !left.has(at)).sort(
      (one, other) => listed[other]! - listed[one]! || this.#scores[other]! - this.#scores[one]! || one - other,
    );
    return best.slice(0, n).map((at, place) => ({
      item: this.#model.items[at]!, score: listed[at]!, rank: place + 1, rating: predicted[at]!,
    }));
  }

  /** Finds the n own ratings that move an item's score most, in order of how much. */
  explain(item: string, n = 3): Reason[] {
    const index = this.#model.indexOf(item);
    if (index === undefined) throw new ModelError("an item is unknown; give one of the model's");
    const reasons = this.#person.effectsOn(index).map((effect, at) => ({
      item: this.#model.items[this.#rated[at]!]!, rating: this.#ratings[at]!, effect,
    }));
    return reasons.sort((one, other) => Math.abs(other.effect) - Math.abs(one.effect)).slice(0, Math.max(n, 0));
  }

  /** Returns the rating to expect of every item if one left unrated counts as the lowest. */
  #listScores(predicted: Float64Array): Float64Array {
    const chances = this.#model.pattern?.chancesOf(this.#rated);
    const low = Number(this.#model.scale.low);
    return chances ? predicted.map((rating, at) => low + chances[at]! * (rating - low)) : predicted;
  }
}

/**
 * Ranks all items by a person's own true ratings.
 *
 * Ratings of items that the model does not know are ignored and counted; one that is off the scale is refused.
 */
export function rankItems(model: ItemModel, ratings: ReadonlyMap<string, number>): PersonalRanking {
  const known: [index: number, rating: number][] = [];
  for (const [item, rating] of ratings) {
    checkItem(item);
    const own = model.scale.ratings[model.scale.rankOf(rating)]!;
    const index = model.indexOf(item);
    if (index !== undefined) known.push([index, own]);
  }
  known.sort(([one], [other]) => one - other);
  const [rated, own] = [known.map(([index]) => index), known.map(([, rating]) => rating)];
  return new PersonalRanking(model, rated, own, ratings.size - known.length);
}
