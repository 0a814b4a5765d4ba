/** What the rating page knows and does: the device, what was said and sent, and who wants to hear of changes. */

import {
  BudgetError,
  encodeCompact,
  RatingChangedError,
  Uplink,
  type Device,
  type Policy,
  type Report,
} from "../../src/index.ts";
import type { Table } from "./channel-picture.ts";
import { confirmed } from "./dialog.ts";
import { counted } from "./numbers.ts";
import { inWords, type Item } from "./service.ts";

// Reports leave together, so that a batch says less of when each was given.
const QUIET_MS = 1500;
const LONGEST_WAIT_MS = 60_000;
const BYTES_SENT = "tacit-bytes-sent";

export interface Notice {
  text: string;
  kind: "plain" | "good" | "bad";
}

export type Delivery = "unrated" | "waiting" | "sent" | "paused";

export class Session {
  items: Item[] = [];
  private readonly titles = new Map<string, string>();
  private readonly uplink: Uplink;
  private readonly listeners: (() => void)[] = [];
  private timer: ReturnType<typeof setTimeout> | undefined;
  private wait = QUIET_MS;

  constructor(
    readonly device: Device,
    readonly policy: Policy,
    readonly notify: (notice: Notice) => void,
  ) {
    this.uplink = new Uplink(device);
  }

  /** Whether the person agreed to exactly this policy, and has not paused. */
  get consented(): boolean {
    return this.device.policy?.id === this.policy.id;
  }

  /** How many bytes of reports left this browser, in all. */
  get bytesSent(): number {
    return Number(localStorage.getItem(BYTES_SENT) ?? 0);
  }

  /** Take in the catalogue. */
  know(items: Item[]): void {
    this.items = items;
    for (const { item, title } of items) this.titles.set(item, title);
  }

  titleOf(item: string): string {
    return this.titles.get(item) ?? `item ${item}`;
  }

  /** Call back whenever something was rated, sent, paused or changed. */
  onChange(listener: () => void): void {
    this.listeners.push(listener);
  }

  changed(): void {
    for (const listener of this.listeners) listener();
  }

  /** The last report about an item, if any. */
  reportOf(item: string): Report | undefined {
    return this.device.reports().find((report) => report.item === item);
  }

  /** Where the report about an item is; nothing is known to wait while nothing may be sent. */
  deliveryOf(item: string): Delivery {
    if (!this.device.ratings().has(item)) return "unrated";
    if (this.device.policy === null) return "paused";
    return this.device.unsent().some((report) => report.item === item) ? "waiting" : "sent";
  }

  /** Draw, charge and queue a rating; ask first where it replaces another. */
  async rate(item: string, rank: number): Promise<void> {
    const rating = this.policy.scale.ratings[rank] ?? Number.NaN;
    const before = this.device.ratings().get(item);
    try {
      const change = before !== undefined && before !== rating;
      if (change && !(await this.mayChange(item))) return;
      await this.device.rate(item, rating, { change });
      this.sendIn((this.wait = QUIET_MS));
    } catch (error) {
      this.notify({ text: this.refusal(error), kind: "bad" });
    } finally {
      this.changed();
    }
  }

  /** Send what waits, unless the person paused; try again later, and ever later, if something is left. */
  async send(): Promise<void> {
    if (!this.consented) return;
    const before = this.device.unsent();
    try {
      const { sent, waiting, rejected } = await this.uplink.send();
      this.report(sent, waiting, rejected);
      if (waiting > 0) this.sendIn((this.wait = Math.min(2 * this.wait, LONGEST_WAIT_MS)));
    } catch (error) {
      this.notify({ text: inWords(error), kind: "bad" });
    } finally {
      this.countBytes(before);
      this.changed();
    }
  }

  /** Forget everything, at the provider and here. */
  async deleteEverything(): Promise<void> {
    clearTimeout(this.timer);
    await this.uplink.deleteEverything();
    localStorage.removeItem(BYTES_SENT);
  }

  /** Look at what another window may have done. */
  async refresh(): Promise<void> {
    try {
      await this.device.refresh();
      this.changed();
    } catch (error) {
      this.notify({ text: `${inWords(error)} Reload the page.`, kind: "bad" });
    }
  }

  private report(sent: number, waiting: number, rejected: number): void {
    if (rejected > 0) this.notify({ text: `The provider refused ${counted(rejected, "report")}.`, kind: "bad" });
    else if (waiting > 0) {
      const text = `The provider does not answer: ${counted(waiting, "report")} will be sent later.`;
      this.notify({ text, kind: "bad" });
    } else if (sent > 0)
      this.notify({ text: `Sent ${counted(sent, "perturbed report")}. No rating left this page.`, kind: "good" });
  }

  private sendIn(milliseconds: number): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.send(), milliseconds);
  }

  private countBytes(before: Report[]): void {
    const waiting = new Set(this.device.unsent().map((report) => report.item));
    const gone = before.filter((report) => !waiting.has(report.item));
    for (const id of new Set(gone.map((report) => report.policy))) {
      const batch = gone.filter((report) => report.policy === id);
      const size = encodeCompact(batch, this.device.policyOf(batch[0] as Report)).length;
      localStorage.setItem(BYTES_SENT, String(this.bytesSent + size));
    }
  }

  private mayChange(item: string): Promise<boolean> {
    const { epsilon } = this.policy;
    return confirmed({
      title: "Change this rating?",
      text: [
        `You rated ${this.titleOf(item)} before, and a report about it was drawn.`,
        `A changed rating is drawn afresh and costs epsilon ${epsilon} again, ` +
          "also when it returns to an earlier value. The provider sees that it changed, but not from what to what.",
      ],
      yes: `Change it, for epsilon ${epsilon}`,
      no: "Keep it as it is",
    });
  }

  private refusal(error: unknown): string {
    if (error instanceof BudgetError) {
      const { epsilonSpent, lifetimeEpsilon } = this.device;
      return (
        `Nothing was said or spent: epsilon ${this.policy.epsilon} more than the ${epsilonSpent} spent would cross ` +
        `your lifetime cap of ${lifetimeEpsilon}. Change the cap in your account if you mean to go on.`
      );
    }
    if (error instanceof RatingChangedError) return "That item was rated in another window; look again, then decide.";
    return inWords(error);
  }
}

/** A policy's channel as pictures want it. */
export function tableOf(policy: Policy): Table {
  return { values: policy.channel.symbols, rows: policy.channel.probabilities };
}
