import "fake-indexeddb/auto";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import {
  BudgetError, ConsentError, Device, DeviceError, Policy, PolicyError, RatingChangedError, RatingError, ReportError,
  totalLoss,
} from "../src/index.ts";
import { document, policyOf } from "./policies.ts";

let policy: Policy;
let name: string;
let opened: Device[] = [];
let count = 0;

beforeEach(async () => {
  policy = await policyOf("1");
  name = `test-${count++}`;
});

afterEach(() => {
  vi.restoreAllMocks();
  opened.forEach((device) => device.close());
  opened = [];
});

async function open(lifetimeEpsilon?: string): Promise<Device> {
  const device = await Device.open(lifetimeEpsilon === undefined ? { name } : { name, lifetimeEpsilon });
  opened.push(device);
  return device;
}

async function consenting(cap = "50"): Promise<Device> {
  const device = await open(cap);
  await device.consent(policy);
  return device;
}

/** Everything that IndexedDB holds of the device, as text. */
async function stored(): Promise<string> {
  const database = await new Promise<IDBDatabase>((resolve, reject) => {
    const request = indexedDB.open(`tacit-device-${name}`);
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  const names = [...database.objectStoreNames];
  const contents = await Promise.all(names.map((store) => new Promise((resolve) => {
    const request = database.transaction(store).objectStore(store).getAll();
    request.onsuccess = () => resolve(request.result);
  })));
  database.close();
  return JSON.stringify(contents);
}

describe("a new device", () => {
  test("has a random token, a cap, and nothing else", async () => {
    const device = await open("12.50");
    expect(device.token).toMatch(/^[0-9a-f]{32}$/);
    expect([device.lifetimeEpsilon, device.epsilonSpent, device.policy]).toEqual(["12.5", "0", null]);
    expect([device.reports(), device.unsent(), device.ratings().size]).toEqual([[], [], 0]);
    expect((await Device.open({ name: `${name}-other` })).token).not.toBe(device.token);
  });

  test("has the usual cap unless told otherwise, and keeps the one it has", async () => {
    const device = await open();
    expect(device.lifetimeEpsilon).toBe("50");
    await device.changeCap("20");
    expect((await open("99")).lifetimeEpsilon).toBe("20");
  });

  test.each(["0", "-1", "", "many", "1e3", "1000000000", "0.0000000000000000001"])("refuses the cap %s", async (cap) => {
    await expect(open(cap)).rejects.toThrow(DeviceError);
    await expect((await open("5")).changeCap(cap)).rejects.toThrow(DeviceError);
  });

  test("two tabs that open at once are one device", async () => {
    const tabs = await Promise.all([open("5"), open("6"), open("7")]);
    expect(new Set(tabs.map((device) => device.token)).size).toBe(1);
    expect(new Set(tabs.map((device) => device.lifetimeEpsilon)).size).toBe(1);
  });

  test("says where there is no IndexedDB", async () => {
    vi.stubGlobal("indexedDB", undefined);
    await expect(Device.open({ name })).rejects.toThrow(DeviceError);
    vi.unstubAllGlobals();
  });
});

describe("consent", () => {
  test("comes first", async () => {
    const device = await open();
    expect(() => device.quote(new Map([["7", 4]]))).toThrow(ConsentError);
    await expect(device.rate("7", 4)).rejects.toThrow(ConsentError);
  });

  test("survives, and can be taken back: then nothing is said, not even again", async () => {
    const device = await consenting();
    await device.rate("7", 4);
    expect((await open()).policy?.id).toBe(policy.id);
    await device.withdraw();
    await device.withdraw();
    expect([device.policy, device.unsent()]).toEqual([null, []]);
    await expect(device.rate("7", 4)).rejects.toThrow(ConsentError);
    const again = await open();
    expect([again.policy, again.unsent(), again.epsilonSpent]).toEqual([null, [], "1"]);
    await again.consent(policy);
    expect(again.unsent()).toHaveLength(1);
  });

  test("to a policy that was tampered with is refused", async () => {
    const device = await open();
    const hostile = Object.assign(Object.create(Policy.prototype), policy, {
      document: JSON.stringify({ ...document(), epsilon: "0.5" }),
    }) as Policy;
    await expect(device.consent(hostile)).rejects.toThrow(PolicyError);
    expect(device.policy).toBeNull();
  });

  test("to another policy leaves what was said under the first", async () => {
    const device = await consenting();
    const first = await device.rate("7", 4);
    const other = await policyOf("2.25");
    await device.consent(other);
    expect(await device.rate("7", 4)).toEqual(first);
    expect((await device.rate("8", 4)).policy).toBe(other.id);
    expect(device.epsilonSpent).toBe("3.25");
    expect(device.totals()).toEqual(totalLoss([[policy, 1], [other, 1]]));
    expect((await open()).reports().map((report) => report.policy)).toEqual([policy.id, other.id]);
  });
});

describe("rating", () => {
  test("is perturbed once, remembered and charged", async () => {
    const device = await consenting();
    const first = await device.rate("film-1", 4);
    expect(first).toEqual({ policy: policy.id, item: "film-1", symbol: first.symbol, revision: 0 });
    expect(await device.rate("film-1", 4)).toEqual(first);
    expect(await (await open()).rate("film-1", 4)).toEqual(first);
    expect(device.epsilonSpent).toBe("1");
    expect(device.ratings()).toEqual(new Map([["film-1", 4]]));
  });

  test("is drawn from the platform's generator, one word each, and from nothing else", async () => {
    const device = await consenting();
    const chance = vi.spyOn(Math, "random");
    const drawn = vi.spyOn(crypto, "getRandomValues").mockImplementation((array) => {
      (array as unknown as BigUint64Array).set([0n, 2n ** 64n - 1n]);
      return array;
    });
    const reports = await device.rateAll(new Map([["b", 2], ["a", 3]]));
    expect(reports.map(({ item, symbol }) => [item, symbol])).toEqual([["a", 0], ["b", 4]]);
    expect(drawn.mock.calls.map(([array]) => array)).toEqual([BigUint64Array.from([0n, 2n ** 64n - 1n])]);
    expect(chance).not.toHaveBeenCalled();
  });

  test("says all symbols, as often as the table says", async () => {
    const device = await consenting("2000");
    const reports = await device.rateAll(new Map(Array.from({ length: 1200 }, (_, at) => [`item ${at}`, 3])));
    const counts = [0, 1, 2, 3, 4].map((symbol) => reports.filter((report) => report.symbol === symbol).length);
    // Six standard deviations around 1200 x (1/6, 1/6, 1/3, 1/6, 1/6).
    counts.forEach((found, symbol) => expect(Math.abs(found - (symbol === 2 ? 400 : 200))).toBeLessThan(symbol === 2 ? 98 : 78));
  });

  test("that differs from before is refused, or charged in full as a change", async () => {
    const device = await consenting();
    await device.rate("7", 4);
    await expect(device.rate("7", 2)).rejects.toThrow(RatingChangedError);
    expect(() => device.quote(new Map([["7", 2]]))).toThrow(RatingChangedError);
    expect(device.quote(new Map([["7", 2]]), { change: true })).toEqual({
      new: ["7"], charge: "1", totalAfter: "2", withinCap: true,
    });
    expect((await device.rate("7", 2, { change: true })).revision).toBe(1);
    expect((await device.rate("7", 2, { change: true })).revision).toBe(1);
    expect((await device.rate("7", 4, { change: true })).revision).toBe(2);
    expect(device.epsilonSpent).toBe("3");
    expect(device.reports()).toHaveLength(1);
    expect(device.unsent().map(({ revision }) => revision)).toEqual([2]);
    expect(device.export().entries.map(({ revision }) => revision)).toEqual([0, 1, 2]);
  });

  test("never spends past the cap, to the last decimal", async () => {
    policy = await policyOf("0.7");
    const device = await consenting("2.1");
    for (const item of ["1", "2", "3"]) await device.rate(item, 5);
    expect(device.epsilonSpent).toBe("2.1");
    expect(device.quote(new Map([["4", 5]])).withinCap).toBe(false);
    await expect(device.rate("4", 5)).rejects.toThrow(BudgetError);
    expect((await device.rate("3", 5)).item).toBe("3");
    await device.changeCap("2.8");
    await device.rate("4", 5);
    await device.changeCap("1");
    expect(device.epsilonSpent).toBe("2.8");
    expect((await device.rate("4", 5)).item).toBe("4");
    await expect(device.rate("5", 5)).rejects.toThrow(BudgetError);
  });

  test("of many is all or none, in order of item", async () => {
    const device = await consenting("3");
    await expect(device.rateAll(new Map([["d", 1], ["c", 2], ["b", 3], ["a", 4]]))).rejects.toThrow(BudgetError);
    await expect(device.rateAll(new Map([["a", 1], ["b", 99]]))).rejects.toThrow(RatingError);
    await expect(device.rateAll(new Map([["a", 1], ["\n", 1]]))).rejects.toThrow(ReportError);
    expect([device.epsilonSpent, device.reports()]).toEqual(["0", []]);
    const reports = await device.rateAll(new Map([["c", 2], ["b", 3], ["a", 4]]));
    expect(reports.map(({ item }) => item)).toEqual(["a", "b", "c"]);
    expect(await device.rateAll(new Map())).toEqual([]);
  });

  test("no error, export or report holds a true rating", async () => {
    const scaled = await policyOf("1", "811");
    const device = await open("1");
    await device.consent(scaled);
    await device.rate("7", 813);
    const failures = await Promise.all([
      device.rate("7", 814).catch(String), device.rate("8", 813).catch(String), device.rate("9", 813.4).catch(String),
    ]);
    const said = [...failures, ...[device.export(), device.reports(), device.totals(), device].map((part) => JSON.stringify(part))];
    for (const text of said) expect(text).not.toMatch(/81[34]/);
    expect(await stored()).toContain('"rating":"813"');
  });

  test("spends what its ledger says, whatever is rated in which order", () => {
    const step = fc.tuple(fc.constantFrom("a", "b", "c", "d"), fc.integer({ min: 1, max: 5 }), fc.boolean());
    return fc.assert(fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
      name = `property-${count++}`;
      const device = await consenting("9");
      const said = new Map<string, number>();
      let spent = 0;
      for (const [item, rating, change] of steps) {
        const charged = said.get(item) !== rating;
        const allowed = !charged || ((change || !said.has(item)) && spent < 9);
        const result = await device.rate(item, rating, { change }).then(() => true, () => false);
        expect(result).toBe(allowed);
        if (allowed && charged) spent += 1;
        if (allowed) said.set(item, rating);
      }
      expect(device.epsilonSpent).toBe(String(spent));
      expect(device.ratings()).toEqual(new Map([...said].sort()));
      expect(device.export()).toEqual((await open()).export());
    }), { numRuns: 25 });
  });
});

describe("durability", () => {
  test("a crash after the draw repeats the same symbol, and charges once", async () => {
    const before = await consenting();
    const report = await before.rate("7", 4);
    const after = await open(); // the first is never closed, and sent nothing
    expect(after.unsent()).toEqual([report]);
    expect(await after.rate("7", 4)).toEqual(report);
    expect(after.epsilonSpent).toBe("1");
  });

  test("a crash before the end of the transaction says and spends nothing", async () => {
    const device = await consenting();
    const put = IDBObjectStore.prototype.put;
    vi.spyOn(IDBObjectStore.prototype, "put").mockImplementation(function (this: IDBObjectStore, ...given) {
      if (this.name === "entries") this.transaction.abort();
      return put.apply(this, given);
    });
    await expect(device.rate("7", 4)).rejects.toThrow(DeviceError);
    vi.restoreAllMocks();
    expect([device.epsilonSpent, device.unsent()]).toEqual(["0", []]);
    expect((await open()).epsilonSpent).toBe("0");
    expect((await device.rate("7", 4)).revision).toBe(0);
  });

  test("a full disk at the end of the transaction is an error of ours", async () => {
    const device = await consenting();
    vi.spyOn(IDBObjectStore.prototype, "put").mockImplementation(() => {
      throw new DOMException("full", "QuotaExceededError");
    });
    await expect(device.rate("7", 4)).rejects.toThrow(/QuotaExceededError/);
    vi.restoreAllMocks();
    expect((await open()).epsilonSpent).toBe("0");
  });

  test("the ledger is written through before a report is handed out", async () => {
    const device = await consenting();
    const transaction = vi.spyOn(IDBDatabase.prototype, "transaction");
    await device.rate("7", 4);
    expect(transaction.mock.calls.at(-1)?.slice(1)).toEqual(["readwrite", { durability: "strict" }]);
    expect(await stored()).toContain('"delivery":"waiting"');
  });

  test.each([
    ["a symbol its policy does not have", { symbol: 5 }],
    ["another price", { epsilon: "0.5" }],
    ["a rating off the scale", { rating: "9" }],
    ["a policy that is not known", { policy: "0".repeat(64) }],
    ["a symbol that is text", { symbol: "1" }],
  ])("an entry with %s is not believed", async (_, change) => {
    const device = await consenting();
    const report = await device.rate("7", 4);
    const database = await new Promise<IDBDatabase>((resolve) => {
      const request = indexedDB.open(`tacit-device-${name}`);
      request.onsuccess = () => resolve(request.result);
    });
    await new Promise((resolve) => {
      const transaction = database.transaction("entries", "readwrite");
      transaction.objectStore("entries").put({ ...report, rating: "4", epsilon: "1", delivery: "waiting", ...change });
      transaction.oncomplete = resolve;
    });
    database.close();
    await expect(open()).rejects.toThrow(DeviceError);
  });
});

describe("two tabs", () => {
  test("that rate an item at once draw once", async () => {
    const first = await consenting();
    const second = await open();
    for (let at = 0; at < 20; at++) {
      const [one, other] = await Promise.all([first.rate(`item ${at}`, 4), second.rate(`item ${at}`, 4)]);
      expect(one).toEqual(other);
    }
    await Promise.all([first.refresh(), second.refresh()]);
    expect([first.epsilonSpent, second.epsilonSpent]).toEqual(["20", "20"]);
    expect(first.export()).toEqual(second.export());
  });

  test("that spend at once stay below the cap together", async () => {
    const first = await consenting("10");
    const second = await open();
    const tries = Array.from({ length: 24 }, (_, at) => (at % 2 ? first : second).rate(`item ${at}`, 3));
    const results = await Promise.allSettled(tries);
    const refused = results.filter((result) => result.status === "rejected").map((result) => result.reason);
    expect(results.length - refused.length).toBe(10);
    for (const reason of refused) expect(reason).toBeInstanceOf(BudgetError);
    expect((await open()).export().entries).toHaveLength(10);
  });

  test("know of each other's consent, changes and cap when they rate", async () => {
    const first = await consenting();
    const second = await open();
    await first.rate("7", 4);
    await expect(second.rate("7", 1)).rejects.toThrow(RatingChangedError);
    const other = await policyOf("3");
    await first.consent(other);
    expect((await second.rate("8", 1)).policy).toBe(other.id);
    await second.withdraw();
    await expect(first.rate("9", 1)).rejects.toThrow(ConsentError);
    await second.consent(other);
    await second.changeCap("4");
    await expect(first.rate("9", 1)).rejects.toThrow(BudgetError);
  });
});

describe("delivery", () => {
  test("what is marked stays marked; a change waits again", async () => {
    const device = await consenting();
    const [a, b, c] = await device.rateAll(new Map([["a", 1], ["b", 2], ["c", 3]]));
    await device.markSent([a!]);
    await device.markRefused([b!]);
    expect([device.unsent(), device.refused()]).toEqual([[c], [b]]);
    expect((await open()).unsent()).toEqual([c]);
    const changed = await device.rate("a", 5, { change: true });
    expect(device.unsent()).toEqual([changed, c]);
    await device.markSent([{ ...c!, item: "never said" }]);
    expect(device.unsent()).toHaveLength(2);
  });
});

describe("what was refused", () => {
  test("waits again when rated the same again, in any tab, at no charge", async () => {
    const device = await consenting();
    const [a, b] = await device.rateAll(new Map([["a", 1], ["b", 2]]));
    await device.markRefused([a!, b!]);
    expect(await (await open()).rate("a", 1)).toEqual(a);
    await device.refresh();
    expect([device.unsent(), device.refused(), device.epsilonSpent]).toEqual([[a], [b], "2"]);
  });

  test("waits again when asked to, but not what was sent meanwhile", async () => {
    const device = await consenting();
    const [a, b] = await device.rateAll(new Map([["a", 1], ["b", 2]]));
    await device.markRefused([a!, b!]);
    await (await open()).markSent([a!]);
    await device.retryRefused();
    expect([device.unsent(), device.refused()]).toEqual([[b], []]);
  });

  test("is not sent again in place of a change", async () => {
    const device = await consenting();
    await device.markRefused([await device.rate("a", 1)]);
    const changed = await device.rate("a", 5, { change: true });
    await device.retryRefused();
    expect([device.unsent(), device.refused()]).toEqual([[changed], []]);
  });
});

describe("export", () => {
  test("is everything said and spent", async () => {
    const device = await consenting();
    const report = await device.rate("7", 4);
    expect(device.export()).toEqual({
      format: "tacit-ledger-export/1", lifetime_epsilon: "50", epsilon_spent: "1", epsilon_spent_before: "0",
      entries: [{ ...report, epsilon: "1" }],
    });
  });
});

describe("forgetting", () => {
  test("leaves nothing but the sum of what was spent, here and in other tabs", async () => {
    const device = await consenting();
    const other = await open();
    await device.rate("secret item", 4);
    await other.refresh();
    const { token } = device;
    await device.forget();
    expect(await stored()).toBe('[[],[{"spentBefore":"1"}],[]]');
    expect([device.forgotten, other.forgotten]).toEqual([true, false]);
    expect(() => device.ratings()).toThrow(DeviceError);
    await expect(device.rate("7", 4)).rejects.toThrow(DeviceError);
    await expect(other.rate("7", 4)).rejects.toThrow(DeviceError);
    expect(() => other.ratings()).toThrow(DeviceError);
    const fresh = await open();
    expect(fresh.token).not.toBe(token);
    expect([fresh.epsilonSpent, fresh.policy, fresh.ratings().size]).toEqual(["1", null, 0]);
    expect([fresh.forgotten, other.forgotten]).toEqual([false, true]);
  });

  test("does not undo what was spent, to the last decimal, however often it is done", async () => {
    policy = await policyOf("0.7");
    for (const spent of ["0.7", "1.4", "2.1"]) {
      const device = await consenting("2.1");
      await device.rate("secret item", 4);
      expect([device.epsilonSpent, device.export().epsilon_spent, device.totals().pure]).toEqual([spent, spent, spent]);
      await device.forget();
    }
    const device = await consenting("2.1");
    expect(device.quote(new Map([["7", 4]]))).toEqual({ new: ["7"], charge: "0.7", totalAfter: "2.8", withinCap: false });
    await expect(device.rate("7", 4)).rejects.toThrow(BudgetError);
    expect(device.export()).toMatchObject({ epsilon_spent: "2.1", epsilon_spent_before: "2.1", entries: [] });
    await device.changeCap("2.8");
    await device.rate("7", 4);
    expect(device.epsilonSpent).toBe("2.8");
  });

  test("counts what another tab spent at the last moment", async () => {
    const [device, other] = [await consenting(), await open()];
    await Promise.all([other.rate("7", 4), device.forget()]).catch(() => {});
    await other.rate("8", 4).catch(() => {});
    const spent = JSON.parse(await stored())[1][0].spentBefore;
    expect((await open()).epsilonSpent).toBe(spent);
    expect(spent).toBe("1");
  });

  test("adds the pure sum from before to the (epsilon, delta) figure, and stays below the pure one", async () => {
    const ratings = new Map(Array.from({ length: 200 }, (_, at): [string, number] => [`item ${at}`, 3]));
    const device = await consenting("1000");
    await device.rateAll(ratings);
    const { approximate } = device.totals();
    expect(approximate).toBeLessThan(200);
    await device.forget();
    const fresh = await consenting("1000");
    expect(fresh.totals()).toMatchObject({ reports: 0, pure: "200", approximate: 200 });
    await fresh.rateAll(ratings);
    expect(fresh.totals()).toMatchObject({ reports: 200, pure: "400", approximate: 200 + approximate });
  });

  test.each(["-1", "many", "", "1e3"])("what was spent before cannot be %s", async (spentBefore) => {
    const device = await consenting();
    const database = await new Promise<IDBDatabase>((resolve) => {
      const request = indexedDB.open(`tacit-device-${name}`);
      request.onsuccess = () => resolve(request.result);
    });
    await new Promise((resolve) => {
      const transaction = database.transaction("header", "readwrite");
      const header = { token: device.token, changes: 2, lifetimeEpsilon: "50", policy: null, spentBefore };
      transaction.objectStore("header").put(header, 0);
      transaction.oncomplete = resolve;
    });
    database.close();
    await expect(open()).rejects.toThrow(DeviceError);
  });

  test("a tab that slept through it cannot write into the new device", async () => {
    const sleeper = await consenting();
    await (await open()).forget();
    const fresh = await open();
    await fresh.consent(policy);
    expect(await stored()).toContain('"changes":2'); // as many as the sleeper knows of
    await expect(sleeper.rate("7", 4)).rejects.toThrow(DeviceError);
    expect((await open()).epsilonSpent).toBe("0");
  });

  test("a closed device says so", async () => {
    const device = await consenting();
    device.close();
    await expect(device.rate("7", 4)).rejects.toThrow(DeviceError);
  });
});
