/** Recommendations: ranked in this page from true ratings, beside what the provider would say from reports. */

import { ItemModel, rankItems, type PersonalRanking, type Reason, type Suggestion } from "../../src/index.ts";
import { byId, element, fill, say } from "./dom.ts";
import { count, decimal } from "./numbers.ts";
import { inWords, itemModel, providerList, type ProviderList } from "./service.ts";
import type { Session } from "./session.ts";

const LENGTH = 10;
const REASONS = 2;
const LEAST_EFFECT = 0.005;

export class Suggestions {
  private readonly own = byId("own-list");
  private readonly ownNote = byId("own-note");
  private readonly provided = byId("provider-list");
  private readonly providedNote = byId("provider-note");
  private model: ItemModel | null = null;
  private questions = 0;
  private missing = "The published model was not fetched yet.";

  constructor(private readonly session: Session) {
    byId("refresh").addEventListener("click", () => void this.refresh());
    session.onChange(() => this.rankHere());
  }

  /** Fetch the published model again and make both lists. */
  async refresh(): Promise<void> {
    await Promise.all([this.fetchModel(), this.askProvider()]);
  }

  /** Ask for the provider's list; not while paused, for the question itself shows the device's token. */
  async askProvider(): Promise<void> {
    if (!this.session.consented) {
      this.questions += 1;
      fill(this.provided);
      say(this.providedNote, "Paused: the provider is not asked.");
      return;
    }
    const question = (this.questions += 1);
    if (this.provided.childElementCount === 0) say(this.providedNote, "Asking the provider …");
    try {
      const list = await providerList(this.session.device.token, LENGTH);
      if (question !== this.questions) return;
      fill(
        this.provided,
        ...list.items.map(({ item }) => element("li", { "data-item": item }, this.session.titleOf(item))),
      );
      say(this.providedNote, provenance(list));
    } catch (error) {
      fill(this.provided);
      say(this.providedNote, inWords(error), "bad");
    }
  }

  private async fetchModel(): Promise<void> {
    try {
      const published = await itemModel();
      if (published !== null) this.model = ItemModel.read(published);
      else this.missing = "The provider has published no model yet: there is nothing to rank with.";
    } catch (error) {
      this.missing = inWords(error);
    }
    this.rankHere();
  }

  private rankHere(): void {
    if (this.model === null) {
      say(this.ownNote, this.missing);
      return;
    }
    try {
      const started = performance.now();
      const ranking = rankItems(this.model, this.session.device.ratings());
      fill(this.own, ...ranking.recommend(LENGTH).map((one) => this.entry(one, ranking)));
      const took = Math.max(1, Math.round(performance.now() - started));
      const how = `${count(this.model.items.length)} items ranked in ${took} ms; nothing was sent.`;
      const cold = "Cold start: you rated nothing the model knows, so this is everybody’s order.";
      say(this.ownNote, ranking.fallback ? `${cold} ${how}` : how);
    } catch (error) {
      fill(this.own);
      say(this.ownNote, inWords(error), "bad");
    }
  }

  private entry({ item, rating }: Suggestion, ranking: PersonalRanking): HTMLElement {
    const reasons = ranking.fallback ? [] : ranking.explain(item, REASONS);
    return element(
      "li",
      { "data-testid": "own-suggestion", "data-item": item },
      element("span", { class: "item-title" }, this.session.titleOf(item)),
      element("span", { class: "predicted" }, ` about ${decimal(rating, 1)}`),
      element("span", { class: "quiet reason", "data-testid": "reason" }, this.inReasons(reasons)),
    );
  }

  private inReasons(reasons: Reason[]): string {
    const because = reasons.filter(({ effect }) => effect >= LEAST_EFFECT);
    const although = reasons.filter(({ effect }) => effect <= -LEAST_EFFECT);
    return [this.listed("because", because), this.listed("although", although)].filter(Boolean).join(", ");
  }

  private listed(how: string, reasons: Reason[]): string {
    const sign = (effect: number) => `${effect > 0 ? "+" : "−"}${decimal(Math.abs(effect))}`;
    const parts = reasons.map(
      ({ item, rating, effect }) => `${this.session.titleOf(item)} ${rating} (${sign(effect)})`,
    );
    return parts.length === 0 ? "" : `${how} you gave ${parts.join(" and ")}`;
  }
}

function provenance({ reason, run }: ProviderList): string {
  if (reason === "cold-start") return "Cold start: the provider has nothing to go by, so these are popular items.";
  return `From your perturbed reports alone${run === null ? "" : `, by training run ${run}`}.`;
}
