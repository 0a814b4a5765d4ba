import { describe, expect, test } from "vitest";
import { Channel, Policy, TacitError, totalLoss } from "../src/index.ts";
import { policyOf } from "./policies.ts";
import { vectors } from "./vectors.ts";

interface Total {
  spends: [number, number][];
  delta: number;
  reports: number;
  pure: string;
  approximate: number;
}

const { policies: written, totals } = vectors("totals.json") as { policies: object[]; totals: Total[] };

describe("totals", () => {
  test("are exact, never below those of the Python package, and never above the pure sum", async () => {
    const policies = await Promise.all(written.map((document) => Policy.read(JSON.stringify(document))));
    for (const { spends, delta, reports, pure, approximate } of totals) {
      const found = totalLoss(spends.map(([at, count]) => [policies[at]!, count]), delta);
      expect([found.reports, found.pure, found.delta]).toEqual([reports, pure, delta]);
      expect(found.approximate).toBeGreaterThanOrEqual(approximate);
      expect(found.approximate).toBeLessThanOrEqual(Number(pure));
    }
  });

  test("are close: within a fifth of the Python package's from a hundred reports on", async () => {
    const policies = await Promise.all(written.map((document) => Policy.read(JSON.stringify(document))));
    for (const { spends, delta, reports, approximate } of totals) {
      if (reports < 100) continue;
      const found = totalLoss(spends.map(([at, count]) => [policies[at]!, count]), delta);
      expect(found.approximate / approximate).toBeLessThan(1.2);
    }
  });

  test("of one report is its table's loss or more, however many orders are tried", async () => {
    const policy = await policyOf("3");
    expect(totalLoss([[policy, 1]], 1e-12).approximate).toBeGreaterThan(policy.channel.exactLoss);
    expect(totalLoss([[policy, 1]], 1e-12).approximate).toBeLessThan(policy.channel.exactLoss * 1.05);
  });

  test("of nothing are nothing", async () => {
    const nothing = { reports: 0, pure: "0", approximate: 0, delta: 1e-6 };
    expect(totalLoss([])).toEqual(nothing);
    expect(totalLoss([[await policyOf(), 0]])).toEqual(nothing);
  });

  test("need a delta between 0 and 1 and whole counts", async () => {
    const policy = await policyOf();
    for (const delta of [0, 1, -1, NaN]) expect(() => totalLoss([[policy, 1]], delta)).toThrow(TacitError);
    for (const count of [-1, 0.5, NaN]) expect(() => totalLoss([[policy, count]])).toThrow(TacitError);
  });

  test("of the largest tables are bounded without comparing every pair, in time", () => {
    const [ranks, symbols] = [501, 523];
    const row = Array<bigint>(symbols).fill(2n ** 64n / BigInt(symbols));
    row[0]! += 2n ** 64n - row.reduce((sum, weight) => sum + weight);
    const table = Array.from({ length: ranks }, (_, rank) => {
      const moved = [...row];
      moved[1]! += BigInt(rank) * 2n ** 45n;
      moved[0]! -= BigInt(rank) * 2n ** 45n;
      return moved;
    });
    const channel = new Channel(row.map(String), table, 2n * 10n ** 18n);
    const policy = { epsilon: "2", channel } as Policy;
    const started = performance.now();
    const found = totalLoss([[policy, 100]]);
    expect(performance.now() - started).toBeLessThan(2000);
    expect(found.approximate).toBeLessThan(200);
    expect(found.approximate).toBeGreaterThan(0);
  });
});
