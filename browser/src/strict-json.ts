/** JSON without ambiguity: text in UTF-8 whose objects name no field twice. */

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

/** Reads a document; what is no JSON, or could be understood in two ways, is an error for the caller to explain. */
export function readJson(document: string | Uint8Array): Json {
  const text = typeof document === "string" ? document : decode(document);
  const parsed = JSON.parse(text) as Json;
  if (namesIn(text) !== fieldsOf(parsed)) throw new SyntaxError();
  return parsed;
}

/** Tells whether a value is a whole number from 0 to the most there may be. */
export function isCount(value: unknown, most: number): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= most;
}

export function isText(value: unknown, pattern: RegExp): value is string {
  return typeof value === "string" && pattern.test(value);
}

export function isObject(value: unknown): value is { [name: string]: Json } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Tells whether an object has exactly these fields. */
export function hasFields(value: unknown, ...names: string[]): value is { [name: string]: Json } {
  return isObject(value) && Object.keys(value).length === names.length && names.every((name) => Object.hasOwn(value, name));
}

/** Reads UTF-8; anything else is an error for the caller to explain. A byte order mark stays, and is no JSON. */
export function decode(bytes: Uint8Array): string {
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
}

/** Counts the strings of a valid document that a colon follows. */
function namesIn(text: string): number {
  let names = 0;
  for (let start = text.indexOf('"'); start >= 0; ) {
    let end = text.indexOf('"', start + 1);
    while (isEscaped(text, end)) end = text.indexOf('"', end + 1);
    let next = end + 1;
    while (next < text.length && text.charCodeAt(next) <= 32) next++;
    if (text[next] === ":") names++;
    start = text.indexOf('"', next);
  }
  return names;
}

function isEscaped(text: string, quote: number): boolean {
  let first = quote;
  while (text[first - 1] === "\\") first--;
  return (quote - first) % 2 === 1;
}

/** Counts the fields that are left after parsing, without recursion: a document may be nested deeply. */
function fieldsOf(parsed: Json): number {
  let fields = 0;
  for (const open: Json[] = [parsed]; open.length; ) {
    const value = open.pop()!;
    if (typeof value !== "object" || value === null) continue;
    const inner = Object.values(value);
    if (!Array.isArray(value)) fields += inner.length;
    for (const entry of inner) open.push(entry);
  }
  return fields;
}
