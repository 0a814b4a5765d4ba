/** The consent panel: what will be sent and what will not, before anything is. */

import type { Policy } from "../../src/index.ts";
import { tablePicture } from "./channel-picture.ts";
import { button, element, facts, fill } from "./dom.ts";
import { count, counted, upwards } from "./numbers.ts";
import { inWords } from "./service.ts";
import { tableOf } from "./session.ts";

export interface ConsentEvents {
  agree(lifetimeEpsilon: string): Promise<void>;
}

export interface ConsentState {
  policy: Policy;
  lifetimeEpsilon: string;
  /** What of it was spent before everything was deleted here. */
  spentBefore: string;
  /** Why the person is asked: for the first time, after a pause, or because the provider has another policy now. */
  why: "first" | "paused" | "rotated";
}

const OPENING = {
  first: "Before you rate anything",
  paused: "Paused",
  rotated: "The provider has a new policy",
};

/** Fill the panel. */
export function showConsent(place: HTMLElement, state: ConsentState, events: ConsentEvents): void {
  const { policy, why } = state;
  const cap = element("input", {
    id: "cap",
    "data-testid": "consent-cap",
    inputmode: "decimal",
    value: state.lifetimeEpsilon,
    size: 6,
    autocomplete: "off",
  });
  const refusal = element("p", { class: "notice", role: "alert", "data-testid": "consent-refusal" });
  const agree = button(
    why === "paused" ? "Resume sending" : "I agree: send perturbed reports",
    () => attempt(agree, refusal, () => events.agree(cap.value.trim())),
    { class: "primary", "data-testid": "consent-agree" },
  );
  fill(
    place,
    element("h2", {}, OPENING[why]),
    element("p", { class: "lead" }, leadOf(state)),
    ...(why === "paused"
      ? [element("details", {}, element("summary", {}, "The terms again"), ...terms(policy))]
      : terms(policy)),
    element("div", { class: "actions" }, element("label", { for: "cap" }, "Lifetime cap on epsilon "), cap, agree),
    element("p", { class: "quiet" }, `${capOf(state)} Until you agree, nothing is sent.`),
    refusal,
  );
}

function terms(policy: Policy): HTMLElement[] {
  return [
    element("div", { class: "columns" }, willBeSent(policy), willNotBeSent(), staysVisible()),
    verification(policy),
    element(
      "details",
      {},
      element("summary", {}, "The whole table, as a picture"),
      element("p", { class: "quiet" }, "One row for each rating you may give; one bar for each report it may become."),
      tablePicture(tableOf(policy), policy.scale.ratings),
    ),
  ];
}

/** Say that the policy is refused, and why; there is nothing to agree to. */
export function showRefusal(place: HTMLElement, reason: string): void {
  fill(
    place,
    element("h2", {}, "The provider’s policy was refused"),
    element("p", { class: "notice", "data-kind": "bad", role: "alert", "data-testid": "policy-refused" }, reason),
    element("p", {}, "This page checks the table by itself and will not use one that fails. Nothing was sent."),
  );
}

async function attempt(pressed: HTMLButtonElement, refusal: HTMLElement, act: () => Promise<void>): Promise<void> {
  pressed.disabled = true;
  refusal.textContent = "";
  try {
    await act();
  } catch (error) {
    refusal.dataset.kind = "bad";
    refusal.textContent = inWords(error);
  } finally {
    pressed.disabled = false;
  }
}

function leadOf({ policy, why }: ConsentState): string {
  if (why === "paused")
    return "Nothing is sent while you are paused, not even what was drawn before. You may resume under the same terms.";
  const again = why === "rotated" ? "You agreed to another one. Ratings already reported are not drawn again. " : "";
  return (
    `${again}Your ratings stay in this browser. For each one, a perturbed report goes to the provider. ` +
    `Whichever report it gets, it is at most ${upwards(Math.exp(policy.channel.exactLoss), 2)} times as likely ` +
    "under one rating as under any other."
  );
}

function capOf({ spentBefore }: ConsentState): string {
  const left = spentBefore === "0" ? "" : `, and ${spentBefore} counts already: it was spent before you deleted everything`;
  return `No rating is taken beyond the cap${left}.`;
}

function block(title: string, lines: string[], kind: string): HTMLElement {
  return element(
    "section",
    { class: `card ${kind}` },
    element("h3", {}, title),
    element("ul", {}, ...lines.map((line) => element("li", {}, line))),
  );
}

function willBeSent(policy: Policy): HTMLElement {
  const { symbols, bits } = policy.channel;
  return block(
    "Sent",
    [
      `For each item you rate, one of ${symbols.length} possible reports (${counted(bits, "bit")}), ` +
        "drawn at random by a published table.",
      "Which item it is about, and how often you changed your mind about it.",
      "A random number that names this device, made here.",
    ],
    "sent",
  );
}

function willNotBeSent(): HTMLElement {
  return block(
    "Never sent",
    [
      "Your ratings.",
      "What you search for or look at: the whole catalogue is fetched at once.",
      "What is recommended to you here: it is computed in this page.",
      "Anything to anybody else: this page loads nothing from other hosts and sets no cookie.",
    ],
    "kept",
  );
}

function staysVisible(): HTMLElement {
  return block(
    "Not protected",
    [
      "Which items you rate, how many, and when. That can say more than the stars.",
      "The sum: every rating costs epsilon, and costs add up. The account shows how far.",
      "Your network address, as on any web page.",
    ],
    "visible",
  );
}

function verification(policy: Policy): HTMLElement {
  const { channel } = policy;
  const integers = channel.weights.length * channel.symbols.length;
  return element(
    "div",
    { class: "verified", "data-testid": "policy-verified" },
    element(
      "p",
      {},
      element(
        "strong",
        {},
        `Verified from its ${count(integers)} integers: loses at most ${upwards(channel.exactLoss, 4)}`,
      ),
      ` per rating, within the epsilon ${policy.epsilon} it claims. Checked in this page, not taken on trust.`,
    ),
    facts([
      ["Epsilon per rating", policy.epsilon],
      ["Mechanism", policy.mechanism],
      ["Ratings", `${policy.scale.low} to ${policy.scale.high} in steps of ${policy.scale.step}`],
    ]),
    element(
      "p",
      { class: "quiet" },
      "Everybody should see the same policy; compare its id with somebody else’s: ",
      element("code", { class: "id", "data-testid": "policy-id" }, policy.id),
    ),
  );
}
