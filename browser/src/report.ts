import { MOST_SYMBOLS } from "./channel.ts";
import { ReportError } from "./errors.ts";
import { isCount, isText } from "./strict-json.ts";

const FORMAT = "tacit-reports/1";
export const MOST_REPORTS = 1000;
const LONGEST_ITEM = 200;
const LARGEST_REVISION = 2 ** 31 - 1;
const POLICY_ID = /^[0-9a-f]{64}$/;
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

/** Refuses what no device would say. */
export function checkReport(report: Report): void {
  checkItem(report.item);
  const counts = isCount(report.symbol, MOST_SYMBOLS - 1) && isCount(report.revision, LARGEST_REVISION);
  if (!counts || !isText(report.policy, POLICY_ID)) {
    throw new ReportError(`a report on item ${report.item} is out of range`);
  }
}

/** Refuses reports that make no batch; returns the policy they share. */
export function onePolicy(reports: readonly Report[]): string {
  if (reports.length < 1 || reports.length > MOST_REPORTS) {
    throw new ReportError(`a batch holds 1 to ${MOST_REPORTS} reports, not ${reports.length}; split it`);
  }
  reports.forEach(checkReport);
  const policy = reports[0]!.policy;
  if (reports.some((report) => report.policy !== policy)) {
    throw new ReportError("reports of several policies make no batch; split it");
  }
  return policy;
}

/** Writes a batch of reports under one policy as JSON. */
export function encodeJson(reports: readonly Report[]): string {
  const policy = onePolicy(reports);
  const rows = reports.map(({ item, symbol, revision }) => ({ item, symbol, revision }));
  return JSON.stringify({ format: FORMAT, policy, reports: rows });
}
