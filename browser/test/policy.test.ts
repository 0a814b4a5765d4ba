import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Policy, PolicyError, RatingError } from "../src/index.ts";
import { document, policyOf, sealed } from "./policies.ts";
import { vectors } from "./vectors.ts";

interface Draws {
  policy: { mechanism: string; id: string; epsilon: string };
  draws: { rating: string; word: string; symbol: number }[];
}

describe("vectors", () => {
  test.each<Draws>(vectors("draws.json"))("draws of $policy.mechanism", async ({ policy: written, draws }) => {
    const policy = await Policy.read(JSON.stringify(written));
    expect([policy.id, policy.epsilon, policy.mechanism]).toEqual([written.id, written.epsilon, written.mechanism]);
    expect(JSON.parse(policy.document)).toEqual(written);
    for (const { rating, word, symbol } of draws) {
      expect(policy.channel.draw(policy.scale.rankOf(Number(rating)), BigInt(word))).toBe(symbol);
    }
  });

  test.each<{ why: string; document: string }>(vectors("refused-policies.json"))("refused: $why", async (vector) => {
    await expect(Policy.read(vector.document)).rejects.toThrow(PolicyError);
    await expect(Policy.read(new TextEncoder().encode(vector.document))).rejects.toThrow(PolicyError);
  });
});

describe("reading", () => {
  const text = JSON.stringify(document());

  test("the document is canonical whatever the order and spacing it came in", async () => {
    const turned = JSON.stringify(Object.fromEntries(Object.entries(document()).reverse()), null, 3);
    const policy = await Policy.read(turned);
    expect(policy.document).toBe((await Policy.read(policy.document)).document);
    expect(policy.document).toMatch(/^\{"channel":\{"symbols":.*"step":"1"\}\}$/);
  });

  test.each<[string, string | Uint8Array]>([
    ["nothing", ""],
    ["what is no text at all", null as unknown as string],
    ["what is neither text nor bytes", 7 as unknown as string],
    ["a list of characters", ["{", "}"] as unknown as string],
    ["a number", "1"],
    ["null", "null"],
    ["a list", "[]"],
    ["cut off", text.slice(0, -1)],
    ["something behind", `${text}{}`],
    ["a field twice", text.replace('"mechanism"', '"epsilon":"1","mechanism"')],
    ["a field twice in other letters", text.replace('"mechanism"', '"\\u0065psilon":"1","mechanism"')],
    ["a field of all objects", text.replace('"mechanism"', '"__proto__":{"low":"1"},"mechanism"')],
    ["a byte order mark", new TextEncoder().encode(`\ufeff${text}`)],
    ["not UTF-8", Uint8Array.from([...new TextEncoder().encode(text), 0xff])],
    ["nested deeply", `{"format":"tacit-policy/1","id":${"[".repeat(1e6)}${"]".repeat(1e6)}}`],
    ["nested deeply in its epsilon", text.replace('"epsilon":"1"', `"epsilon":${"[".repeat(1e5)}${"]".repeat(1e5)}`)],
    ["over 8 MiB", text + " ".repeat(8 * 2 ** 20)],
    ["a number for a decimal", text.replace('"epsilon":"1"', '"epsilon":1')],
  ])("refuses %s", async (_, hostile) => {
    await expect(Policy.read(hostile)).rejects.toThrow(PolicyError);
  });

  test.each<[string, object]>([
    ["a table of one entry too many", { channel: { symbols: ["1", "2"], weights: Array(5).fill(Array(60_000).fill("1")) } }],
    ["rows that are no lists", { channel: { symbols: ["1", "2"], weights: Array(5).fill("1") } }],
    ["weights that are numbers", { channel: { symbols: ["1", "2"], weights: Array(5).fill([1, 2]) } }],
    ["no symbols", { channel: { symbols: [], weights: Array(5).fill([]) } }],
    ["a scale of 502 ratings", { scale: { low: "0", high: "501", step: "1" } }],
    ["a scale of 10^17 ratings", { scale: { low: "0", high: "100000000", step: "0.000000001" } }],
    ["a scale with ten decimals", { scale: { low: "0", high: "4.0000000004", step: "1.0000000001" } }],
    ["a scale that is null", { scale: null }],
    ["an epsilon below the least", { epsilon: "0.0009" }],
    ["an epsilon with 19 decimals", { epsilon: "1.0000000000000000001" }],
    ["an epsilon as long as a novel", { epsilon: "1".repeat(1e6) }],
    ["a prior for a mechanism that has none", { prior: ["1"] }],
    ["a mechanism without its prior", { mechanism: "tailored" }],
    ["a prior that is null", { mechanism: "tailored", prior: null }],
    ["a prior of nothing", { mechanism: "tailored", prior: [] }],
    ["a longer prior than scale", { mechanism: "tailored", prior: Array(6).fill("0.1") }],
  ])("refuses %s, under its right id", async (_, change) => {
    await expect(Policy.read(JSON.stringify(sealed({ ...document(), ...change })))).rejects.toThrow(PolicyError);
  });

  test("the claim is judged in integers, to the last unit", async () => {
    const loss = (await policyOf("20")).channel.exactLoss;
    expect(loss).toBeCloseTo(Math.log(2), 12);
    const below = "0.69314718055994530", above = "0.693147180559945311";
    await expect(Policy.read(JSON.stringify(document(below.replace(/0$/, ""))))).rejects.toThrow(PolicyError);
    expect((await policyOf(above)).epsilon).toBe(above);
  });

  test("a prior is kept, and hashed", async () => {
    const tailored = vectors("draws.json").find((entry: Draws) => entry.policy.mechanism === "tailored").policy;
    expect(JSON.parse((await Policy.read(JSON.stringify(tailored))).document)).toEqual(tailored);
    tailored.prior[0] = "0.5";
    await expect(Policy.read(JSON.stringify(tailored))).rejects.toThrow("hashes");
  });
});

describe("scale", () => {
  test("ranks and ratings", async () => {
    const { scale } = await Policy.read(JSON.stringify(vectors("draws.json")[2].policy));
    expect([scale.size, scale.ratings[0], scale.ratings[80], scale.ratingAt(1)]).toEqual([81, -10, 10, "-9.75"]);
    expect(scale.rankOf(-9.750000001)).toBe(1);
    for (const rating of [10.25, -10.25, 0.1, NaN, Infinity, -Infinity]) {
      expect(() => scale.rankOf(rating)).toThrow(RatingError);
    }
    expect(() => scale.rankOf("1" as unknown as number)).toThrow(RatingError);
    expect(() => scale.ratingAt(81)).toThrow(RatingError);
  });

  test("an error does not name the rating", async () => {
    const { scale } = await policyOf();
    expect(() => scale.rankOf(4.7316)).toThrow(/^(?!.*4\.7316)/);
  });
});

describe("drawing", () => {
  test("is the count of cumulative sums up to the word, for any table", () => {
    const table = fc.array(fc.bigInt(1n, 2n ** 40n), { minLength: 1, maxLength: 40 });
    return fc.assert(fc.asyncProperty(table, fc.bigInt(0n, 2n ** 64n - 1n), fc.nat(4), async (parts, word, rank) => {
      const row = [...parts, 2n ** 64n - parts.reduce((sum, part) => sum + part, 0n)];
      const turned = row.toReversed();
      const rows = [row, row, row, row, row].map((same, at) => (at === rank ? turned : same));
      const { Channel } = await import("../src/index.ts");
      const channel = new Channel(row.map(String), rows, 100n * 10n ** 18n);
      const near = [word, ...turned.map((_, at) => turned.slice(0, at + 1).reduce((sum, part) => sum + part, 0n) - 1n)];
      for (const drawn of near) {
        let [symbol, sum] = [0, 0n];
        for (const weight of turned.slice(0, -1)) if ((sum += weight) <= drawn) symbol++;
        expect(channel.draw(rank, drawn)).toBe(symbol);
      }
    }), { numRuns: 50 });
  });

  test("ranks and words out of range are refused", async () => {
    const { channel } = await policyOf();
    for (const [rank, word] of [[5, 0n], [-1, 0n], [0.5, 0n], [0, -1n], [0, 2n ** 64n]] as const) {
      expect(() => channel.draw(rank, word)).toThrow(PolicyError);
    }
  });

  test("rows of probabilities sum to 1, and bits hold the largest symbol", async () => {
    const { channel } = await policyOf();
    expect(channel.bits).toBe(3);
    for (const row of channel.probabilities) expect(row.reduce((sum, part) => sum + part)).toBeCloseTo(1, 12);
  });
});
