/** The page on epsilon and accuracy: one report's channel, and the errors that were measured. */

import { couldBeSent, tablePicture, type Table } from "./parts/channel-picture.ts";
import { Chart, type Line } from "./parts/chart.ts";
import { byId, element, facts, fill, say, table } from "./parts/dom.ts";
import { percent, upwards } from "./parts/numbers.ts";
import { askJson, inWords } from "./parts/service.ts";

interface ChannelFigures {
  loss: number;
  values: number[];
  rows: number[][];
  /** How often the best guess from one report is right, under the prior. */
  right: number;
  /** The standard deviation of the noise in one calibrated report. */
  noise: number;
}

interface Curve {
  label: string;
  mechanism: string;
  at: string;
  /** Epsilon, error, and its standard deviation over folds. */
  points: [number | null, number, number][];
}

interface Measured {
  name: string;
  folds: number;
  curves: Curve[];
  levels: Curve[];
}

interface Tradeoff {
  source: string;
  ratings: number[];
  prior: number[];
  epsilons: string[];
  channels: Record<string, ChannelFigures[]>;
  measured: Measured[];
}

const START = { epsilon: "1", mechanism: "bounded-laplace" };
const FIRST_LEVEL_COLOUR = 6;
const EPSILON_RANGE: [number, number] = [0.09, 11];
const EPSILON_TICKS = [0.1, 0.2, 0.5, 1, 2, 5, 10];

class Explorer {
  private readonly epsilon = byId<HTMLInputElement>("epsilon");
  private readonly mechanism = byId<HTMLSelectElement>("mechanism");
  private readonly data = byId<HTMLSelectElement>("data");
  private readonly chart = new Chart(byId("chart"));

  constructor(private readonly tradeoff: Tradeoff) {
    this.epsilon.max = String(tradeoff.epsilons.length - 1);
    this.epsilon.value = String(tradeoff.epsilons.indexOf(START.epsilon));
    fill(this.mechanism, ...Object.keys(tradeoff.channels).map((name) => element("option", {}, name)));
    this.mechanism.value = START.mechanism;
    fill(this.data, ...tradeoff.measured.map(({ name }, at) => element("option", { value: at }, name)));
    for (const control of [this.epsilon, this.mechanism, this.data])
      control.addEventListener("input", () => this.show());
    this.show();
  }

  private show(): void {
    const epsilon = this.tradeoff.epsilons[Number(this.epsilon.value)] ?? START.epsilon;
    this.epsilon.setAttribute("aria-valuetext", `epsilon ${epsilon}`);
    byId("epsilon-value").textContent = epsilon;
    this.showChannel(epsilon);
    this.showMeasured(epsilon);
  }

  private showChannel(epsilon: string): void {
    const figures = this.tradeoff.channels[this.mechanism.value]?.[Number(this.epsilon.value)];
    if (figures === undefined) return;
    const picture: Table = { values: figures.values.map(String), rows: figures.rows };
    fill(byId("channel"), tablePicture(picture, this.tradeoff.ratings));
    fill(byId("figures"), this.facts(figures, epsilon));
    byId("in-words").textContent = couldBeSent(picture, this.tradeoff.ratings.length - 1, "5");
  }

  private facts(figures: ChannelFigures, epsilon: string): HTMLElement {
    const blind = Math.max(...this.tradeoff.prior);
    return facts([
      ["Exact loss", `${figures.loss} of ${epsilon}`],
      ["Largest factor", `${upwards(Math.exp(figures.loss), 2)} times`],
      ["Best guess is right", percent(figures.right)],
      ["Without a report", percent(blind)],
      ["Noise (deviation)", String(figures.noise)],
      ["Possible reports", String(figures.values.length)],
    ]);
  }

  private showMeasured(epsilon: string): void {
    const measured = this.tradeoff.measured[Number(this.data.value)];
    if (measured === undefined) return;
    const curves = measured.curves.map((curve, at) => ({ curve, colour: at })).filter(({ curve }) => this.suits(curve));
    byId("no-curve").hidden = curves.length > 0;
    const x = grid(measured.curves);
    const lines = curves.map(({ curve, colour }) => line(curve, colour, x));
    const levels = measured.levels.map((level, at) => levelLine(level, FIRST_LEVEL_COLOUR + at, x.length));
    this.chart.show({
      xLabel: "epsilon of one rating",
      yLabel: "RMSE on held-out ratings",
      x,
      lines: [...lines, ...levels],
      logarithmic: true,
      xRange: EPSILON_RANGE,
      xTicks: EPSILON_TICKS,
      marked: Number(epsilon),
    });
    fill(byId("measured-table"), numbersTable(measured, x));
    byId("source").textContent =
      `${measured.name}, mean over ${measured.folds} of ten folds, seed 0. Source: ${this.tradeoff.source}. ` +
      "The dotted line is the epsilon chosen above; nothing between the points was measured.";
  }

  private suits(curve: Curve): boolean {
    return byId<HTMLInputElement>("all-mechanisms").checked || curve.mechanism === this.mechanism.value;
  }

  /** Draw again when the choice of curves changes. */
  listen(): void {
    byId("all-mechanisms").addEventListener("change", () => this.show());
  }
}

function grid(curves: Curve[]): number[] {
  const found = curves.flatMap(({ points }) => points.map(([epsilon]) => epsilon ?? 0));
  return [...new Set(found)].sort((one, other) => one - other);
}

function line(curve: Curve, colour: number, x: number[]): Line {
  const values = x.map((epsilon) => curve.points.find(([at]) => at === epsilon)?.[1] ?? null);
  return { label: curve.label, colour, values, points: true };
}

function levelLine(level: Curve, colour: number, length: number): Line {
  const error = level.points[0]?.[1] ?? null;
  return { label: level.label, colour, values: Array<number | null>(length).fill(error), dash: [6, 4] };
}

function numbersTable(measured: Measured, x: number[]): HTMLElement {
  const rows = measured.curves.map((curve) => [
    curve.label,
    ...x.map((epsilon) => String(curve.points.find(([at]) => at === epsilon)?.[1] ?? "")),
  ]);
  const levels = measured.levels.map((level) => [level.label, ...x.map(() => String(level.points[0]?.[1] ?? ""))]);
  return table("Measured RMSE by epsilon", ["RMSE", ...x.map((epsilon) => `epsilon ${epsilon}`)], [...rows, ...levels]);
}

async function start(): Promise<void> {
  try {
    new Explorer(await askJson<Tradeoff>("/assets/tradeoff.json")).listen();
  } catch (error) {
    say(byId("notice"), inWords(error), "bad");
  } finally {
    document.body.dataset.ready = "yes";
  }
}

void start();
