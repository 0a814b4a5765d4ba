import { encodeCompact, MOST_REPORTS } from "./compact.ts";
import type { Device } from "./device.ts";
import { DeviceError } from "./errors.ts";
import type { Report } from "./report.ts";
import { total } from "./rows.ts";
import { isCount, isObject, readJson } from "./strict-json.ts";

const MEDIA_TYPE = "application/vnd.tacit.reports";
const SHORTEST_WAIT = 1_000;
const LONGEST_WAIT = 300_000;
const IDLE_WAIT = 30_000;
const LONGEST_RETRY_AFTER = 86_400_000;
const TIME_LIMIT = 30_000;

/** How a round of sending went, in numbers of reports. */
export interface SendResult {
  /** Those the provider has now. */
  readonly sent: number;
  /** Those still to be sent. */
  readonly waiting: number;
  /** Those the provider refused in this round. */
  readonly rejected: number;
  /** Why it refused single ones, by item: a code of its own. */
  readonly reasons: ReadonlyMap<string, string>;
  /** The size of what it answered for. */
  readonly bytes: number;
}

/** What became of a batch: taken but for some (their index, and why), refused as a whole, or to be sent again. */
type Outcome = ReadonlyMap<number, string> | "refused" | "later";

/** Sends a device's reports: each until the provider has answered for it, any number of times to the same effect. */
export class Uplink {
  #notBefore = 0;
  #failures = 0;
  #turn: Promise<unknown> = Promise.resolve();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #started = false;

  /**
   * @param base Where the provider is, without `/v1`; the page's own origin unless given.
   * @param heard Hears how every round went, or why there was none, while started.
   */
  constructor(readonly device: Device, readonly base = "", readonly heard: (result: SendResult | Error) => void = () => {}) {}

  /** Sends what waits, in order of item; while the provider has asked for patience it only counts. */
  async send(): Promise<SendResult> {
    return this.#inTurn(() => this.#round());
  }

  /**
   * Sends after a while, then now and again until stopped or forgotten: at once when the browser is online again, ever
   * later while nothing works. Started again meanwhile, it waits for as long as is said then.
   */
  start(milliseconds = 0): void {
    this.#started = true;
    globalThis.addEventListener?.("online", this.#step);
    this.#next(milliseconds);
  }

  stop(): void {
    this.#started = false;
    globalThis.removeEventListener?.("online", this.#step);
    clearTimeout(this.#timer);
  }

  /** Has the provider delete all it has of this device, then deletes everything here. */
  async deleteEverything(): Promise<void> {
    this.stop();
    await this.#inTurn(async () => {
      // Until the provider has answered, nothing more may reach it from another tab.
      await this.device.withdraw();
      const response = await this.#request("DELETE", "/v1/devices/me").catch(() => null);
      if (response?.status !== 204) {
        throw new DeviceError("the provider did not confirm the deletion; consent is withdrawn, try again");
      }
      await this.device.forget();
    });
  }

  #next(milliseconds: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(this.#step, milliseconds);
  }

  readonly #step = async (): Promise<void> => {
    const timer = this.#timer;
    const result = await this.send().catch((error: Error) => error);
    if (result instanceof Error) this.#failures++;
    if (this.device.forgotten) this.stop();
    else if (this.#started && this.#timer === timer) this.#next(this.#wait());
    this.heard(result);
  };

  /** One at a time: of all tabs where the browser can tell, or else of this uplink. */
  async #inTurn<T>(step: () => Promise<T>): Promise<T> {
    const locks = globalThis.navigator?.locks;
    if (locks) return await locks.request(`tacit-uplink-${this.device.name}`, step);
    const result = this.#turn.then(step);
    this.#turn = result.catch(() => {});
    return result;
  }

  async #round(): Promise<SendResult> {
    let [sent, rejected, bytes] = [0, 0, 0];
    const reasons = new Map<string, string>();
    await this.device.refresh();
    for (const batch of batchesOf(this.device.unsent())) {
      await this.device.refresh();
      if (!this.device.policy || performance.now() < this.#notBefore) break;
      const body = encodeCompact(batch, this.device.policyOf(batch[0]!));
      const outcome = await this.#post(body, batch.length);
      this.#failures = typeof outcome === "string" ? this.#failures + 1 : 0;
      if (outcome === "later") break;
      bytes += body.length;
      const refused = batch.filter((_, index) => outcome === "refused" || outcome.has(index));
      rejected += refused.length;
      sent += batch.length - refused.length;
      // A batch that was refused as a whole stays: its policy may be in use again.
      if (outcome === "refused") continue;
      outcome.forEach((reason, index) => reasons.set(batch[index]!.item, reason));
      await this.device.markRefused(refused);
      await this.device.markSent(batch.filter((_, index) => !outcome.has(index)));
    }
    return { sent, waiting: this.device.unsent().length, rejected, reasons, bytes };
  }

  async #post(body: Uint8Array, count: number): Promise<Outcome> {
    try {
      const response = await this.#request("POST", "/v1/reports", body);
      if (response.status === 200) return answerOf(await response.text(), count);
      if (response.status !== 429 && response.status < 500) return "refused";
      this.#notBefore = performance.now() + retryAfter(response);
    } catch {
      // No answer, or none that can be read: the reports are sent again.
    }
    return "later";
  }

  #request(method: string, path: string, body?: Uint8Array): Promise<Response> {
    const headers: Record<string, string> = { Authorization: `Bearer ${this.device.token}` };
    if (body) headers["Content-Type"] = MEDIA_TYPE;
    return fetch(this.base + path, {
      method,
      headers,
      body: (body ?? null) as BodyInit | null,
      credentials: "omit",
      redirect: "error",
      referrerPolicy: "no-referrer",
      signal: AbortSignal.timeout(TIME_LIMIT),
    });
  }

  /** Doubles with every failure; a part is left to chance, so that devices do not come back all at once. */
  #wait(): number {
    const chance = crypto.getRandomValues(new Uint32Array(1))[0]! / 2 ** 32;
    const backoff = Math.min(SHORTEST_WAIT * 2 ** this.#failures, LONGEST_WAIT) * (0.25 + chance / 2);
    return Math.max(this.#failures ? backoff : IDLE_WAIT, this.#notBefore - performance.now());
  }
}

/** Splits reports, in their order, into batches of one policy each. */
function batchesOf(reports: readonly Report[]): Report[][] {
  const batches: Report[][] = [];
  const open = new Map<string, Report[]>();
  for (const report of reports) {
    let batch = open.get(report.policy);
    if (!batch || batch.length === MOST_REPORTS) batches.push((batch = []));
    open.set(report.policy, batch);
    batch.push(report);
  }
  return batches;
}

/** Reads the provider's answer; one that does not account for every report counts as lost. */
function answerOf(text: string, count: number): Outcome {
  const answer = readJson(text);
  if (!isObject(answer) || !Array.isArray(answer.rejected)) return "later";
  const rejected = new Map(answer.rejected.map((row) => [Object(row).index, String(Object(row).code)]));
  const counts = [answer.accepted, answer.duplicates, rejected.size].filter((part) => isCount(part, count));
  const accounted = counts.length === 3 && total(counts) === count;
  return accounted && [...rejected.keys()].every((index) => isCount(index, count - 1)) ? rejected : "later";
}

/** Returns for how many milliseconds the provider asks for patience: seconds or a date; 0 if it does not say. */
function retryAfter(response: Response): number {
  const text = response.headers.get("Retry-After") ?? "";
  const wait = Number(text) * 1000 || Date.parse(text) - Date.now();
  return Math.min(Math.max(wait || 0, 0), LONGEST_RETRY_AFTER);
}
