/** Line and bar charts in the page's own colours; uPlot has its home here. */

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

export interface Line {
  label: string;
  /** Numbers the line's colour and dash; lines that belong together share a colour. */
  colour: number;
  values: (number | null)[];
  dash?: number[];
  /** Bars instead of a line. */
  bars?: boolean;
  /** Points at what was measured. */
  points?: boolean;
  /** Read on an axis of its own, at the right. */
  right?: string;
}

export interface ChartOptions {
  xLabel: string;
  yLabel: string;
  x: number[];
  lines: Line[];
  /** Whether x is a time in seconds. */
  time?: boolean;
  logarithmic?: boolean;
  xRange?: [number, number];
  xTicks?: number[];
  marked?: number;
}

const HEIGHT = 300;
const LEAST_WIDTH = 240;
const AXIS_WIDTH = 66;
const WHOLE_STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000];
const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 4 });

/** A chart in a place of the page, drawn again when its data, its width or the colour scheme change. */
export class Chart {
  private plot: uPlot | null = null;
  private options: ChartOptions | null = null;

  constructor(private readonly place: HTMLElement) {
    new ResizeObserver(() => this.plot?.setSize(this.size())).observe(place);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  show(options: ChartOptions): void {
    this.options = options;
    this.draw();
  }

  private draw(): void {
    if (this.options === null) return;
    this.plot?.destroy();
    const { x, lines } = this.options;
    this.plot = new uPlot(this.settings(this.options), [x, ...lines.map((line) => line.values)], this.place);
  }

  private size(): { width: number; height: number } {
    return { width: Math.max(LEAST_WIDTH, this.place.clientWidth), height: HEIGHT };
  }

  private settings(options: ChartOptions): uPlot.Options {
    const { xLabel, lines, time, logarithmic, xRange, marked } = options;
    const scale = {
      time: time ?? false,
      distr: logarithmic === true ? 3 : 1,
      ...(xRange === undefined ? {} : { range: xRange }),
    };
    return {
      ...this.size(),
      scales: { x: scale as uPlot.Scale, y: { range: padded }, right: { range: padded } },
      axes: axes(options),
      series: [{ label: xLabel, ...(time === true ? {} : { value: plainNumber }) }, ...lines.map(series)],
      hooks: marked === undefined ? {} : { draw: [(plot) => mark(plot, marked)] },
      cursor: { drag: { x: false, y: false } },
    };
  }
}

function axes({ xLabel, yLabel, xTicks, time, lines }: ChartOptions): uPlot.Axis[] {
  const [ink, grid] = [colour("--ink-soft"), colour("--line")];
  const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 }, labelSize: 22 };
  const right = lines.find((line) => line.right !== undefined)?.right;
  const ticks =
    xTicks === undefined
      ? time === true
        ? {}
        : { incrs: WHOLE_STEPS }
      : { splits: xTicks, filter: (_: uPlot, all: number[]) => all, values: plainNumbers };
  const bottom = { ...axis, label: xLabel, ...ticks } as uPlot.Axis;
  const upright = {
    ...axis,
    size: AXIS_WIDTH,
    values: (_: uPlot, all: number[]) => all.map((value) => COMPACT.format(value)),
  };
  const left = { ...upright, label: yLabel };
  if (right === undefined) return [bottom, left];
  return [bottom, left, { ...upright, label: right, scale: "right", side: 1, grid: { show: false } }];
}

function series(line: Line): uPlot.Series {
  const stroke = colour(`--series-${line.colour}`);
  return {
    label: line.label,
    stroke,
    width: 2,
    spanGaps: true,
    ...(line.dash === undefined ? {} : { dash: line.dash }),
    ...(line.bars === true ? { paths: uPlot.paths.bars?.({ size: [0.8, 60] }) ?? null, fill: stroke } : {}),
    points: { show: line.points ?? false, size: 7, fill: stroke },
    scale: line.right === undefined ? "y" : "right",
    value: plainNumber,
  } as uPlot.Series;
}

/** A line down the chart at the value that is being looked at. */
function mark(plot: uPlot, at: number): void {
  const x = plot.valToPos(at, "x", true);
  const { left, top, width, height } = plot.bbox;
  if (x < left || x > left + width) return;
  plot.ctx.save();
  plot.ctx.strokeStyle = colour("--accent");
  plot.ctx.lineWidth = 2;
  plot.ctx.setLineDash([3, 5]);
  plot.ctx.beginPath();
  plot.ctx.moveTo(x, top);
  plot.ctx.lineTo(x, top + height);
  plot.ctx.stroke();
  plot.ctx.restore();
}

function padded(_: uPlot, least: number | null, most: number | null): [number, number] {
  if (least === null || most === null) return [0, 1];
  const room = (most - least) * 0.08 || Math.abs(most) * 0.1 || 1;
  return [least >= 0 && least < room ? 0 : least - room, most + room];
}

function plainNumbers(_: uPlot, values: number[]): string[] {
  return values.map(String);
}

function plainNumber(_: uPlot, value: number | null): string {
  return value === null || value === undefined ? "–" : String(Number(value.toPrecision(4)));
}

function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
