import { fromUnits, isCanonical, toUnits } from "./decimals.ts";
import { RatingError, TacitError } from "./errors.ts";

const MOST_RANKS = 501;
const MOST_DECIMALS = /\.[0-9]{10}/;

/** Ratings arrive as binary floats, so one this close to a step (in steps) is that step. */
const ON_STEP = 1e-4;

/** The ratings a person can give: low, low + step, ..., high. Their ranks count from 0. */
export class RatingScale {
  readonly size: number;
  /** The rating of every rank, from low to high. */
  readonly ratings: readonly number[];
  readonly #texts: readonly string[];

  /** Makes a scale from decimal text, or refuses one that is empty, uneven or too fine. */
  constructor(readonly low: string, readonly high: string, readonly step: string) {
    const [first, last, width] = [low, high, step].map(part) as [bigint, bigint, bigint];
    if (first >= last || width <= 0n || (last - first) % width || (last - first) / width >= MOST_RANKS) {
      throw new TacitError(`scale ${this} has no whole number of steps, or more than ${MOST_RANKS} ratings`);
    }
    this.size = Number((last - first) / width) + 1;
    this.#texts = Array.from({ length: this.size }, (_, rank) => fromUnits(first + width * BigInt(rank)));
    this.ratings = this.#texts.map(Number);
  }

  /** Returns the rank of a rating, or refuses one that is off the scale. */
  rankOf(rating: number): number {
    const steps = typeof rating === "number" ? (rating - Number(this.low)) / Number(this.step) : NaN;
    const nearest = Math.floor(steps + 0.5);
    if (!(Math.abs(nearest - steps) <= ON_STEP && nearest >= 0 && nearest < this.size)) {
      throw new RatingError(`a rating is not on the scale ${this}; give one of its steps`);
    }
    return nearest;
  }

  /** Returns the rating of a rank as exact decimal text. */
  ratingAt(rank: number): string {
    const text = this.#texts[rank];
    if (text === undefined) throw new RatingError(`a rank is not from 0 to ${this.size - 1}`);
    return text;
  }

  /** Writes the scale as LOW:HIGH:STEP. */
  toString(): string {
    return `${this.low}:${this.high}:${this.step}`;
  }
}

function part(text: string): bigint {
  const units = isCanonical(text) && !MOST_DECIMALS.test(text) ? toUnits(text) : null;
  if (units === null) {
    throw new TacitError("a scale is not of plain decimals below 10^9, with 9 places at most");
  }
  return units;
}
