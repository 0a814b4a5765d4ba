import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { encodeCompact, Policy, ReportError, type Report } from "../src/index.ts";
import { checkItem } from "../src/report.ts";
import { decodeCompact } from "./compact-decoder.ts";
import { laplace, policyOf } from "./policies.ts";
import { vectors } from "./vectors.ts";

describe("vectors", () => {
  test.each(vectors("batches.json").map((vector: object, at: number) => ({ at, ...vector })) as any[])(
    "batch $at", async ({ policy: written, reports: rows, compact }) => {
      const policy = await Policy.read(JSON.stringify(written));
      const reports = rows.map((row: Omit<Report, "policy">) => ({ policy: policy.id, ...row }));
      expect(Buffer.from(encodeCompact(reports, policy)).toString("hex")).toBe(compact);
      expect(decodeCompact(Buffer.from(compact, "hex"), new Map([[policy.id, policy]]))).toEqual(reports);
    });

  test.each(vectors("refused-batches.json") as any[])("refused: $why", async ({ policy: written, compact }) => {
    const policy = await Policy.read(JSON.stringify(written));
    expect(() => decodeCompact(Buffer.from(compact, "hex"), new Map([[policy.id, policy]]))).toThrow();
  });
});

const numbers = fc.bigInt(0n, 2n ** 63n - 1n).map(String);
const texts = fc.string({ unit: "grapheme", minLength: 1, maxLength: 20 }).filter((text) => {
  try {
    checkItem(text);
    return true;
  } catch {
    return false;
  }
});

describe("compact form", () => {
  test.each([["numbers", numbers], ["texts", texts], ["both", fc.oneof(numbers, texts)]])(
    "round trip with items that are %s", async (_, item) => {
      const policy = await laplace();
      const row = fc.record({
        policy: fc.constant(policy.id),
        item,
        symbol: fc.nat(63),
        revision: fc.oneof(fc.constant(0), fc.nat(2 ** 31 - 1)),
      });
      fc.assert(fc.property(fc.array(row, { minLength: 1, maxLength: 60 }), (reports) => {
        const batch = encodeCompact(reports, policy);
        expect(decodeCompact(batch, new Map([[policy.id, policy]]))).toEqual(reports);
      }));
    });

  test("its length says nothing of the symbols", async () => {
    const policy = await laplace();
    const sizes = [0, 1, 31, 63].map((symbol) =>
      encodeCompact(["5", "6", "7"].map((item) => ({ policy: policy.id, item, symbol, revision: 0 })), policy).length);
    expect(new Set(sizes).size).toBe(1);
  });

  test("a batch of 1000 fits, one of 1001 or of none is refused", async () => {
    const policy = await policyOf();
    const many = Array.from({ length: 1001 }, (_, at) => ({ policy: policy.id, item: `film ${at}`, symbol: 4, revision: 0 }));
    const batch = encodeCompact(many.slice(1), policy);
    expect(decodeCompact(batch, new Map([[policy.id, policy]]))).toHaveLength(1000);
    expect(() => encodeCompact(many, policy)).toThrow(ReportError);
    expect(() => encodeCompact([], policy)).toThrow(ReportError);
  });

  test("what no device would say is refused", async () => {
    const [policy, other] = [await policyOf("1"), await policyOf("2")];
    const good: Report = { policy: policy.id, item: "7", symbol: 1, revision: 0 };
    const bad: Partial<Report>[] = [
      { symbol: 5 }, { symbol: -1 }, { symbol: 0.5 }, { symbol: NaN }, { symbol: "1" as unknown as number },
      { revision: -1 }, { revision: 2 ** 31 }, { item: "" }, { item: "a\nb" }, { item: "\u200b" }, { item: "\ud800" },
      { item: "é".repeat(101) }, { item: 7 as unknown as string }, { policy: "abc" }, { policy: other.id },
    ];
    for (const change of bad) expect(() => encodeCompact([{ ...good, ...change }], policy)).toThrow(ReportError);
    expect(() => encodeCompact([good, { ...good, policy: other.id }], policy)).toThrow(ReportError);
  });
});
