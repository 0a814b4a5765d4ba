import fc from "fast-check";
import { expect, test } from "vitest";
import { expLowerBound, fromUnits, isAtMostExp, isCanonical, toUnits } from "../src/decimals.ts";

const units = fc.bigInt(-(10n ** 27n) + 1n, 10n ** 27n - 1n);

test("units survive their text, which is canonical", () => {
  fc.assert(fc.property(units, (amount) => {
    expect(isCanonical(fromUnits(amount))).toBe(true);
    expect(toUnits(fromUnits(amount))).toBe(amount);
  }));
});

test("canonical text survives its units", () => {
  const part = fc.stringMatching(/^(0|[1-9][0-9]{0,8})(\.[0-9]{0,17}[1-9])?$/);
  fc.assert(fc.property(part, (text) => fromUnits(toUnits(text)!) === text));
});

test("only one spelling is canonical", () => {
  for (const text of ["0", "0.5", "-10", "64", "1".repeat(40)]) expect(isCanonical(text)).toBe(true);
  for (const text of ["", "-0", "+1", "01", "1.", ".5", "1.0", "1e3", " 1", "1\n", "١", "1".repeat(41), "--1", "NaN", 1, null]) {
    expect(isCanonical(text)).toBe(false);
  }
});

test("text that is no amount below 10^9 with 18 decimals is none", () => {
  for (const text of ["1e3", "1000000000", "0.1234567890123456789", "", "0x1", "1,5"]) expect(toUnits(text)).toBeNull();
});

test("the bound on e^x lies below it, by next to nothing", () => {
  // Digits of e, from its own series with 80 more bits.
  let [term, sum] = [1n << 272n, 1n << 272n];
  for (let order = 1n; term; order++) sum += term /= order;
  const bound = expLowerBound(10n ** 18n);
  expect(bound <= sum >> 80n).toBe(true);
  expect((sum >> 80n) - bound < 2n ** 12n).toBe(true);
});

test("a ratio is compared in integers", () => {
  const bound = expLowerBound(toUnits("1")!);
  expect(isAtMostExp(271828182845904523n, 10n ** 17n, bound)).toBe(true);
  expect(isAtMostExp(271828182845904524n, 10n ** 17n, bound)).toBe(false);
});
