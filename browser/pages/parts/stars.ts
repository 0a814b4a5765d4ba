/** Choosing a rating: stars, or a list where a scale has many ratings. */

import { button, element } from "./dom.ts";

export interface RatingControl {
  root: HTMLElement;
  /** Show which rating was given. */
  show(rank: number | null): void;
  disable(disabled: boolean): void;
}

export interface RatingEvents {
  /** A rating is being looked at, by pointer or keyboard; null when no longer. */
  look(rank: number | null): void;
  /** A rating was given. */
  give(rank: number): void;
}

const MOST_STARS = 10;

/** Say how the control is used. */
export function howToRate(ratings: number): string {
  return ratings <= MOST_STARS
    ? "Arrow keys look at the stars, Space or Enter gives them."
    : "Choose a rating to see what may be sent, then give it.";
}

/** Make the control that suits the number of ratings. */
export function ratingControl(labels: readonly string[], name: string, events: RatingEvents): RatingControl {
  return labels.length <= MOST_STARS ? starRow(labels, name, events) : ratingList(labels, name, events);
}

/**
 * A radio group in which arrow keys move but do not choose: every choice is drawn, sent and charged, so that walking
 * over the stars must not make one. Space, Enter or a click chooses.
 */
function starRow(labels: readonly string[], name: string, events: RatingEvents): RatingControl {
  const stars = labels.map((label, rank) => {
    const text = `${label} of ${labels[labels.length - 1]}`;
    const star = button("★", () => events.give(rank), {
      class: "star",
      role: "radio",
      "aria-label": text,
      "data-rank": rank,
    });
    for (const event of ["focus", "pointerenter"]) star.addEventListener(event, () => look(rank));
    for (const event of ["blur", "pointerleave"]) star.addEventListener(event, () => look(null));
    return star;
  });
  const root = element("div", { class: "stars", role: "radiogroup", "aria-label": `Your rating of ${name}` }, ...stars);
  let given: number | null = null;
  let looked: number | null = null;

  function look(rank: number | null): void {
    looked = rank;
    paint();
    events.look(rank);
  }
  function paint(): void {
    const upTo = looked ?? given;
    stars.forEach((star, rank) => star.classList.toggle("full", upTo !== null && rank <= upTo));
  }
  function reach(rank: number): void {
    stars.forEach((star, other) => star.setAttribute("tabindex", other === rank ? "0" : "-1"));
  }
  function show(rank: number | null): void {
    given = rank;
    stars.forEach((star, other) => star.setAttribute("aria-checked", String(other === rank)));
    if (!root.contains(document.activeElement)) reach(rank ?? 0);
    paint();
  }
  root.addEventListener("keydown", (event) => {
    const from = stars.indexOf(document.activeElement as HTMLButtonElement);
    const to = target(event.key, from, stars.length);
    if (to === null) return;
    event.preventDefault();
    reach(to);
    stars[to]?.focus();
  });
  reach(0);
  show(null);
  return { root, show, disable: (disabled) => stars.forEach((star) => (star.disabled = disabled)) };
}

function target(key: string, from: number, size: number): number | null {
  if (key === "ArrowRight" || key === "ArrowUp") return (from + 1) % size;
  if (key === "ArrowLeft" || key === "ArrowDown") return (from + size - 1) % size;
  if (key === "Home") return 0;
  return key === "End" ? size - 1 : null;
}

function ratingList(labels: readonly string[], name: string, events: RatingEvents): RatingControl {
  const options = labels.map((label, rank) => element("option", { value: rank }, label));
  const list = element(
    "select",
    { "aria-label": `Your rating of ${name}` },
    element("option", { value: "" }, "–"),
    ...options,
  );
  const chosen = () => (list.value === "" ? null : Number(list.value));
  const give = button("Rate", () => {
    const rank = chosen();
    if (rank !== null) events.give(rank);
  });
  let given: number | null = null;

  /** A choice that was not given yet is left alone. */
  function show(rank: number | null): void {
    if (rank !== given) list.value = rank === null ? "" : String(rank);
    given = rank;
  }
  list.addEventListener("change", () => events.look(chosen()));
  return {
    root: element("div", { class: "rating-list" }, list, give),
    show,
    disable: (disabled) => (list.disabled = give.disabled = disabled),
  };
}
