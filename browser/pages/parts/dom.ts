/** Building the page by DOM calls alone: text is only ever text, so nothing from the network can become markup. */

type Child = Node | string | null;
type Attributes = Record<string, string | number | boolean | null>;

const SVG = "http://www.w3.org/2000/svg";

/** Make an HTML element; attributes that are false or null are left out. */
export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  return furnish(document.createElement(tag), attributes, children);
}

/** Make an SVG element. */
export function shape<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  return furnish(document.createElementNS(SVG, tag), attributes, children);
}

/** Make a button that does something. */
export function button(label: string, act: () => unknown, attributes: Attributes = {}): HTMLButtonElement {
  const made = element("button", { type: "button", ...attributes }, label);
  made.addEventListener("click", () => void act());
  return made;
}

/** Find an element that the page's own markup has. */
export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no element ${id}`);
  return found as T;
}

/** Replace what an element holds. */
export function fill(place: Element, ...children: Child[]): void {
  place.replaceChildren(...children.filter((child) => child !== null));
}

/** Say something in an element; live regions read it aloud. */
export function say(place: Element, text: string, kind: "plain" | "good" | "bad" = "plain"): void {
  place.textContent = text;
  place.setAttribute("data-kind", kind);
}

/** Make a table with a caption for those who cannot see it, header cells first. */
export function table(caption: string, headers: string[], rows: Child[][], attributes: Attributes = {}): HTMLElement {
  const head = element("tr", {}, ...headers.map((text) => element("th", { scope: "col" }, text)));
  const body = rows.map((cells) => element("tr", {}, ...cells.map((cell) => element("td", {}, cell))));
  const made = element(
    "table",
    attributes,
    element("caption", { class: "unseen" }, caption),
    element("thead", {}, head),
    element("tbody", {}, ...body),
  );
  return element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption }, made);
}

/** Make a list of names and what they are. */
export function facts(pairs: [string, Child][], attributes: Attributes = {}): HTMLElement {
  const parts = pairs.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value)));
  return element("dl", { class: "facts", ...attributes }, ...parts);
}

function furnish<E extends Element>(made: E, attributes: Attributes, children: Child[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === false) continue;
    made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}
