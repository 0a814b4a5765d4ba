import { totalLoss, type Totals } from "./accounting.ts";
import { fromUnits, toUnits } from "./decimals.ts";
import { among, isRefused, marked, reportOf } from "./delivery.ts";
import { BudgetError, DeviceError } from "./errors.ts";
import { hexOf } from "./hex.ts";
import { FORGOTTEN, History } from "./history.ts";
import { Ledger, type Changes, type Delivery, type Entry } from "./ledger.ts";
import { Policy } from "./policy.ts";
import { drawn, inOrder, quoted, type Quote, type RateOptions } from "./quote.ts";
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

/** The account for a person to keep or show: everything said and spent, no true rating. */
export interface LedgerExport {
  readonly format: "tacit-ledger-export/1";
  readonly lifetime_epsilon: string;
  readonly epsilon_spent: string;
  /** What of it was spent before everything was deleted, and is in no entry. */
  readonly epsilon_spent_before: string;
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

  /** The pure sum spent so far, over all that was ever deleted here. */
  get epsilonSpent(): string {
    return fromUnits(this.#known.spent);
  }

  /** What of it was spent before everything was deleted. */
  get epsilonSpentBefore(): string {
    return fromUnits(this.#known.spentBefore);
  }

  /** Whether everything was deleted, here or in another tab; such a device is of no more use. */
  get forgotten(): boolean {
    return !this.#history;
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
    await this.#change(() => ({ header: { policy: null } }));
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

  /** Says ratings, all or none: draws and charges the new ones, repeats what was said of the others; what was refused is sent again. */
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
      const again = history.entries.filter((entry) => wanted.has(entry.item) && isRefused(entry));
      return { entries: [...drawn(history, fresh), ...marked(again, "waiting")] };
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

  /** Those of them that are to be sent; none while there is no consent. */
  unsent(): Report[] {
    return this.policy ? this.#delivered("waiting") : [];
  }

  /** Those of them that the provider would not have; they wait again when asked to, or when rated the same again. */
  refused(): Report[] {
    return this.#delivered("refused");
  }

  /** Notes that the provider has these reports. */
  async markSent(reports: readonly Report[]): Promise<void> {
    await this.#mark("sent", among(reports));
  }

  /** Notes that the provider would not have these reports, so that they are not sent again and again. */
  async markRefused(reports: readonly Report[]): Promise<void> {
    await this.#mark("refused", among(reports));
  }

  /** Has the reports that were refused wait again, for a provider that may take them by now. */
  async retryRefused(): Promise<void> {
    await this.#mark("waiting", isRefused);
  }

  /** Returns the policy of a report of this device. */
  policyOf(report: Report): Policy {
    const policy = this.#known.policies.get(report.policy);
    if (!policy) throw new DeviceError(`policy ${report.policy} is none of this device's`);
    return policy;
  }

  /** What was spent, as a pure sum and as an (epsilon, delta) total. */
  totals(delta = 1e-6): Totals {
    const since = totalLoss(this.#known.spends(), delta);
    const pure = this.epsilonSpent;
    // What was said before a deletion is not known any more; its pure sum on top of the rest bounds both together.
    const approximate = Math.min(Number(pure), since.approximate + Number(this.epsilonSpentBefore));
    return { ...since, pure, approximate };
  }

  /** Returns the account for the person to keep or show. */
  export(): LedgerExport {
    const entries = this.#known.entries.map((entry) => ({ ...reportOf(entry), epsilon: entry.epsilon }));
    return {
      format: "tacit-ledger-export/1",
      lifetime_epsilon: this.lifetimeEpsilon,
      epsilon_spent: this.epsilonSpent,
      epsilon_spent_before: this.epsilonSpentBefore,
      entries,
    };
  }

  /**
   * Deletes everything here, token and true ratings included; the device cannot be used afterwards.
   *
   * The sum of what was spent stays, for the next device: the provider may have kept what it was told.
   */
  async forget(): Promise<void> {
    await this.#change((history) => ({ allButSpent: fromUnits(history.spent) }));
    this.#history = null;
    this.close();
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

  #delivered(delivery: Delivery): Report[] {
    return [...this.#known.said.values()].filter((entry) => entry.delivery === delivery).map(reportOf);
  }

  async #mark(delivery: Delivery, isMeant: (entry: Entry) => boolean): Promise<void> {
    await this.#change(({ entries }) => ({ entries: marked(entries.filter(isMeant), delivery) }));
  }
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
