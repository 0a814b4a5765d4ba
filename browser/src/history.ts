/** A device's history: what the contents of its ledger add up to. */
import { toUnits } from "./decimals.ts";
import { ConsentError, DeviceError, TacitError } from "./errors.ts";
import { nextHeader, type Changes, type Contents, type Entry, type Header } from "./ledger.ts";
import { Policy } from "./policy.ts";
import { checkReport } from "./report.ts";

export const FORGOTTEN = "this device was forgotten; open it again";

/** Consent, cap, reports and spending at one moment. */
export class History {
  /** The latest entry on every item, in order of item. */
  readonly said: ReadonlyMap<string, Entry>;
  /** In units of 10^-18: in all, and what of it was spent before everything was deleted here. */
  readonly spent: bigint;
  readonly spentBefore: bigint;

  constructor(
    readonly header: Header,
    /** Every policy ever consented to, verified, by id. */
    readonly policies: ReadonlyMap<string, Policy>,
    /** In order of item and revision. */
    readonly entries: readonly Entry[],
  ) {
    this.said = new Map(entries.map((entry) => [entry.item, entry]));
    this.spentBefore = toUnits(header.spentBefore ?? "0")!;
    this.spent = this.spentBefore + entries.reduce((sum, entry) => sum + toUnits(entry.epsilon)!, 0n);
  }

  /** Adds up what a ledger holds; its policies are verified again unless they are among those known. */
  static async of(contents: Contents, known: ReadonlyMap<string, Policy> = new Map()): Promise<History> {
    if (!contents.header?.token) throw new DeviceError(FORGOTTEN);
    try {
      const documents = new Map([...known.values()].map((policy) => [policy.document, policy]));
      const read = contents.policies.map(async (document) => documents.get(document) ?? Policy.read(document));
      const policies = new Map((await Promise.all(read)).map((policy) => [policy.id, policy]));
      const history = new History(contents.header as Header, policies, contents.entries);
      if (history.spentBefore >= 0n && history.entries.every((entry) => isOwn(entry, policies.get(entry.policy)!))) return history;
    } catch (error) {
      if (!(error instanceof TacitError || error instanceof TypeError)) throw error;
    }
    throw new DeviceError("the device's storage is damaged; clear this site's data");
  }

  /** Returns the history after a change that was made durable. */
  after(changes: Changes, policy: Policy | undefined): History {
    const policies = policy ? new Map([...this.policies, [policy.id, policy]]) : this.policies;
    const merged = new Map([...this.entries, ...(changes.entries ?? [])].map((entry) => [keyOf(entry), entry]));
    return new History(nextHeader(this.header, changes), policies, [...merged.values()].sort(byItem));
  }

  get policy(): Policy | null {
    return this.policies.get(this.header.policy ?? "") ?? null;
  }

  /** Returns the policy consented to, or refuses. */
  consented(): Policy {
    if (this.policy) return this.policy;
    throw new ConsentError("no consent was given; show the policy, then call consent");
  }

  /** Counts the reports made under each policy. */
  spends(): [Policy, number][] {
    const counts = new Map<string, number>();
    for (const { policy } of this.entries) counts.set(policy, (counts.get(policy) ?? 0) + 1);
    return [...counts].map(([id, count]) => [this.policies.get(id)!, count]);
  }
}

/** Tells whether a policy could have produced an entry at its price. */
function isOwn(entry: Entry, policy: Policy): boolean {
  checkReport(entry, policy);
  const { scale, epsilon } = policy;
  return entry.epsilon === epsilon && scale.ratingAt(scale.rankOf(Number(entry.rating))) === entry.rating;
}

/** Tells the entries of a device apart. */
export function keyOf({ item, revision }: Pick<Entry, "item" | "revision">): string {
  return `${revision} ${item}`;
}

function byItem(one: Entry, other: Entry): number {
  return one.item < other.item ? -1 : one.item > other.item ? 1 : one.revision - other.revision;
}
