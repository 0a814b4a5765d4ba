/** Deciding on ratings: what they would cost, and drawing their reports. */
import { toUnits } from "./decimals.ts";
import { RatingChangedError } from "./errors.ts";
import type { History } from "./history.ts";
import type { Entry } from "./ledger.ts";
import { checkItem } from "./report.ts";

export interface RateOptions {
  /** Whether a rating that differs from before is meant as a change: a new report, charged in full. */
  change?: boolean;
}

/** What saying some ratings would cost, before anything is said or spent. */
export interface Quote {
  /** The items that would be charged, in order. */
  readonly new: readonly string[];
  readonly charge: string;
  readonly totalAfter: string;
  readonly withinCap: boolean;
}

/** The same in units of 10^-18. */
export interface ExactQuote {
  /** The rank of every rating that would be charged. */
  readonly new: ReadonlyMap<string, number>;
  readonly charge: bigint;
  readonly total: bigint;
  readonly withinCap: boolean;
}

/** Says what ratings would cost, or refuses one that is not on the scale or differs from before. */
export function quoted(history: History, ratings: ReadonlyMap<string, number>, change: boolean): ExactQuote {
  const policy = history.consented();
  const fresh = new Map<string, number>();
  for (const item of inOrder(ratings)) {
    checkItem(item);
    const rank = policy.scale.rankOf(ratings.get(item)!);
    if (!wasSaid(history, item, policy.scale.ratingAt(rank), change)) fresh.set(item, rank);
  }
  const charge = toUnits(policy.epsilon)! * BigInt(fresh.size);
  const total = history.spent + charge;
  return { new: fresh, charge, total, withinCap: total <= toUnits(history.header.lifetimeEpsilon)! };
}

/** In order of item: the order a person gave their ratings in may tell them. */
export function inOrder(ratings: ReadonlyMap<string, number>): string[] {
  return [...ratings.keys()].sort();
}

function wasSaid(history: History, item: string, rating: string, change: boolean): boolean {
  const said = history.said.get(item);
  if (said && said.rating !== rating && !change) {
    throw new RatingChangedError(
      `item ${item} was rated differently before; a change costs as much as a new rating: pass change if meant`,
    );
  }
  return said?.rating === rating;
}

/** Draws reports on new ratings, each from a word of the platform's generator. */
export function drawn(history: History, ranks: ReadonlyMap<string, number>): Entry[] {
  const policy = history.consented();
  const words = crypto.getRandomValues(new BigUint64Array(ranks.size));
  return [...ranks].map(([item, rank], at) => ({
    policy: policy.id,
    item,
    symbol: policy.channel.draw(rank, words[at]!),
    revision: (history.said.get(item)?.revision ?? -1) + 1,
    rating: policy.scale.ratingAt(rank),
    epsilon: policy.epsilon,
    delivery: "waiting",
  }));
}
