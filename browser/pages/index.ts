/** The rating page: consent first, then rating, the account, and recommendations made in the page. */

import { Device, Policy, PolicyError } from "../src/index.ts";
import { Account } from "./parts/account.ts";
import { Catalogue } from "./parts/catalogue.ts";
import { showConsent, showRefusal } from "./parts/consent.ts";
import { button, byId, element, fill, say } from "./parts/dom.ts";
import { allItems, ask, inWords } from "./parts/service.ts";
import { Session, type Notice } from "./parts/session.ts";
import { Suggestions } from "./parts/suggestions.ts";

const LIFETIME_EPSILON = "50";
const DELETED = "tacit-deleted";

const notice = byId("notice");
const consent = byId("consent");
const app = byId("app");

async function start(): Promise<void> {
  showConnection();
  try {
    const policy = await Policy.read(await (await ask("/v1/policy")).text());
    const device = await Device.open({ lifetimeEpsilon: LIFETIME_EPSILON });
    new Page(new Session(device, policy, announce)).open();
  } catch (error) {
    if (error instanceof PolicyError) showRefusal(consent, inWords(error));
    else showFailure(inWords(error));
  } finally {
    document.body.dataset.ready = "yes";
  }
}

class Page {
  private readonly catalogue: Catalogue;
  private readonly suggestions: Suggestions;
  private readonly account: Account;
  private wasSent = 0;

  constructor(private readonly session: Session) {
    this.catalogue = new Catalogue(session);
    this.suggestions = new Suggestions(session);
    this.account = new Account(session, { pause: () => this.pause(), deleteEverything: () => this.deleteEverything() });
    session.onChange(() => this.askAfterSending());
    addEventListener("online", () => void session.send());
    addEventListener("visibilitychange", () => void (document.hidden || session.refresh()));
  }

  open(): void {
    this.arrange();
    if (this.session.consented) void this.enter();
    else if (this.isKnown()) void this.load();
  }

  /** Ask for consent where it is missing; hide the rest from those who have not said anything yet. */
  private arrange(): void {
    const { session } = this;
    consent.hidden = session.consented;
    app.hidden = !session.consented && !this.isKnown();
    if (session.consented) return;
    showConsent(
      consent,
      {
        policy: session.policy,
        lifetimeEpsilon: session.device.lifetimeEpsilon,
        why: session.device.policy !== null ? "rotated" : this.isKnown() ? "paused" : "first",
      },
      { agree: (cap) => this.agree(cap) },
    );
  }

  private async agree(cap: string): Promise<void> {
    const { device, policy } = this.session;
    if (cap !== device.lifetimeEpsilon) await device.changeCap(cap);
    await device.consent(policy);
    this.arrange();
    await this.enter();
    byId("rate-title").focus();
  }

  private async enter(): Promise<void> {
    await this.load();
    await this.session.send();
  }

  private async load(): Promise<void> {
    this.account.show();
    try {
      this.session.know(await allItems());
    } catch (error) {
      announce({ text: `The items could not be fetched. ${inWords(error)}`, kind: "bad" });
    }
    this.catalogue.show();
    await this.suggestions.refresh();
  }

  private async pause(): Promise<void> {
    await this.session.device.withdraw();
    announce({ text: "Paused. This device says nothing more until you resume.", kind: "good" });
    this.arrange();
    this.session.changed();
    await this.suggestions.askProvider();
  }

  private async deleteEverything(): Promise<void> {
    try {
      await this.session.deleteEverything();
      sessionStorage.setItem(DELETED, "yes");
      location.reload();
    } catch (error) {
      // The device then has withdrawn its consent and waits for another try.
      this.arrange();
      this.session.changed();
      throw error;
    }
  }

  private isKnown(): boolean {
    return this.session.device.reports().length > 0;
  }

  private askAfterSending(): void {
    const { device } = this.session;
    const sent = device.reports().length - device.unsent().length;
    if (sent > this.wasSent) void this.suggestions.askProvider();
    this.wasSent = sent;
  }
}

function showFailure(reason: string): void {
  announce({ text: reason, kind: "bad" });
  fill(
    consent,
    element("p", {}, "Without the provider’s policy there is nothing to agree to; nothing was sent."),
    button("Try again", () => location.reload(), { "data-testid": "try-again" }),
  );
}

function announce({ text, kind }: Notice): void {
  say(notice, text, kind);
}

function showConnection(): void {
  const offline = byId("offline");
  const update = () => (offline.hidden = navigator.onLine);
  addEventListener("online", update);
  addEventListener("offline", update);
  update();
  if (sessionStorage.getItem(DELETED) === null) return;
  sessionStorage.removeItem(DELETED);
  announce({
    text: "Deleted: the provider confirmed that this device’s reports are gone; this browser forgot everything.",
    kind: "good",
  });
}

void start();
