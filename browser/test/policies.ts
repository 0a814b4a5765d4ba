/** Policies for tests, sealed under their right id. */
import { createHash } from "node:crypto";
import { Policy } from "../src/index.ts";
import { vectors } from "./vectors.ts";

export interface Document {
  [name: string]: unknown;
  channel: { symbols: string[]; weights: string[][] };
}

const TOTAL = 2n ** 64n;

/** Gives a document its id; fields are sorted as RFC 8785 does, which is all it takes without numbers. */
export function sealed(body: Record<string, unknown>): Document {
  const { id: _, ...rest } = body;
  return { ...rest, id: createHash("sha256").update(canonical(rest)).digest("hex") } as unknown as Document;
}

function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const fields = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1));
  return `{${fields.map(([name, part]) => `${JSON.stringify(name)}:${canonical(part)}`).join(",")}}`;
}

/** Randomised response over the ratings 1 to 5 with weights that say the rating in about `parts` - 4 of `parts`. */
export function document(epsilon = "1", low = "1"): Document {
  const other = TOTAL / 6n;
  const rows = Array.from({ length: 5 }, (_, rank) =>
    Array.from({ length: 5 }, (_, symbol) => String(symbol === rank ? TOTAL - 4n * other : other)));
  return sealed({
    format: "tacit-policy/1",
    scale: { low, high: String(Number(low) + 4), step: "1" },
    mechanism: "hand-made",
    epsilon,
    channel: { symbols: ["1", "2", "3", "4", "5"], weights: rows },
  });
}

export async function policyOf(epsilon = "1", low = "1"): Promise<Policy> {
  return Policy.read(JSON.stringify(document(epsilon, low)));
}

export const laplace = (): Promise<Policy> => Policy.read(JSON.stringify(vectors("draws.json")[0].policy));
