/** Decimals a privacy claim rests on, as integers; never floats. */
import { isText } from "./strict-json.ts";

/** Amounts are whole numbers of 10^-18, the finest an epsilon may have. */
const DECIMALS = 18;
const UNIT = 10n ** BigInt(DECIMALS);

const CANONICAL = /^(?!-0$)(?=.{1,40}$)-?(0|[1-9][0-9]*)(\.[0-9]*[1-9])?$/;
const EXP_BITS = 192n;

/** Tells whether a value is decimal text in its one spelling: no exponent, no plus, no needless zeros. */
export function isCanonical(text: unknown): boolean {
  return isText(text, CANONICAL);
}

/** Reads decimal text below 10^9 with at most 18 decimals into units of 10^-18; null if it is anything else. */
export function toUnits(text: string): bigint | null {
  const parts = /^(-?)([0-9]{1,9})(?:\.([0-9]{1,18}))?$/.exec(text);
  if (!parts) return null;
  const size = BigInt(parts[2]! + (parts[3] ?? "").padEnd(DECIMALS, "0"));
  return parts[1] ? -size : size;
}

/** Writes units of 10^-18 in the one spelling. */
export function fromUnits(units: bigint): string {
  const size = units < 0n ? -units : units;
  const fraction = (size % UNIT).toString().padStart(DECIMALS, "0").replace(/0+$/, "");
  return (units < 0n ? "-" : "") + size / UNIT + (fraction && "." + fraction);
}

/**
 * Returns the numerator, over 2^192, of a rational number proven not to exceed e^exponent.
 *
 * All terms of the series are positive and every division rounds down, so the sum can only fall short.
 */
export function expLowerBound(exponent: bigint): bigint {
  let term = 1n << EXP_BITS;
  let total = term;
  for (let order = 1n; term; order++) {
    term = (term * exponent) / (UNIT * order);
    total += term;
  }
  return total;
}

/** Tells whether a ratio of positive integers is at most e^exponent, by integers alone. */
export function isAtMostExp(numerator: bigint, denominator: bigint, bound: bigint): boolean {
  return numerator << EXP_BITS <= denominator * bound;
}
