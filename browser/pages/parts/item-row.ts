/** One item: its stars, and beside them what will be or was sent and what could have been. */

import type { Policy } from "../../src/index.ts";
import { couldBeSent, rowPicture, whatItTells } from "./channel-picture.ts";
import { element, fill } from "./dom.ts";
import { percent } from "./numbers.ts";
import type { Item } from "./service.ts";
import { tableOf, type Delivery, type Session } from "./session.ts";
import { ratingControl } from "./stars.ts";

export interface ItemRow {
  root: HTMLElement;
  refresh(): void;
}

const STATES: Record<Exclude<Delivery, "refused">, string> = {
  unrated: "",
  waiting: "Will be sent",
  sent: "Sent",
  paused: "Drawn",
};

const REASONS = new Map([
  ["unknown-item", "it does not list this item"],
  ["unknown-symbol", "it does not know this report"],
  ["too-many-reports", "it takes no more from this device"],
]);

/** Make the row of an item. */
export function itemRow(session: Session, { item, title }: Item): ItemRow {
  const { policy, device } = session;
  const labels = policy.scale.ratings.map((_, rank) => policy.scale.ratingAt(rank));
  const picture = element("div", { class: "picture" });
  const words = element("p", { class: "quiet words", "data-testid": "said", "aria-live": "polite" });
  const control = ratingControl(labels, title, { look, give: (rank) => void session.rate(item, rank) });

  let looking: number | null = null;

  function look(rank: number | null): void {
    looking = rank;
    draw();
  }
  /** Show what could be sent after a rating that is only looked at, or else what was drawn. */
  function draw(): void {
    const rank = looking;
    if (rank === null || rank === rankOf(policy, device.ratings().get(item))) return showSaid();
    const text = couldBeSent(tableOf(policy), rank, labels[rank] ?? "");
    show(text, rowPicture(tableOf(policy), rank, null, text));
  }
  function showSaid(): void {
    const report = session.reportOf(item);
    if (report === undefined) return show("", null);
    const said = device.policyOf(report);
    const rank = rankOf(said, device.ratings().get(item)) ?? 0;
    const own = percent(said.channel.probabilities[rank]?.[report.symbol] ?? 0);
    const tells = whatItTells(tableOf(said), report.symbol);
    const text = `${stateOf(session, item)}: ${tells} (${own} after your ${said.scale.ratingAt(rank)}).`;
    show(text, rowPicture(tableOf(said), rank, report.symbol, text));
  }
  /** What stays the same is not set again: it would be read aloud again. */
  function show(text: string, drawn: SVGElement | null): void {
    if (words.textContent !== text) words.textContent = text;
    fill(picture, drawn);
  }
  function refresh(): void {
    root.dataset.state = session.deliveryOf(item);
    control.show(rankOf(policy, device.ratings().get(item)));
    control.disable(!session.consented);
    draw();
  }

  const root = element(
    "li",
    { class: "item", "data-testid": "item", "data-item": item },
    element("span", { class: "item-title" }, title),
    words,
    picture,
    control.root,
  );
  refresh();
  return { root, refresh };
}

function stateOf(session: Session, item: string): string {
  const delivery = session.deliveryOf(item);
  if (delivery !== "refused") return STATES[delivery];
  return `Refused by the provider: ${REASONS.get(session.reasonFor(item) ?? "") ?? "it gave no known reason"}. Drawn`;
}

/** A rating's rank; null if there is none, or if another policy's scale had it. */
function rankOf({ scale }: Policy, rating: number | undefined): number | null {
  const rank = rating === undefined ? -1 : scale.ratings.indexOf(rating);
  return rank < 0 ? null : rank;
}
