/** Training runs: their list, and one of them with its curves, quality and log. */

import { Chart } from "./chart.ts";
import { button, byId, element, facts, fill, say, table } from "./dom.ts";
import { count, decimal } from "./numbers.ts";
import { isOpen, type Quality, type Run } from "./stats.ts";

export interface RunEvents {
  log(id: number): Promise<string>;
}

export class Runs {
  private readonly chart = new Chart(byId("trace-chart"));
  private chosen: number | null = null;
  private drawn = "";
  private logged = "";
  private runs: Run[] = [];

  constructor(private readonly events: RunEvents) {}

  /** Show the list, and the chosen run or the newest. */
  show(runs: Run[]): void {
    this.runs = runs;
    fill(byId("runs"), this.list());
    const run = this.run();
    byId("run").hidden = run === undefined;
    if (run !== undefined) this.detail(run);
  }

  /** Choose the run to look at. */
  choose(id: number): void {
    this.chosen = id;
    this.show(this.runs);
  }

  private run(): Run | undefined {
    return this.runs.find(({ id }) => id === this.chosen) ?? this.runs[0];
  }

  private list(): HTMLElement {
    if (this.runs.length === 0)
      return element("p", { class: "quiet" }, "No run yet. Start one when reports have arrived.");
    const shown = this.run()?.id;
    const rows = this.runs.map((run) => [
      button(`Run ${run.id}`, () => this.choose(run.id), {
        class: "link",
        "aria-pressed": run.id === shown,
        "data-run": run.id,
      }),
      element(
        "span",
        { class: `state ${run.state}`, "data-testid": "run-state" },
        run.published ? `${run.state}, published` : run.state,
      ),
      run.model,
      run.reports === null ? "–" : count(run.reports),
      run.quality === null ? "–" : decimal(run.quality.rmse, 3),
      run.seconds === null ? "–" : `${decimal(run.seconds, 1)} s`,
      run.hour.replace("T", " "),
    ]);
    return table("Training runs", ["run", "state", "model", "reports", "error", "took", "hour"], rows);
  }

  private detail(run: Run): void {
    byId("run-title").textContent = `Run ${run.id}: ${run.state}`;
    this.progress(run);
    say(byId("run-error"), run.error ?? "", "bad");
    fill(byId("run-quality"), quality(run.quality));
    this.curves(run);
    void this.log(run);
  }

  private progress(run: Run): void {
    const bar = byId<HTMLProgressElement>("run-progress");
    bar.hidden = !isOpen(run);
    if (run.of_iterations === null) bar.removeAttribute("value");
    else [bar.max, bar.value] = [run.of_iterations, run.iterations];
    const of = run.of_iterations === null ? "" : ` of at most ${run.of_iterations}`;
    say(byId("run-status"), run.state === "queued" ? "Waiting to start." : `${run.iterations} iterations${of}.`);
  }

  private curves(run: Run): void {
    const { objective, likelihood } = run.trace;
    const now = JSON.stringify([run.id, run.trace]);
    byId("trace-chart").hidden = objective.length === 0;
    if (now === this.drawn || objective.length === 0) return;
    this.drawn = now;
    const known = likelihood.some((value) => value !== null);
    this.chart.show({
      xLabel: "iteration",
      yLabel: "objective",
      x: objective.map((_, at) => at + 1),
      lines: [
        { label: "objective", colour: 0, values: objective, points: objective.length < 3 },
        ...(known
          ? [{ label: "log likelihood", colour: 3, values: likelihood, dash: [6, 4], right: "log likelihood" }]
          : []),
      ],
    });
  }

  private async log(run: Run): Promise<void> {
    const mark = `${run.id} ${run.state} ${run.iterations}`;
    if (mark === this.logged) return;
    this.logged = mark;
    try {
      byId("run-log").textContent = await this.events.log(run.id);
    } catch {
      byId("run-log").textContent = "The log is not there yet.";
    }
  }
}

function quality(found: Quality | null): HTMLElement {
  if (found === null) return element("p", { class: "quiet" }, "Not judged on held-out reports yet.");
  const { rmse, rmse_low: low, rmse_high: high, constant_rmse: constant, held_out: heldOut } = found;
  return element(
    "div",
    {},
    facts([
      ["Error on true ratings, estimated", `${decimal(rmse, 3)} (95 %: ${decimal(low, 3)} to ${decimal(high, 3)})`],
      ["One constant for everybody", decimal(constant, 3)],
      ["Reports held out", count(heldOut)],
    ]),
    element(
      "p",
      { class: "quiet" },
      "From perturbed reports alone: the channel’s known noise is taken off. No rating was seen.",
    ),
  );
}
