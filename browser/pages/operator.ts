/** The operator's page: what arrives, what was learned from it, and a button to learn again. */

import { byId, say } from "./parts/dom.ts";
import { Runs } from "./parts/runs.ts";
import { ask, askJson, bearer, inWords, ServiceError } from "./parts/service.ts";
import { isOpen, type Run, type Stats } from "./parts/stats.ts";
import { Traffic } from "./parts/traffic.ts";

const REFRESH_MS = 5000;
const PROGRESS_MS = 1000;
const MOST_RUNS = 20;

class Operator {
  private readonly traffic = new Traffic();
  private readonly runs = new Runs({ log: (id) => this.text(`/v1/training-runs/${id}/log`) });
  private timer: ReturnType<typeof setTimeout> | undefined;
  private progress: ReturnType<typeof setTimeout> | undefined;

  /** The token lives in this object alone: not in storage, not in an address. */
  constructor(private readonly token: string) {}

  /** Show the figures and keep them fresh. */
  open(stats: Stats): void {
    byId("start-run").addEventListener("click", () => void this.startRun());
    document.addEventListener("visibilitychange", () => void this.refresh());
    this.show(stats);
    this.timer = setTimeout(() => void this.refresh(), REFRESH_MS);
    void this.follow();
  }

  /** Fetch the figures; also how the token is tried. */
  fetchStats(): Promise<Stats> {
    return this.json<Stats>("/v1/stats");
  }

  /** Fetch and show the figures, now and every few seconds while the page is seen. */
  private async refresh(): Promise<void> {
    clearTimeout(this.timer);
    if (document.hidden) return;
    await this.attempt(async () => this.show(await this.fetchStats()));
    await this.follow();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.refresh(), REFRESH_MS);
  }

  /** Show the runs as they are now, and again soon while one is under way: the figures are older than that. */
  private async follow(): Promise<void> {
    clearTimeout(this.progress);
    await this.attempt(async () => {
      const { runs } = await this.json<{ runs: Run[] }>("/v1/training-runs");
      this.runs.show(runs.slice(0, MOST_RUNS));
      byId<HTMLButtonElement>("start-run").disabled = runs.some(isOpen);
      if (!runs.some(isOpen) || document.hidden) return;
      clearTimeout(this.progress);
      this.progress = setTimeout(() => void this.follow(), PROGRESS_MS);
    });
  }

  private show(stats: Stats): void {
    this.traffic.show(stats);
    byId("updated").textContent = `As of ${new Date().toLocaleTimeString()}, again every ${REFRESH_MS / 1000} s`;
    const notice = byId("notice");
    if (notice.dataset.kind === "bad") say(notice, "");
  }

  private async startRun(): Promise<void> {
    const headers = { ...bearer(this.token), "Content-Type": "application/json" };
    await this.attempt(async () => {
      const run = (await (await ask("/v1/training-runs", { method: "POST", headers, body: "{}" })).json()) as Run;
      say(byId("notice"), `Run ${run.id} was started.`, "good");
      this.runs.choose(run.id);
    });
    await this.follow();
  }

  private async attempt(act: () => Promise<void>): Promise<void> {
    try {
      await act();
    } catch (error) {
      say(byId("notice"), inWords(error), "bad");
    }
  }

  private json<T>(path: string): Promise<T> {
    return askJson<T>(path, { headers: bearer(this.token), cache: "no-store" });
  }

  private async text(path: string): Promise<string> {
    return (await ask(path, { headers: bearer(this.token), cache: "no-store" })).text();
  }
}

async function enter(event: SubmitEvent): Promise<void> {
  event.preventDefault();
  const input = byId<HTMLInputElement>("token");
  const token = input.value.trim();
  const notice = byId("notice");
  if (!/^[\x21-\x7e]{16,200}$/.test(token)) {
    say(notice, "An admin token has 16 to 200 printable characters.", "bad");
    return;
  }
  const operator = new Operator(token);
  try {
    const stats = await operator.fetchStats();
    input.value = "";
    byId("sign-in").hidden = true;
    byId("figures").hidden = false;
    say(notice, "");
    operator.open(stats);
  } catch (error) {
    const refused = error instanceof ServiceError && (error.status === 401 || error.status === 403);
    say(notice, refused ? "The provider does not accept this token." : inWords(error), "bad");
  }
}

byId<HTMLFormElement>("sign-in").addEventListener("submit", (event) => void enter(event));
document.body.dataset.ready = "yes";
