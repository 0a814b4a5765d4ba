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

// What to say after the page has begun afresh.
const DELETED = "tacit-deleted";
const SAID_OF = {
  here:
    "Deleted: the provider confirmed that this device’s reports are gone; this browser forgot everything but how " +
    "much epsilon was spent.",
  elsewhere: "Everything was deleted in another window. This page begins afresh: agree again if you want to go on.",
};

const notice = byId("notice");
const consent = byId("consent");
const app = byId("app");

async function start(): Promise<void> {
  showConnection();
  sayWhyAfresh();
  try {
    const policy = await Policy.read(await (await ask("/v1/policy")).text());
    const device = await Device.open({ lifetimeEpsilon: LIFETIME_EPSILON });
    const forgotten = (): void => beginAfresh("elsewhere");
    new Page(new Session(device, policy, { notify: announce, forgotten })).open();
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
        spentBefore: session.device.epsilonSpentBefore,
        why: session.device.policy !== null ? "rotated" : this.isKnown() ? "paused" : "first",
      },
      { agree: (cap) => this.agree(cap) },
    );
  }

  private async agree(cap: string): Promise<void> {
    const { device, policy } = this.session;
    try {
      if (cap !== device.lifetimeEpsilon) await device.changeCap(cap);
      await device.consent(policy);
    } catch (error) {
      this.session.changed();
      throw error;
    }
    this.arrange();
    await this.enter();
    byId("rate-title").focus();
  }

  private async enter(): Promise<void> {
    await this.load();
    await this.session.start();
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
    await this.session.pause();
    announce({ text: "Paused. This device says nothing more until you resume.", kind: "good" });
    this.arrange();
    this.session.changed();
    await this.suggestions.askProvider();
  }

  private async deleteEverything(): Promise<void> {
    try {
      await this.session.deleteEverything();
      beginAfresh("here");
    } catch (error) {
      // The device then has withdrawn its consent and waits for another try, unless another window was quicker.
      this.session.changed();
      if (!this.session.device.forgotten) this.arrange();
      throw error;
    }
  }

  private isKnown(): boolean {
    return this.session.device.reports().length > 0;
  }

  private askAfterSending(): void {
    const { device } = this.session;
    const sent = device.reports().length - device.unsent().length - device.refused().length;
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
}

/** Load the page again, for a device that is new, and say why. */
function beginAfresh(deleted: keyof typeof SAID_OF): void {
  sessionStorage.setItem(DELETED, deleted);
  location.reload();
}

function sayWhyAfresh(): void {
  const deleted = sessionStorage.getItem(DELETED);
  sessionStorage.removeItem(DELETED);
  if (deleted === "here" || deleted === "elsewhere") announce({ text: SAID_OF[deleted], kind: "good" });
}

void start();
