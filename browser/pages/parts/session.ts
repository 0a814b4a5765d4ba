/** What the rating page knows and does: the device, what was said and sent, and who wants to hear of changes. */

import {
  BudgetError,
  RatingChangedError,
  Uplink,
  type Device,
  type Policy,
  type Report,
  type SendResult,
} from "../../src/index.ts";
import type { Table } from "./channel-picture.ts";
import { confirmed } from "./dialog.ts";
import { counted } from "./numbers.ts";
import { inWords, type Item } from "./service.ts";

// Reports leave together, so that a batch says less of when each was given.
const QUIET_MS = 1500;
const BYTES_SENT = "tacit-bytes-sent";

export interface Notice {
  text: string;
  kind: "plain" | "good" | "bad";
}

export interface SessionEvents {
  notify(notice: Notice): void;
  /** Everything was deleted in another window. */
  forgotten(): void;
}

export type Delivery = "unrated" | "waiting" | "sent" | "refused" | "paused";

export class Session {
  items: Item[] = [];
  private readonly titles = new Map<string, string>();
  private readonly uplink: Uplink;
  private readonly listeners: (() => void)[] = [];
  private readonly reasons = new Map<string, string>();

  constructor(
    readonly device: Device,
    readonly policy: Policy,
    private readonly events: SessionEvents,
  ) {
    this.uplink = new Uplink(device, "", (result) => this.heard(result));
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
    if (this.device.forgotten) this.events.forgotten();
    else for (const listener of this.listeners) listener();
  }

  /** The last report about an item, if any. */
  reportOf(item: string): Report | undefined {
    return this.device.reports().find((report) => report.item === item);
  }

  /** Where the report about an item is; nothing is known to wait while nothing may be sent. */
  deliveryOf(item: string): Delivery {
    if (!this.device.ratings().has(item)) return "unrated";
    if (this.device.policy === null) return "paused";
    const isAmong = (reports: Report[]): boolean => reports.some((report) => report.item === item);
    return isAmong(this.device.unsent()) ? "waiting" : isAmong(this.device.refused()) ? "refused" : "sent";
  }

  /** Why the provider refused the report about an item, as a code of its own, if it was asked from this window. */
  reasonFor(item: string): string | undefined {
    return this.reasons.get(item);
  }

  /** Draw, charge and queue a rating; ask first where it replaces another. */
  async rate(item: string, rank: number): Promise<void> {
    const rating = this.policy.scale.ratings[rank] ?? Number.NaN;
    try {
      const before = this.device.ratings().get(item);
      const change = before !== undefined && before !== rating;
      if (change && !(await this.mayChange(item))) return;
      await this.device.rate(item, rating, { change });
      this.uplink.start(QUIET_MS);
    } catch (error) {
      this.complain(this.refusal(error));
    } finally {
      this.changed();
    }
  }

  /** Begin to send: what waits, and once what the provider refused before; it may take that by now. */
  async start(): Promise<void> {
    try {
      await this.device.retryRefused();
      this.uplink.start();
    } catch (error) {
      this.complain(inWords(error));
    } finally {
      this.changed();
    }
  }

  /** Say nothing more until the person resumes. */
  async pause(): Promise<void> {
    await this.device.withdraw();
    this.uplink.stop();
  }

  /** Forget everything, at the provider and here. */
  async deleteEverything(): Promise<void> {
    await this.uplink.deleteEverything();
    localStorage.removeItem(BYTES_SENT);
  }

  /** Look at what another window may have done. */
  async refresh(): Promise<void> {
    try {
      await this.device.refresh();
    } catch (error) {
      this.complain(`${inWords(error)} Reload the page.`);
    } finally {
      this.changed();
    }
  }

  /** A round of sending is over; most have nothing to send, and nothing to tell. */
  private heard(result: SendResult | Error): void {
    if (result instanceof Error) this.complain(inWords(result));
    else if (result.sent + result.waiting + result.rejected === 0) return;
    else {
      for (const [item, reason] of result.reasons) this.reasons.set(item, reason);
      localStorage.setItem(BYTES_SENT, String(this.bytesSent + result.bytes));
      this.report(result);
    }
    this.changed();
  }

  private report({ sent, waiting, rejected, reasons }: SendResult): void {
    if (reasons.size > 0) {
      const again = "rate the same again, or open this page anew, to send again at no charge";
      this.complain(`The provider refused ${counted(reasons.size, "report")}: ${again}.`);
    } else if (rejected > 0) this.complain(`The provider refused ${counted(rejected, "report")} for now.`);
    else if (waiting > 0) this.complain(`The provider does not answer: ${counted(waiting, "report")} will be sent later.`);
    else {
      const text = `Sent ${counted(sent, "perturbed report")}. No rating left this page.`;
      this.events.notify({ text, kind: "good" });
    }
  }

  private complain(text: string): void {
    this.events.notify({ text, kind: "bad" });
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
