/** The operator's figures of what arrived: reports by the hour, rejections, epsilon by device, sizing. */

import { Chart } from "./chart.ts";
import { byId, element, facts, fill, table } from "./dom.ts";
import { bytes, count, decimal, percent } from "./numbers.ts";
import type { Stats } from "./stats.ts";

const MOST_POINTS = 48;
const LEAST_HOURS = 24;
const MOST_HOURS = 168;
const HOUR_MS = 3_600_000;

type Hour = Stats["hours"][number];

export class Traffic {
  private readonly chart = new Chart(byId("hours-chart"));
  private readonly histogram = new Chart(byId("epsilon-chart"));
  private drawn = "";

  show(stats: Stats): void {
    fill(byId("totals"), totals(stats));
    fill(byId("rejections"), rejections(stats));
    fill(byId("policies"), policies(stats));
    fill(byId("sizing"), sizing(stats));
    this.draw(stats);
  }

  /** Draw the charts where something changed, so that a chart being read is left alone. */
  private draw({ hours: busy, epsilon }: Stats): void {
    const hours = everyHour(busy);
    const points = hours.length <= MOST_POINTS;
    const now = JSON.stringify([hours, epsilon]);
    if (now === this.drawn) return;
    this.drawn = now;
    byId("hours-chart").hidden = hours.length === 0;
    byId("epsilon-chart").hidden = epsilon.length === 0;
    this.chart.show({
      xLabel: "hour",
      yLabel: "reports",
      x: hours.map(({ hour }) => Date.parse(hour) / 1000),
      time: true,
      lines: [
        { label: "accepted", colour: 0, values: hours.map((one) => one.accepted), points },
        { label: "duplicates", colour: 3, values: hours.map((one) => one.duplicates), points, dash: [6, 4] },
        { label: "rejected", colour: 2, values: hours.map((one) => one.rejected), points, dash: [2, 4] },
      ],
    });
    this.histogram.show({
      xLabel: "epsilon spent, pure sum",
      yLabel: "devices",
      x: epsilon.map(({ from, to }) => (Number(from) + Number(to)) / 2),
      xRange: [Number(epsilon[0]?.from ?? 0), Number(epsilon.at(-1)?.to ?? 1)],
      lines: [{ label: "devices", colour: 0, values: epsilon.map(({ devices }) => devices), bars: true }],
    });
    fill(byId("epsilon-table"), epsilonTable({ epsilon }));
  }
}

/** Fill in the hours in which nothing happened, so that no line is drawn across them; a day at least. */
function everyHour(busy: Hour[]): Hour[] {
  const known = new Map(busy.map((one) => [Date.parse(one.hour), one]));
  const [first, last] = [Math.min(...known.keys()), Math.max(...known.keys())];
  const length = busy.length === 0 ? 0 : Math.min(Math.max((last - first) / HOUR_MS + 1, LEAST_HOURS), MOST_HOURS);
  return Array.from({ length }, (_, at) => {
    const time = last - (length - 1 - at) * HOUR_MS;
    return known.get(time) ?? { hour: new Date(time).toISOString(), accepted: 0, duplicates: 0, rejected: 0 };
  });
}

function totals({ reports, devices, items }: Stats): HTMLElement {
  return facts([
    ["Reports", count(reports)],
    ["Devices", count(devices)],
    ["Items", count(items)],
    ["Reports a device", devices === 0 ? "–" : decimal(reports / devices, 1)],
  ]);
}

function rejections({ rejections: found }: Stats): HTMLElement {
  const rows = Object.entries(found).filter(([, times]) => times > 0);
  if (rows.length === 0) return element("p", { class: "quiet" }, "Nothing was rejected.");
  return table(
    "Rejections by reason",
    ["reason", "times"],
    rows.map(([reason, times]) => [reason, count(times)]),
  );
}

function policies({ policies: found, reports }: Stats): HTMLElement {
  const rows = found.map((policy) => [
    element("code", { class: "id" }, policy.id.slice(0, 12)),
    policy.mechanism,
    policy.epsilon,
    `${count(policy.reports)}${reports > 0 ? ` (${percent(policy.reports / reports)})` : ""}`,
  ]);
  return table("Policies", ["policy", "mechanism", "epsilon", "reports"], rows);
}

function epsilonTable({ epsilon }: Pick<Stats, "epsilon">): HTMLElement {
  const rows = epsilon.map(({ from, to, devices }) => [
    `${decimal(Number(from))} to ${decimal(Number(to))}`,
    count(devices),
  ]);
  return table("Epsilon spent by devices", ["epsilon", "devices"], rows);
}

function sizing({ sizing: found }: Stats): HTMLElement {
  const size = (value: number | null) => (value === null ? "–" : bytes(Math.round(value)));
  return element(
    "div",
    {},
    facts([
      ["Database", size(found.database_bytes)],
      ["One report", size(found.bytes_per_report)],
      ["Published model", size(found.model_bytes)],
      ["Memory to train", size(found.training_memory_bytes)],
    ]),
    element("ul", {}, ...found.advice.map((line) => element("li", {}, line))),
  );
}
