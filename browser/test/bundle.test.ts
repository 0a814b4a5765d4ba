import { writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";
import { beforeAll, expect, test } from "vitest";
import { bundleLibrary } from "../bundle.mjs";
import * as library from "../src/index.ts";
import { vectors } from "./vectors.ts";

const LARGEST_BUNDLE = 12_000;

let bundle: string;

beforeAll(async () => {
  bundle = await bundleLibrary();
});

test("the library is small, and the same every time", async () => {
  expect(gzipSync(bundle, { level: 9 }).length).toBeLessThan(LARGEST_BUNDLE);
  expect(await bundleLibrary()).toBe(bundle);
});

test("it draws from no other generator, and keeps nothing anywhere but in IndexedDB", () => {
  for (const word of ["Math.random", "localStorage", "sessionStorage", "document.cookie", "console.", "eval(", "Function("]) {
    expect(bundle).not.toContain(word);
  }
});

test("minified, it still verifies and draws", async () => {
  const file = join(tmpdir(), `tacit-${process.pid}.mjs`);
  await writeFile(file, bundle);
  const { Policy, PolicyError } = (await import(pathToFileURL(file).href)) as typeof library;
  for (const { policy: document, draws } of vectors("draws.json")) {
    const { channel, scale } = await Policy.read(JSON.stringify(document));
    for (const { rating, word, symbol } of draws) expect(channel.draw(scale.rankOf(Number(rating)), BigInt(word))).toBe(symbol);
  }
  for (const { document } of vectors("refused-policies.json")) await expect(Policy.read(document)).rejects.toThrow(PolicyError);
  expect(new PolicyError("x").name).toBe("PolicyError");
});

test("its names are these", () => {
  expect(Object.keys(library).sort()).toEqual([
    "BudgetError", "Channel", "ConsentError", "Device", "DeviceError", "ItemModel", "ModelError", "PersonalRanking",
    "Policy", "PolicyError", "RatingChangedError", "RatingError", "RatingScale", "ReportError", "TacitError", "Uplink",
    "encodeCompact", "rankItems", "totalLoss",
  ]);
});
