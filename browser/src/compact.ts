import { ReportError } from "./errors.ts";
import type { Policy } from "./policy.ts";
import { checkReport, type Report } from "./report.ts";

export const MOST_REPORTS = 1000;
const MAGIC = [0x74, 0x63, 0x72, 1];
const WHOLE_NUMBER_ITEMS = 1;
const WITH_REVISIONS = 2;
const LARGEST_NUMBER = 2n ** 63n;

/** Writes a batch of reports under one policy in the compact form; its length says nothing of the symbols. */
export function encodeCompact(reports: readonly Report[], policy: Policy): Uint8Array {
  if (reports.length < 1 || reports.length > MOST_REPORTS) {
    throw new ReportError(`a batch holds 1 to ${MOST_REPORTS} reports, not ${reports.length}; split it`);
  }
  for (const report of reports) checkReport(report, policy);
  const numeric = reports.every((report) => isNumber(report.item));
  const revised = reports.some((report) => report.revision > 0);
  const bytes = [...MAGIC];
  for (let at = 0; at < policy.id.length; at += 2) bytes.push(parseInt(policy.id.slice(at, at + 2), 16));
  bytes.push(WHOLE_NUMBER_ITEMS * +numeric + WITH_REVISIONS * +revised);
  pushVarint(bytes, reports.length);
  for (const report of reports) numeric ? pushVarint(bytes, report.item) : pushText(bytes, report.item);
  if (revised) for (const report of reports) pushVarint(bytes, report.revision);
  pushPacked(bytes, reports, policy.channel.bits);
  return Uint8Array.from(bytes);
}

function isNumber(item: string): boolean {
  return /^(0|[1-9][0-9]{0,18})$/.test(item) && BigInt(item) < LARGEST_NUMBER;
}

function pushVarint(bytes: number[], number: number | string): void {
  let left = BigInt(number);
  for (; left >= 128n; left >>= 7n) bytes.push(Number(left & 127n) | 128);
  bytes.push(Number(left));
}

function pushText(bytes: number[], item: string): void {
  const encoded = new TextEncoder().encode(item);
  pushVarint(bytes, encoded.length);
  bytes.push(...encoded);
}

/** Packs symbols most significant bit first; the last byte is filled with zeros. */
function pushPacked(bytes: number[], reports: readonly Report[], width: number): void {
  let [held, bits] = [0, 0];
  for (const { symbol } of reports) {
    held = (held << width) | symbol;
    for (bits += width; bits >= 8; bits -= 8) bytes.push((held >> (bits - 8)) & 255);
    held &= (1 << bits) - 1;
  }
  if (bits) bytes.push((held << (8 - bits)) & 255);
}
