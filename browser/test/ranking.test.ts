import { describe, expect, test } from "vitest";
import { ItemModel, ModelError, RatingError, rankItems, ReportError, type Suggestion } from "../src/index.ts";
import { lowerRoot, solveLower, solveUpper } from "../src/cholesky.ts";
import { arrays, FIELDS, wire } from "./wire.ts";
import { vectors } from "./vectors.ts";

/** How far an implementation may be off. */
const NEAR = 2e-5;

interface Case {
  name: string;
  model: string;
  ratings: Record<string, number>;
  predictions: number[];
  list: Suggestion[];
  reasons: Record<string, { item: string; effect: number }[]>;
}

const near = (found: number, wanted: number): void => expect(Math.abs(found - wanted)).toBeLessThanOrEqual(NEAR);

describe.each<Case>(vectors("ranking.json").cases)("vector: $name", (vector) => {
  const model = ItemModel.read(Uint8Array.from(Buffer.from(vector.model, "base64")));
  const ranking = rankItems(model, new Map(Object.entries(vector.ratings)));

  test("predictions", () => {
    const found = ranking.predictions();
    expect(found.length).toBe(vector.predictions.length);
    vector.predictions.forEach((wanted, at) => near(found[at]!, wanted));
  });

  test("list", () => {
    const found = ranking.recommend(vector.list.length);
    expect(found.map(({ item, rank }) => [item, rank])).toEqual(vector.list.map(({ item, rank }) => [item, rank]));
    found.forEach(({ score, rating }, at) => {
      near(score, vector.list[at]!.score);
      near(rating, vector.list[at]!.rating);
    });
  });

  test("reasons", () => {
    for (const [item, wanted] of Object.entries(vector.reasons)) {
      const found = ranking.explain(item, wanted.length);
      expect(found.map((reason) => reason.item)).toEqual(wanted.map((reason) => reason.item));
      found.forEach(({ effect, item: rated, rating }, at) => {
        near(effect, wanted[at]!.effect);
        expect(rating).toBe(vector.ratings[rated]);
      });
    }
  });
});

describe("ranking", () => {
  const model = ItemModel.read(wire(FIELDS, arrays()));
  const ratings = new Map([["10", 5], ["20", 1], ["unheard of", 3]]);

  test("leaves out what was rated, unless told otherwise, and counts what is unknown", () => {
    const ranking = rankItems(model, ratings);
    expect([ranking.unknown, ranking.fallback]).toEqual([1, false]);
    expect(ranking.recommend().map(({ item }) => item).sort()).toEqual(["-4", "30"]);
    expect(ranking.recommend(10, { excludeRated: false })).toHaveLength(4);
    expect(ranking.recommend(1)).toHaveLength(1);
  });

  test("by rating is by prediction", () => {
    for (const { score, rating } of rankItems(model, ratings).recommend(4, { byRating: true })) expect(score).toBe(rating);
  });

  test("the order of ratings does not matter, not even to rounding", () => {
    const turned = new Map([...ratings].reverse());
    expect(rankItems(model, turned).predictions()).toEqual(rankItems(model, ratings).predictions());
  });

  test("effects fall in size and add up to what the ratings change", () => {
    const own = new Map([["10", 4], ["20", 3], ["30", 4]]);
    const ranking = rankItems(model, own);
    const effects = ranking.explain("-4", 10).map(({ effect }) => effect);
    expect(effects.map(Math.abs)).toEqual(effects.map(Math.abs).toSorted((one, other) => other - one));
    const { mean, offsets, pattern } = model;
    const unmoved = mean + offsets[3]! + pattern!.responses.data[3]! * pattern!.placeOf([0, 1, 2])[0]!;
    expect(effects.reduce((sum, effect) => sum + effect)).toBeCloseTo(ranking.predictions()[3]! - unmoved, 10);
    expect(ranking.predictions()[3]).toBeGreaterThan(1);
  });

  test("nobody's ratings are everybody's order", () => {
    const ranking = rankItems(model, new Map());
    expect(ranking.fallback).toBe(true);
    expect(ranking.recommend()).toHaveLength(4);
    expect(ranking.explain("10")).toEqual([]);
  });

  test("what makes no sense is refused, without naming a rating", () => {
    expect(() => rankItems(model, new Map([["10", 4.4321]]))).toThrow(RatingError);
    expect(() => rankItems(model, new Map([["10", 4.4321]]))).toThrow(/^(?!.*4\.4321)/);
    expect(() => rankItems(model, new Map([["", 4]]))).toThrow(ReportError);
    expect(() => rankItems(model, ratings).recommend(0)).toThrow(ModelError);
    expect(() => rankItems(model, ratings).recommend(NaN)).toThrow(ModelError);
    expect(() => rankItems(model, ratings).explain("99")).toThrow(ModelError);
  });

  test("nothing that is printed shows a rating", () => {
    const ranking = rankItems(model, new Map([["10", 5]]));
    expect(JSON.stringify(ranking)).toBe('{"unknown":0}');
  });
});

describe("cholesky", () => {
  test("solves", () => {
    const data = Float64Array.from([4, 0, 0, 2, 5, 0, 1, 3, 6]);
    const root = lowerRoot({ size: 3, data }, () => 1);
    const solution = solveUpper(root, solveLower(root, Float64Array.from([1, 2, 3])));
    const whole = [[5, 2, 1], [2, 6, 3], [1, 3, 7]];
    whole.forEach((row, at) => expect(row.reduce((sum, part, other) => sum + part * solution[other]!, 0)).toBeCloseTo(at + 1, 12));
  });

  test("what is not positive definite, or not a number, is refused", () => {
    for (const data of [[1, 0, 2, 1], [-1, 0, 0, 1], [NaN, 0, 0, 1], [1, 0, NaN, 1], [0, 0, 0, 0]]) {
      expect(() => lowerRoot({ size: 2, data: Float64Array.from(data) }, () => 0)).toThrow(ModelError);
    }
  });
});
