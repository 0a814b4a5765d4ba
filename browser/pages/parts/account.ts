/** The running privacy account, and what a person may do about it: cap, pause, export, delete. */

import { confirmed } from "./dialog.ts";
import { button, byId, element, facts, fill, say } from "./dom.ts";
import { bytes, count, decimal, upwards } from "./numbers.ts";
import { inWords } from "./service.ts";
import type { Session } from "./session.ts";

const DELTA = 1e-6;

export interface AccountEvents {
  pause(): Promise<void>;
  deleteEverything(): Promise<void>;
}

export class Account {
  private readonly place = byId("account-figures");
  private readonly notice = byId("account-notice");
  private readonly pauseButton: HTMLButtonElement;

  constructor(
    private readonly session: Session,
    events: AccountEvents,
  ) {
    this.pauseButton = button("Pause", () => this.attempt(() => events.pause()), { "data-testid": "pause" });
    const actions = [
      button("Change cap …", () => this.attempt(() => this.changeCap()), { "data-testid": "change-cap" }),
      this.pauseButton,
      button("Export account", () => this.attempt(() => this.export()), { "data-testid": "export" }),
      button("Delete everything …", () => this.attempt(() => this.delete(events)), {
        "data-testid": "delete",
        class: "danger",
      }),
    ];
    fill(byId("account-actions"), ...actions);
    session.onChange(() => this.show());
  }

  /** Show the figures of this moment. */
  show(): void {
    const { device } = this.session;
    const totals = device.totals(DELTA);
    this.pauseButton.hidden = device.policy === null;
    const waiting = device.policy === null ? "paused" : count(device.unsent().length);
    fill(
      this.place,
      this.capBar(),
      facts(
        [
          ["Reports drawn", count(totals.reports)],
          ["Epsilon, pure sum", totals.pure],
          ["Epsilon, delta 10⁻⁶", decimal(upwards(totals.approximate, 2), 2)],
          ["Waiting", waiting],
          ["Sent so far", bytes(this.session.bytesSent)],
        ],
        { "data-testid": "totals" },
      ),
    );
  }

  private capBar(): HTMLElement {
    const { epsilonSpent, epsilonSpentBefore, lifetimeEpsilon } = this.session.device;
    const before = epsilonSpentBefore === "0" ? "" : `, ${epsilonSpentBefore} of it before you deleted everything`;
    const text = `${epsilonSpent} of ${lifetimeEpsilon} spent${before}`;
    return element(
      "div",
      { class: "cap" },
      element("span", { "data-testid": "spent" }, `Lifetime cap: ${text}`),
      element("progress", { max: lifetimeEpsilon, value: epsilonSpent, "aria-label": `Epsilon, ${text}` }),
    );
  }

  private async changeCap(): Promise<void> {
    const input = element("input", { inputmode: "decimal", "data-testid": "new-cap", size: 6, autocomplete: "off" });
    input.value = this.session.device.lifetimeEpsilon;
    const change = button("Set", () => this.attempt(() => this.setCap(input.value.trim())), {
      "data-testid": "set-cap",
    });
    fill(this.notice, element("label", {}, "New lifetime cap on epsilon ", input), " ", change);
    this.notice.dataset.kind = "plain";
    input.focus();
  }

  private async setCap(text: string): Promise<void> {
    await this.session.device.changeCap(text);
    say(this.notice, `The cap is now ${this.session.device.lifetimeEpsilon}.`, "good");
    this.session.changed();
  }

  private async export(): Promise<void> {
    const text = JSON.stringify(this.session.device.export(), null, 2);
    const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    element("a", { href: address, download: "tacit-account.json" }).click();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
    say(this.notice, "Exported what was said and spent; your ratings are not in the file.", "good");
  }

  private async delete(events: AccountEvents): Promise<void> {
    const sure = await confirmed({
      title: "Delete everything?",
      text: [
        "The provider deletes all reports of this device and what it knew the device by. " +
          "Then this browser forgets your ratings, your reports and what the device was known by.",
        "One number stays in this browser: how much epsilon was spent. The provider may remember what it was told, " +
          "so that sum goes on counting against your cap. Clear this site’s data to remove it, too.",
        "Models trained before keep what they learned until they are trained again.",
      ],
      yes: "Delete everything",
      no: "Keep it",
      danger: true,
    });
    if (sure) await events.deleteEverything();
  }

  private async attempt(act: () => Promise<void>): Promise<void> {
    say(this.notice, "");
    try {
      await act();
    } catch (error) {
      say(this.notice, inWords(error), "bad");
      this.session.changed();
    }
  }
}
