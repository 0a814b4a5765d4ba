import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ItemModel, ModelError, rankItems, TacitError } from "../src/index.ts";
import type { Matrix } from "../src/rows.ts";
import { arrays, changed, FIELDS, wire, type WireArray } from "./wire.ts";
import { vectors } from "./vectors.ts";

const bytesOf = (base64: string): Uint8Array => Uint8Array.from(Buffer.from(base64, "base64"));

function rowsOf({ rows, columns, data }: Matrix): number[][] {
  return Array.from({ length: rows }, (_, row) => [...data.slice(row * columns, (row + 1) * columns)]);
}

describe("vectors", () => {
  test.each(vectors("items.json") as any[])("$name", (vector) => {
    const model = ItemModel.read(bytesOf(vector.wire));
    expect([model.items, model.mean, [...model.offsets]]).toEqual([vector.items, vector.mean, vector.offsets]);
    expect(rowsOf(model.factors)).toEqual(vector.factors);
    const { beliefs, pattern } = model;
    if (vector.factor_variances) {
      expect([...beliefs!.itemOffsetVariances]).toEqual(vector.item_offset_variances);
      expect(rowsOf(beliefs!.itemFactorVariances)).toEqual(vector.item_factor_variances);
      expect([...beliefs!.factorVariances]).toEqual(vector.factor_variances);
    }
    if (vector.traits) {
      expect(rowsOf(pattern!.traits)).toEqual(vector.traits);
      expect(rowsOf(pattern!.responses)).toEqual(vector.responses);
      expect([...pattern!.traitVariances]).toEqual(vector.trait_variances);
    }
  });

  test.each(vectors("refused-items.json") as any[])("refused: $why", ({ wire: hostile }) => {
    expect(() => ItemModel.read(bytesOf(hostile))).toThrow(ModelError);
  });
});

describe("reading", () => {
  test("a model lies anywhere in its buffer", () => {
    const bytes = wire(FIELDS, arrays());
    const shifted = new Uint8Array(bytes.length + 3);
    shifted.set(bytes, 3);
    const model = ItemModel.read(shifted.subarray(3));
    expect(model.items).toEqual(["10", "20", "30", "-4"]);
    expect([model.indexOf("30"), model.indexOf("31"), String(model.scale)]).toEqual([2, undefined, "1:5:1"]);
    shifted.fill(0);
    expect(model.offsets[0]).toBeCloseTo(1, 6);
  });

  const float = (...numbers: number[]): Partial<WireArray> => ({ data: Float32Array.from(numbers) });

  test.each<[string, Uint8Array]>([
    ["no bytes", "x" as unknown as Uint8Array],
    ["an array of 2^53 numbers", wire(FIELDS, changed("offsets", { shape: [2 ** 53] }))],
    ["sides whose product is 0 but one is huge", wire(FIELDS, changed("factors", { shape: [0, 1e300] }))],
    ["a scale that is not a number", wire(FIELDS, changed("offsets_scales", float(NaN)))],
    ["an infinite scale", wire(FIELDS, changed("factors_scales", float(1, 1, 1, Infinity)))],
    ["a prior variance of NaN", wire(FIELDS, changed("person_trait_variances", float(1, NaN, 1)))],
    ["a negative variance", wire(FIELDS, changed("factor_variances_scales", float(-1)))],
    ["a share of zero", wire(FIELDS, changed("shares", { data: Int16Array.from([1, 2, 0, 3]) }))],
    ["an array too few", wire(FIELDS, arrays().slice(0, -1))],
    ["an array too many", wire(FIELDS, [...arrays(), { ...arrays()[1]!, name: "more" }])],
    ["an array named as every object's", wire(FIELDS, [...arrays(), { ...arrays()[1]!, name: "__proto__" }])],
    ["a type named as every object's", wire(FIELDS, changed("offsets", { type: "constructor" }))],
    ["ids twice", wire(FIELDS, changed("item_names_ids", { data: BigInt64Array.from([1n, 2n, 3n, 1n]) }))],
    ["rank that is a text", wire({ ...FIELDS, rank: "1" }, arrays())],
    ["rank 0 but factors", wire({ ...FIELDS, rank: 0 }, arrays())],
    ["rank 513", wire({ ...FIELDS, rank: 513 }, arrays())],
    ["a mean that is null", wire({ ...FIELDS, mean: null }, arrays())],
    ["a scale that is a list", wire({ ...FIELDS, scale: ["1", "5", "1"] }, arrays())],
    ["a scale of numbers", wire({ ...FIELDS, scale: { low: 1, high: 5, step: 1 } }, arrays())],
    ["no pattern but its arrays", wire({ ...FIELDS, pattern: null }, arrays())],
    ["beliefs that are a number", wire({ ...FIELDS, beliefs: 1 }, arrays())],
    ["arrays that are no list", wire({ ...FIELDS, arrays: {} }, arrays())],
  ])("refuses %s", (_, hostile) => {
    expect(() => ItemModel.read(hostile)).toThrow(ModelError);
  });

  test("any damage gives a model or an error of ours", () => {
    const good = wire(FIELDS, arrays());
    const damage = fc.array(fc.tuple(fc.nat(good.length - 1), fc.nat(255)), { minLength: 1, maxLength: 8 });
    const ratings = new Map([["10", 5], ["20", 1], ["30", 3]]);
    fc.assert(fc.property(damage, fc.nat(good.length), (changes, cut) => {
      const bytes = good.slice(0, cut > good.length / 2 ? good.length : cut);
      for (const [at, byte] of changes) if (at < bytes.length) bytes[at] = byte;
      try {
        const list = rankItems(ItemModel.read(bytes), ratings).recommend(4);
        for (const { score, rating } of list) expect(Number.isFinite(score) && Number.isFinite(rating)).toBe(true);
      } catch (error) {
        expect(error).toBeInstanceOf(TacitError);
      }
    }), { numRuns: 2000 });
  });

  test("numbers at the edge of what is allowed give a ranking or an error of ours", () => {
    const extreme = fc.constantFrom(1e15, -1e15, 1e-30, 1, 1e8, 0);
    const names = arrays().filter((array) => array.type === "float32").map((array) => array.name);
    fc.assert(fc.property(fc.subarray(names, { minLength: 1 }), extreme, extreme, (chosen, first, variance) => {
      const damaged = arrays().map((array) => (chosen.includes(array.name)
        ? { ...array, data: Float32Array.from({ length: array.data.byteLength / 4 }, () => first) } : array));
      const beliefs = { residual_variance: Math.abs(variance) || 1e-30, offset_variance: Math.abs(first) || 1e15 };
      try {
        const ranking = rankItems(ItemModel.read(wire({ ...FIELDS, beliefs }, damaged)), new Map([["10", 5], ["20", 1]]));
        for (const { score } of ranking.recommend(4)) expect(Number.isFinite(score)).toBe(true);
        for (const { effect } of ranking.explain("30")) expect(typeof effect).toBe("number");
      } catch (error) {
        expect(error).toBeInstanceOf(TacitError);
      }
    }), { numRuns: 500 });
  });
});
