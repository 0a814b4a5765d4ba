import { readFileSync } from "node:fs";

/** Reads one of the vectors that every implementation replays. */
export function vectors(name: string): any {
  return JSON.parse(readFileSync(new URL(`../../protocol/vectors/${name}`, import.meta.url), "utf8"));
}
