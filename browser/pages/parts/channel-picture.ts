/** A channel as pictures: how likely every report is after a rating, and which one was sent. */

import { element, shape } from "./dom.ts";
import { percent } from "./numbers.ts";

/** What a picture needs to know of a channel; the library's `Channel` has it. */
export interface Table {
  /** The values that symbols stand for. */
  values: readonly string[];
  /** P(symbol | rank), one row per rank. */
  rows: readonly (readonly number[])[];
}

const WIDTH = 192;
const HEIGHT = 40;
const GAP_SHARE = 0.15;

/** Draw one row: bars for all reports, the one sent marked. */
export function rowPicture(table: Table, rank: number, sent: number | null, label: string): SVGSVGElement {
  const row = table.rows[rank] ?? [];
  const highest = Math.max(...table.rows.flat());
  const width = WIDTH / row.length;
  const bars = row.map((chance, symbol) => {
    const height = Math.max(1, (chance / highest) * HEIGHT);
    const place = { x: round(symbol * width), y: round(HEIGHT - height), height: round(height) };
    return shape("rect", {
      ...place,
      width: round(width * (1 - GAP_SHARE)),
      class: symbol === sent ? "bar sent" : "bar",
      "data-symbol": symbol,
    });
  });
  return shape(
    "svg",
    {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      class: "row-picture",
      role: "img",
      "aria-label": label,
      preserveAspectRatio: "none",
    },
    shape("title", {}, label),
    ...bars,
  );
}

/** Draw the whole table, one row a rating. */
export function tablePicture(table: Table, ratings: readonly (string | number)[]): HTMLElement {
  const rows = ratings.map((rating, rank) =>
    element(
      "div",
      { class: "table-row" },
      element("span", { class: "table-rating" }, String(rating)),
      rowPicture(table, rank, null, couldBeSent(table, rank, String(rating))),
    ),
  );
  return element("div", { class: "table-picture" }, ...rows);
}

/** Say in words what may be sent after a rating. */
export function couldBeSent(table: Table, rank: number, rating: string): string {
  const row = table.rows[rank] ?? [];
  const likeliest = row.indexOf(Math.max(...row));
  const least = row.indexOf(Math.min(...row));
  return (
    `After a ${rating}, any of ${row.length} reports may be sent: ` +
    `most likely ${valueOf(table, likeliest)} (${percent(row[likeliest] ?? 0)}), ` +
    `least likely ${valueOf(table, least)} (${percent(row[least] ?? 0)}).`
  );
}

/** Say in words how little a report tells: its chance after every rating there is. */
export function whatItTells(table: Table, symbol: number): string {
  const chances = table.rows.map((row) => row[symbol] ?? 0);
  const [least, most] = [Math.min(...chances), Math.max(...chances)];
  const range = `${percent(least)} to ${percent(most)}`;
  return `${valueOf(table, symbol)}, which has a chance of ${range} whatever you think of it`;
}

/** The value a symbol stands for, in few digits. */
export function valueOf(table: Table, symbol: number): string {
  return `“${Number(Number(table.values[symbol]).toPrecision(3))}”`;
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
