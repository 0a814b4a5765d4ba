import { ReportError } from "./errors.ts";
import type { Policy } from "./policy.ts";
import { isCount, isText } from "./strict-json.ts";

const LONGEST_ITEM = 200;
const LARGEST_REVISION = 2 ** 31 - 1;
const PRINTABLE = /^(?:[^\p{C}\p{Z}]| ){1,200}$/u;

/** One perturbed rating, the only thing that leaves the device: a symbol about an item, under a policy. */
export interface Report {
  readonly policy: string;
  readonly item: string;
  readonly symbol: number;
  /** How often the person changed the rating of this item. */
  readonly revision: number;
}

/** Refuses an item id that is empty, too long or not plain text. */
export function checkItem(item: unknown): asserts item is string {
  if (!isText(item, PRINTABLE) || new TextEncoder().encode(item).length > LONGEST_ITEM) {
    throw new ReportError(`an item's id is not 1 to ${LONGEST_ITEM} bytes of printable text`);
  }
}

/** Refuses what no device would say under a policy. */
export function checkReport(report: Report, policy: Policy): void {
  checkItem(report.item);
  const counts = isCount(report.symbol, policy.channel.symbols.length - 1) && isCount(report.revision, LARGEST_REVISION);
  if (!counts || report.policy !== policy.id) {
    throw new ReportError(`a report on item ${report.item} is none under policy ${policy.id}`);
  }
}
