/** Searching and browsing the catalogue that was fetched once; what is typed here goes nowhere. */

import { byId, fill, say } from "./dom.ts";
import { itemRow, type ItemRow } from "./item-row.ts";
import { count } from "./numbers.ts";
import type { Item } from "./service.ts";
import type { Session } from "./session.ts";
import { howToRate } from "./stars.ts";

const ROWS_AT_ONCE = 10;

export class Catalogue {
  private readonly search = byId<HTMLInputElement>("search");
  private readonly onlyRated = byId<HTMLInputElement>("only-rated");
  private readonly list = byId("items");
  private readonly more = byId<HTMLButtonElement>("more-items");
  private readonly status = byId("items-status");
  private rows: ItemRow[] = [];
  private shown = ROWS_AT_ONCE;

  constructor(private readonly session: Session) {
    say(byId("hint"), `${howToRate(session.policy.scale.size)} Every rating given is charged.`);
    const again = () => this.show(ROWS_AT_ONCE);
    this.search.addEventListener("input", again);
    this.onlyRated.addEventListener("change", again);
    this.more.addEventListener("click", () => this.show(this.shown + ROWS_AT_ONCE));
    session.onChange(() => this.rows.forEach((row) => row.refresh()));
  }

  /** Show the first so many of the items that were searched for. */
  show(rows = this.shown): void {
    const focusAt = rows > this.shown ? this.shown : null;
    this.shown = rows;
    const found = this.found();
    this.rows = found.slice(0, rows).map((item) => itemRow(this.session, item));
    fill(this.list, ...this.rows.map((row) => row.root));
    this.more.hidden = found.length <= rows;
    say(this.status, this.summary(found.length));
    if (focusAt !== null) this.rows[focusAt]?.root.querySelector<HTMLElement>("[tabindex='0'], select")?.focus();
  }

  private found(): Item[] {
    const wanted = folded(this.search.value).split(" ").filter(Boolean);
    const rated = this.onlyRated.checked ? this.session.device.ratings() : null;
    return this.session.items.filter(({ item, title }) => {
      if (rated !== null && !rated.has(item)) return false;
      const text = folded(title);
      return wanted.every((word) => text.includes(word));
    });
  }

  private summary(found: number): string {
    const all = this.session.items.length;
    if (all === 0) return "The provider has no items yet.";
    return found === all ? `${count(all)} items` : `${count(found)} of ${count(all)} items`;
  }
}

/** Text as it is searched: without case, accents or punctuation at the ends of words. */
function folded(text: string): string {
  return text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
}
