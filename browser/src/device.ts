import { totalLoss, type Totals } from "./accounting.ts";
import { fromUnits, toUnits } from "./decimals.ts";
import { BudgetError, DeviceError } from "./errors.ts";
import { hexOf } from "./hex.ts";
import { FORGOTTEN, History, keyOf } from "./history.ts";
import { Ledger, type Changes, type Delivery, type Entry } from "./ledger.ts";
import { Policy } from "./policy.ts";
import { drawn, inOrder, quoted } from "./quote.ts";
import type { Report } from "./report.ts";

const USUAL_CAP = "50";

export interface DeviceOptions {
  /** Tells apart several devices of one origin; empty unless given. */
  name?: string;
  /** The cap of a device that is new, as decimal text; one that is there keeps its own. 50 unless given. */
  lifetimeEpsilon?: string;
  /** No generator can be given: a device draws from the platform's own. */
  random?: never;
}

export interface RateOptions {
  /** Whether a rating that differs from before is meant as a change: a new report, charged in full. */
  change?: boolean;
}

/** What saying some ratings would cost, before anything is said or spent. */
export interface Quote {
  /** The items that would be charged, in order. */
  readonly new: readonly string[];
  readonly charge: string;
  readonly totalAfter: string;
  readonly withinCap: boolean;
}

/** The account for a person to keep or show: everything said and spent, no true rating. */
export interface LedgerExport {
  readonly format: "tacit-ledger-export/1";
  readonly lifetime_epsilon: string;
  readonly epsilon_spent: string;
  readonly entries: readonly (Report & { readonly epsilon: string })[];
}

/**
 * One person's device: perturbs a rating once, remembers what it said, and never spends past its cap.
 *
 * What it returns at once is as of its last look at the ledger; `refresh` looks again, as every change does by itself.
 */
export class Device {
  readonly #ledger: Ledger;
  #history: History | null;

  private constructor(readonly name: string, ledger: Ledger, history: History) {
    this.#ledger = ledger;
    this.#history = history;
  }

  /** Opens the device kept in this browser, or makes a new one with a lifetime cap. */
  static async open({ name = "", lifetimeEpsilon = USUAL_CAP }: DeviceOptions = {}): Promise<Device> {
    const cap = capOf(lifetimeEpsilon);
    const ledger = await Ledger.open(name ? `tacit-device-${name}` : "tacit-device");
    try {
      await ledger.change(undefined, () => ({ header: { token: newToken(), lifetimeEpsilon: cap, policy: null } }));
      return new Device(name, ledger, await History.of(await ledger.read()));
    } catch (error) {
      ledger.close();
      throw error;
    }
  }

  /** What the provider knows this device by: 32 hex digits, random. */
  get token(): string {
    return this.#known.header.token;
  }

  /** The policy consented to, or null. */
  get policy(): Policy | null {
    return this.#known.policy;
  }

  /** The most this device will ever spend, as a pure sum. */
  get lifetimeEpsilon(): string {
    return this.#known.header.lifetimeEpsilon;
  }

  /** The pure sum spent so far. */
  get epsilonSpent(): string {
    return fromUnits(this.#known.spent);
  }

  /** Looks at the ledger again, where another tab may have written. */
  async refresh(): Promise<void> {
    const contents = await this.#ledger.read();
    if (contents.header?.token !== this.token) this.#history = null;
    const history = await History.of(contents, this.#known.policies);
    if (history.header.changes > this.#known.header.changes) this.#history = history;
  }

  /** Agrees to report under a policy, after verifying it again from its integers. */
  async consent(policy: Policy): Promise<void> {
    const verified = await Policy.read(policy.document);
    await this.#change((history) => (history.policy?.id === verified.id ? {} : {
      header: { policy: verified.id }, policy: verified,
    }), verified);
    // A ledger that the browser clears away would be started, and spent, again.
    await globalThis.navigator?.storage?.persist?.().catch(() => false);
  }

  /** Takes the consent back: nothing more is said, not even again. */
  async withdraw(): Promise<void> {
    await this.#change((history) => (history.header.policy === null ? {} : { header: { policy: null } }));
  }

  /** Sets another lifetime cap; what is spent stays spent. */
  async changeCap(lifetimeEpsilon: string): Promise<void> {
    const cap = capOf(lifetimeEpsilon);
    await this.#change(() => ({ header: { lifetimeEpsilon: cap } }));
  }

  /**
   * Says what ratings would cost; nothing is said or spent.
   *
   * A rating said before costs nothing. One that differs from before is refused, or with `change` charged in full.
   */
  quote(ratings: ReadonlyMap<string, number>, { change = false }: RateOptions = {}): Quote {
    const { new: fresh, charge, total, withinCap } = quoted(this.#known, ratings, change);
    return { new: [...fresh.keys()], charge: fromUnits(charge), totalAfter: fromUnits(total), withinCap };
  }

  /** Says one rating: perturbed once, remembered, charged. */
  async rate(item: string, rating: number, options: RateOptions = {}): Promise<Report> {
    return (await this.rateAll(new Map([[item, rating]]), options))[0]!;
  }

  /** Says ratings, all or none: draws and charges the new ones, repeats what was said of the others. */
  async rateAll(ratings: ReadonlyMap<string, number>, { change = false }: RateOptions = {}): Promise<Report[]> {
    const wanted = new Map(ratings);
    await this.#change((history) => {
      const { new: fresh, total, withinCap } = quoted(history, wanted, change);
      if (fresh.size && !withinCap) {
        throw new BudgetError(
          `${fresh.size} new ratings bring the total to ${fromUnits(total)}, over the lifetime cap of ` +
            `${history.header.lifetimeEpsilon}; rate fewer, or raise the cap`,
        );
      }
      return { entries: drawn(history, fresh) };
    });
    return inOrder(wanted).map((item) => reportOf(this.#known.said.get(item)!));
  }

  /** The person's own ratings, for ranking on this device. */
  ratings(): Map<string, number> {
    return new Map([...this.#known.said.values()].map((entry) => [entry.item, Number(entry.rating)]));
  }

  /** The latest report on every item, in order of item. */
  reports(): Report[] {
    return [...this.#known.said.values()].map(reportOf);
  }

  /** Those of them that the provider has not answered for; none while there is no consent. */
  unsent(): Report[] {
    if (!this.policy) return [];
    return [...this.#known.said.values()].filter((entry) => entry.delivery === "waiting").map(reportOf);
  }

  /** Notes that the provider has these reports. */
  async markSent(reports: readonly Report[]): Promise<void> {
    await this.#mark(reports, "sent");
  }

  /** Notes that the provider will not have these reports, so that they are not sent again. */
  async markRefused(reports: readonly Report[]): Promise<void> {
    await this.#mark(reports, "refused");
  }

  /** Returns the policy of a report of this device. */
  policyOf(report: Report): Policy {
    const policy = this.#known.policies.get(report.policy);
    if (!policy) throw new DeviceError(`policy ${report.policy} is none of this device's`);
    return policy;
  }

  /** What was spent, as a pure sum and as an (epsilon, delta) total. */
  totals(delta = 1e-6): Totals {
    return totalLoss(this.#known.spends(), delta);
  }

  /** Returns the account for the person to keep or show. */
  export(): LedgerExport {
    const entries = this.#known.entries.map((entry) => ({ ...reportOf(entry), epsilon: entry.epsilon }));
    const { lifetimeEpsilon, epsilonSpent } = this;
    return { format: "tacit-ledger-export/1", lifetime_epsilon: lifetimeEpsilon, epsilon_spent: epsilonSpent, entries };
  }

  /** Deletes everything here, token and true ratings included; the device cannot be used afterwards. */
  async forget(): Promise<void> {
    await this.#ledger.erase();
    this.#history = null;
  }

  /** Releases the ledger. */
  close(): void {
    this.#ledger.close();
  }

  get #known(): History {
    if (!this.#history) throw new DeviceError(FORGOTTEN);
    return this.#history;
  }

  /** Decides on a change from the newest history, and makes it durable first, true second. */
  async #change(decide: (history: History) => Changes, policy?: Policy): Promise<void> {
    for (;;) {
      const history = this.#known;
      const made = await this.#ledger.change(history.header, () => decide(history));
      if (!made) await this.refresh();
      else {
        if (made.header || made.entries?.length) this.#history = history.after(made, policy);
        return;
      }
    }
  }

  async #mark(reports: readonly Report[], delivery: Delivery): Promise<void> {
    await this.#change((history) => {
      const marked = new Set(reports.map(keyOf));
      const found = history.entries.filter((entry) => marked.has(keyOf(entry)) && entry.delivery !== delivery);
      return { entries: found.map((entry) => ({ ...entry, delivery })) };
    });
  }
}

function reportOf({ policy, item, symbol, revision }: Entry): Report {
  return { policy, item, symbol, revision };
}

function capOf(text: string): string {
  const cap = typeof text === "string" ? toUnits(text) : null;
  if (cap === null || cap <= 0n) {
    throw new DeviceError(`lifetime epsilon ${text} is not a decimal above 0 and below 10^9`);
  }
  return fromUnits(cap);
}

function newToken(): string {
  return hexOf(crypto.getRandomValues(new Uint8Array(16)));
}
