import "fake-indexeddb/auto";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { ConsentError, Device, DeviceError, encodeCompact, Policy, Uplink, type SendResult } from "../src/index.ts";
import { policyOf } from "./policies.ts";
import { json, Provider, type Answer } from "./server.ts";

let policy: Policy;
let other: Policy;
let provider: Provider;
let base: string;
let device: Device;
let uplink: Uplink;
let count = 0;

beforeEach(async () => {
  [policy, other] = [await policyOf("1"), await policyOf("2")];
  provider = new Provider(new Map([[policy.id, policy], [other.id, other]]));
  base = await provider.listen();
  device = await Device.open({ name: `uplink-${count++}`, lifetimeEpsilon: "100000" });
  await device.consent(policy);
  uplink = new Uplink(device, base);
});

afterEach(async () => {
  vi.useRealTimers();
  vi.restoreAllMocks();
  uplink.stop();
  device.close();
  await provider.close();
});

const rate = (count: number): Promise<unknown> =>
  device.rateAll(new Map(Array.from({ length: count }, (_, at) => [String(at + 1), 1 + (at % 5)])));

const status = (code: number, headers: Record<string, string> = {}): Answer => (response) =>
  json(response, code, { status: code }, headers);

const text = (body: string): Answer => (response) => void response.writeHead(200).end(body);

describe("sending", () => {
  test("what waits arrives, once, and nothing else is told", async () => {
    await rate(3);
    expect(await uplink.send()).toMatchObject({ sent: 3, waiting: 0, rejected: 0 });
    expect([...provider.stored.values()]).toEqual(device.reports());
    const { method, path, headers } = provider.requests[0]!;
    expect([method, path, headers["content-type"]]).toEqual(["POST", "/v1/reports", "application/vnd.tacit.reports"]);
    expect(headers.authorization).toBe(`Bearer ${device.token}`);
    expect([headers.cookie, headers.referer]).toEqual([undefined, undefined]);
    expect(await uplink.send()).toMatchObject({ sent: 0, waiting: 0, rejected: 0 });
    expect(provider.requests).toHaveLength(1);
  });

  test("goes in batches of 1000 at most, in order of item, one policy each", async () => {
    await rate(1500);
    await device.consent(other);
    await device.rateAll(new Map([["zebra", 1], ["aardvark", 2]]));
    expect(await uplink.send()).toMatchObject({ sent: 1502, waiting: 0, rejected: 0 });
    const batches = provider.requests.map(({ reports }) => reports);
    expect(batches.map((batch) => batch.length).sort()).toEqual([1000, 2, 500]);
    for (const batch of batches) {
      expect(new Set(batch.map((report) => report.policy)).size).toBe(1);
      expect(batch.map((report) => report.item)).toEqual(batch.map((report) => report.item).toSorted());
    }
  });

  test("without consent there is nothing to send", async () => {
    await rate(2);
    await device.withdraw();
    expect(await uplink.send()).toMatchObject({ sent: 0, waiting: 0, rejected: 0 });
    expect(provider.requests).toHaveLength(0);
  });

  test("stops between batches when consent is taken back in another tab", async () => {
    await rate(1500);
    const tab = await Device.open({ name: device.name });
    provider.answers.push((response, { reports }) => {
      provider.store(reports);
      void tab.withdraw().then(() => json(response, 200, { accepted: 1000, duplicates: 0, rejected: [] }));
    });
    await uplink.send();
    expect(provider.requests).toHaveLength(1);
    tab.close();
  });

  test("twice at once sends once", async () => {
    await rate(5);
    await Promise.all([uplink.send(), uplink.send(), uplink.send()]);
    expect(provider.requests).toHaveLength(1);
  });

  test("a changed rating is sent as a revision", async () => {
    await device.rate("7", 1);
    await uplink.send();
    await device.rate("7", 5, { change: true });
    expect(await uplink.send()).toMatchObject({ sent: 1, waiting: 0, rejected: 0 });
    expect(provider.requests[1]!.reports.map(({ revision }) => revision)).toEqual([1]);
  });
});

describe("when the provider does not answer", () => {
  test("reports wait while offline, and go out when it is back", async () => {
    await rate(3);
    const port = Number(new URL(base).port);
    await provider.close();
    expect(await uplink.send()).toMatchObject({ sent: 0, waiting: 3, rejected: 0 });
    await provider.listen(port);
    expect(await uplink.send()).toMatchObject({ sent: 3, waiting: 0, rejected: 0 });
  });

  test("an answer that was lost costs nothing: the same reports are sent again and are duplicates", async () => {
    await rate(4);
    provider.answers.push((response, { reports }) => {
      provider.store(reports);
      response.destroy();
    });
    expect(await uplink.send()).toMatchObject({ sent: 0, waiting: 4, rejected: 0 });
    expect(await uplink.send()).toMatchObject({ sent: 4, waiting: 0, rejected: 0 });
    expect(provider.requests[1]!.reports).toEqual(provider.requests[0]!.reports);
    expect([...provider.stored.values()]).toEqual(device.reports());
    expect(device.epsilonSpent).toBe("4");
  });

  test("a crash after sending sends the same again", async () => {
    await rate(2);
    const crashing = await Device.open({ name: device.name });
    vi.spyOn(crashing, "markSent").mockRejectedValue(new DeviceError("the tab is gone"));
    await expect(new Uplink(crashing, base).send()).rejects.toThrow(DeviceError);
    crashing.close();
    expect(await uplink.send()).toMatchObject({ sent: 2, waiting: 0, rejected: 0 });
    expect(provider.requests[1]!.reports).toEqual(provider.requests[0]!.reports);
  });

  test.each([
    ["nothing", ""],
    ["no JSON", "<html>"],
    ["half of it", '{"accepted": 2, "dup'],
    ["null", "null"],
    ["a list", "[]"],
    ["too few reports", '{"accepted": 1, "duplicates": 0, "rejected": []}'],
    ["too many reports", '{"accepted": 2, "duplicates": 1, "rejected": []}'],
    ["a negative count", '{"accepted": 3, "duplicates": -1, "rejected": []}'],
    ["counts in text", '{"accepted": "2", "duplicates": 0, "rejected": []}'],
    ["an index that is not there", '{"accepted": 1, "duplicates": 0, "rejected": [{"index": 2, "code": "unknown-item"}]}'],
    ["an index twice", '{"accepted": 0, "duplicates": 0, "rejected": [{"index": 0, "code": "x"}, {"index": 0, "code": "x"}]}'],
    ["rejected that is no list", '{"accepted": 2, "duplicates": 0, "rejected": 0}'],
    ["a field twice", '{"accepted": 2, "accepted": 2, "duplicates": 0, "rejected": []}'],
  ])("an answer of %s counts as lost", async (_, body) => {
    await rate(2);
    provider.answers.push(text(body));
    expect(await uplink.send()).toMatchObject({ sent: 0, waiting: 2, rejected: 0 });
    expect(await uplink.send()).toMatchObject({ sent: 2, waiting: 0, rejected: 0 });
  });

  test("it is not followed elsewhere", async () => {
    await rate(1);
    const elsewhere = new Provider(new Map());
    const target = await elsewhere.listen();
    provider.answers.push((response) => void response.writeHead(307, { Location: `${target}/v1/reports` }).end());
    expect(await uplink.send()).toMatchObject({ sent: 0, waiting: 1, rejected: 0 });
    expect(elsewhere.requests).toHaveLength(0);
    await elsewhere.close();
  });
});

describe("when the provider asks for patience", () => {
  test.each([[429, "120"], [503, new Date(Date.now() + 120_000).toUTCString()]])("%i with Retry-After %s", async (code, after) => {
    await rate(2);
    provider.answers.push(status(code, { "Retry-After": after }));
    expect(await uplink.send()).toMatchObject({ sent: 0, waiting: 2, rejected: 0 });
    const now = performance.now();
    const clock = vi.spyOn(performance, "now").mockReturnValue(now + 110_000);
    expect(await uplink.send()).toMatchObject({ sent: 0, waiting: 2, rejected: 0 });
    expect(provider.requests).toHaveLength(1);
    clock.mockReturnValue(now + 121_000);
    expect(await uplink.send()).toMatchObject({ sent: 2, waiting: 0, rejected: 0 });
  });

  test.each(["soon", "-5", "NaN", "0", ""])("a Retry-After of '%s' is none", async (after) => {
    await rate(1);
    provider.answers.push(status(503, { "Retry-After": after }));
    await uplink.send();
    expect(await uplink.send()).toMatchObject({ sent: 1, waiting: 0, rejected: 0 });
  });

  test("a Retry-After of years is a day", async () => {
    await rate(1);
    provider.answers.push(status(429, { "Retry-After": "9".repeat(400) }));
    await uplink.send();
    const day = performance.now() + 86_400_000;
    const clock = vi.spyOn(performance, "now").mockReturnValue(day - 1000);
    expect(await uplink.send()).toMatchObject({ sent: 0, waiting: 1, rejected: 0 });
    clock.mockReturnValue(day + 1000);
    expect(await uplink.send()).toMatchObject({ sent: 1, waiting: 0, rejected: 0 });
  });

  test("a clock that is set back does not make it wait longer", async () => {
    await rate(1);
    provider.answers.push(status(503, { "Retry-After": "60" }));
    await uplink.send();
    vi.spyOn(Date, "now").mockReturnValue(0);
    vi.spyOn(performance, "now").mockReturnValue(performance.now() + 61_000);
    expect(await uplink.send()).toMatchObject({ sent: 1, waiting: 0, rejected: 0 });
  });

  test("later batches wait, too", async () => {
    await rate(1500);
    provider.answers.push(() => false, status(503, { "Retry-After": "60" }));
    expect(await uplink.send()).toMatchObject({ sent: 1000, waiting: 500, rejected: 0 });
  });
});

describe("when the provider refuses", () => {
  const refusing = (...indices: number[]): Answer => (response, { reports }) => {
    provider.store(reports.filter((_, index) => !indices.includes(index)));
    const rejected = indices.map((index) => ({ index, code: "unknown-item" }));
    json(response, 200, { accepted: reports.length - rejected.length, duplicates: 0, rejected });
  };

  test("single reports are not sent again by themselves", async () => {
    await rate(3);
    provider.answers.push(refusing(1));
    expect(await uplink.send()).toMatchObject({ sent: 2, waiting: 0, rejected: 1, reasons: new Map([["2", "unknown-item"]]) });
    expect(device.refused().map(({ item }) => item)).toEqual(["2"]);
    expect(await uplink.send()).toMatchObject({ sent: 0, waiting: 0, rejected: 0, bytes: 0 });
    expect(provider.requests).toHaveLength(1);
  });

  test("they are sent again when told to, the same and at no charge, any number of times refused", async () => {
    await rate(3);
    provider.answers.push(refusing(0, 2), refusing(0, 1));
    await uplink.send();
    await device.retryRefused();
    expect(await uplink.send()).toMatchObject({ sent: 0, waiting: 0, rejected: 2 });
    await device.retryRefused();
    expect(await uplink.send()).toMatchObject({ sent: 2, waiting: 0, rejected: 0 });
    expect([...provider.stored.values()].map(({ item }) => item).sort()).toEqual(["1", "2", "3"]);
    expect(provider.requests[2]!.reports).toEqual(provider.requests[1]!.reports);
    expect([device.epsilonSpent, device.refused()]).toEqual(["3", []]);
  });

  test("one is sent again when it is rated the same again", async () => {
    await rate(2);
    provider.answers.push(refusing(0, 1));
    await uplink.send();
    const report = await device.rate("1", 1);
    expect(device.unsent()).toEqual([report]);
    expect(await uplink.send()).toMatchObject({ sent: 1, waiting: 0, rejected: 0 });
    expect(provider.requests[1]!.reports).toEqual([report]);
    expect([device.epsilonSpent, device.refused().length]).toEqual(["2", 1]);
  });

  test("a round says how many bytes were answered for", async () => {
    await rate(2);
    provider.answers.push(status(503), refusing(0));
    expect((await uplink.send()).bytes).toBe(0);
    expect((await uplink.send()).bytes).toBe(encodeCompact(device.reports(), policy).length);
  });

  test.each([400, 401, 413, 415, 422])("a batch with status %i stays, and does not hold up others", async (code) => {
    await device.rate("1", 1);
    await device.consent(other);
    await device.rate("2", 1);
    provider.answers.push(status(code));
    expect(await uplink.send()).toMatchObject({ sent: 1, waiting: 1, rejected: 1 });
    expect(await uplink.send()).toMatchObject({ sent: 1, waiting: 0, rejected: 0 });
  });
});

describe("started", () => {
  test("keeps trying, ever later, until all is sent", async () => {
    await rate(2);
    const waits: number[] = [];
    const timer = globalThis.setTimeout;
    vi.spyOn(globalThis, "setTimeout").mockImplementation(((step: () => void, wait: number, ...rest: []) => {
      const { stack } = new Error();
      if (wait >= 500 && wait !== 30_000 && stack!.includes("uplink.ts") && !stack!.includes("undici")) waits.push(wait);
      return timer(step, wait >= 500 ? 1 : wait, ...rest);
    }) as typeof setTimeout);
    provider.answers.push(...Array.from({ length: 4 }, () => status(503)));
    uplink.start();
    uplink.start();
    await vi.waitFor(() => expect(device.unsent()).toHaveLength(0));
    uplink.stop();
    expect(provider.requests.length).toBe(5);
    waits.forEach((wait, at) => expect(wait / 2 ** at).toSatisfy((base: number) => base >= 500 && base <= 1500));
    expect(waits).toHaveLength(4);
  });

  test("sends together what is said before it was quiet for so long", async () => {
    for (const item of ["1", "2", "3"]) {
      await device.rate(item, 4);
      uplink.start(150);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    await vi.waitFor(() => expect(device.unsent()).toHaveLength(0));
    expect(provider.requests.map(({ reports }) => reports.length)).toEqual([3]);
  });

  test("what is said while a batch is on its way is not left to the next idle look", async () => {
    await device.rate("1", 4);
    let answer = (): void => {};
    provider.answers.push((response) => {
      answer = () => json(response, 200, { accepted: 1, duplicates: 0, rejected: [] });
    });
    uplink.start();
    await vi.waitFor(() => expect(provider.requests).toHaveLength(1));
    await device.rate("2", 4);
    uplink.start(50);
    answer();
    await vi.waitFor(() => expect(device.unsent()).toHaveLength(0));
    expect(provider.requests).toHaveLength(2);
  });

  test("tells how every round went, and goes on after a storage error", async () => {
    const heard: (SendResult | Error)[] = [];
    const telling = new Uplink(device, base, (result) => heard.push(result));
    await rate(1);
    vi.spyOn(device, "markSent").mockRejectedValueOnce(new DeviceError("the disk is full"));
    telling.start();
    await vi.waitFor(() => expect(device.unsent()).toHaveLength(0), { timeout: 5000 });
    await vi.waitFor(() => expect(heard).toHaveLength(2));
    telling.stop();
    expect(heard[0]).toBeInstanceOf(DeviceError);
    expect(heard[1]).toMatchObject({ sent: 1, waiting: 0, rejected: 0 });
  });

  test("stops when told", async () => {
    await rate(1);
    uplink.start(20);
    uplink.stop();
    await new Promise((resolve) => setTimeout(resolve, 60));
    expect(provider.requests).toHaveLength(0);
  });

  test("stops, and says so, when another tab deleted everything", async () => {
    const heard: (SendResult | Error)[] = [];
    const telling = new Uplink(device, base, (result) => heard.push(result));
    const tab = await Device.open({ name: device.name });
    await tab.forget();
    const timer = vi.spyOn(globalThis, "setTimeout");
    telling.start();
    await vi.waitFor(() => expect(heard).toHaveLength(1));
    expect(heard[0]).toBeInstanceOf(DeviceError);
    expect(device.forgotten).toBe(true);
    expect(timer.mock.calls.filter(([, wait]) => Number(wait) >= 250)).toEqual([]);
  });
});

describe("deleting everything", () => {
  test("deletes there, then here", async () => {
    await rate(2);
    await uplink.send();
    const { token } = device;
    await uplink.deleteEverything();
    const { method, path, headers } = provider.requests.at(-1)!;
    expect([method, path, headers.authorization]).toEqual(["DELETE", "/v1/devices/me", `Bearer ${token}`]);
    expect(provider.stored.size).toBe(0);
    expect(() => device.reports()).toThrow(DeviceError);
    const fresh = await Device.open({ name: device.name });
    expect(fresh.token).not.toBe(token);
    expect([fresh.epsilonSpent, fresh.epsilonSpentBefore]).toEqual(["2", "2"]);
    fresh.close();
  });

  test.each<[string, Answer]>([
    ["an error", status(503)],
    ["no such path", status(404)],
    ["a yes that is none", status(200)],
    ["no answer", (response) => void response.destroy()],
  ])("after %s keeps the token to try again with, and says nothing more", async (_, answer) => {
    await rate(2);
    provider.answers.push(answer);
    const { token } = device;
    await expect(uplink.deleteEverything()).rejects.toThrow(DeviceError);
    expect(device.token).toBe(token);
    await expect(device.rate("9", 1)).rejects.toThrow(ConsentError);
    expect((await uplink.send()).sent).toBe(0);
    await uplink.deleteEverything();
    expect(() => device.token).toThrow(DeviceError);
  });

  test("waits for what is being sent", async () => {
    await rate(3);
    await Promise.all([uplink.send(), uplink.deleteEverything()]);
    expect(provider.requests.map(({ method }) => method)).toEqual(["POST", "DELETE"]);
    expect(provider.stored.size).toBe(0);
  });
});
