/** Where the reports of a device are: waiting, with the provider, or refused by it. */
import { keyOf } from "./history.ts";
import type { Delivery, Entry } from "./ledger.ts";
import type { Report } from "./report.ts";

/** Returns what may leave the device of an entry. */
export function reportOf({ policy, item, symbol, revision }: Entry): Report {
  return { policy, item, symbol, revision };
}

export function marked(entries: readonly Entry[], delivery: Delivery): Entry[] {
  return entries.map((entry) => ({ ...entry, delivery }));
}

export function isRefused(entry: Entry): boolean {
  return entry.delivery === "refused";
}

/** Picks the entries of some reports. */
export function among(reports: readonly Report[]): (entry: Entry) => boolean {
  const keys = new Set(reports.map(keyOf));
  return (entry) => keys.has(keyOf(entry));
}
