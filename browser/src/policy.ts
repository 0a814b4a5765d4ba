import { Channel, MOST_SYMBOLS, MOST_WEIGHTS } from "./channel.ts";
import { isCanonical, toUnits } from "./decimals.ts";
import { PolicyError, TacitError } from "./errors.ts";
import { hexOf } from "./hex.ts";
import { total } from "./rows.ts";
import { RatingScale } from "./scale.ts";
import { hasFields, isObject, isText, readJson, type Json } from "./strict-json.ts";

const FORMAT = "tacit-policy/1";
const LARGEST_DOCUMENT = 8 * 2 ** 20;
const SMALLEST_EPSILON = toUnits("0.001")!;
const LARGEST_EPSILON = toUnits("20")!;
const NAME = /^[a-z0-9][a-z0-9-]{0,63}$/;
const WEIGHT = /^[1-9][0-9]{0,19}$/;

/** A policy whose privacy claim was proven from its integers; made by `read` alone. */
export class Policy {
  private constructor(
    /** The hash of the document: a changed table is another policy. */
    readonly id: string,
    /** The name of the mechanism, a label only. */
    readonly mechanism: string,
    /** The privacy loss one report may cost, as exact decimal text. */
    readonly epsilon: string,
    readonly scale: RatingScale,
    readonly channel: Channel,
    /** The document in canonical form. */
    readonly document: string,
  ) {}

  /** Reads and verifies a document; this is all a device trusts. */
  static async read(document: string | Uint8Array): Promise<Policy> {
    try {
      const fields = wellFormed(parsed(document));
      const { id, ...body } = fields;
      const { scale, channel } = judged(fields);
      const found = await sha256(canonical(body));
      if (id !== found) throw new PolicyError(`it hashes to ${found}, not to its id`);
      return new Policy(id, fields.mechanism, fields.epsilon, scale, channel, canonical(fields));
    } catch (error) {
      if (!(error instanceof TacitError)) throw error;
      throw new PolicyError(`the policy is not usable: ${error.message}; fetch it again, or another`);
    }
  }
}

/** A document of the right shape, its privacy not yet judged. */
interface PolicyDocument {
  readonly id: string;
  readonly mechanism: string;
  readonly epsilon: string;
  readonly prior?: readonly string[];
  readonly scale: { readonly low: string; readonly high: string; readonly step: string };
  readonly channel: { readonly symbols: readonly string[]; readonly weights: readonly (readonly string[])[] };
}

function parsed(document: string | Uint8Array): Json {
  try {
    if (document.length <= LARGEST_DOCUMENT) return readJson(document);
  } catch {
    // Not JSON: as wrong as what is too large.
  }
  throw wrong("size or JSON");
}

function wellFormed(found: Json): PolicyDocument {
  const fields = isObject(found) ? found : {};
  const { format, mechanism, epsilon, scale, channel } = fields;
  if (format !== FORMAT) throw wrong("format");
  const prior = mechanism === "tailored" ? ["prior"] : [];
  const complete = hasFields(fields, "format", "id", "scale", "mechanism", "epsilon", "channel", ...prior);
  if (!complete || !hasFields(scale, "low", "high", "step") || !hasFields(channel, "symbols", "weights")) {
    throw wrong("list of fields");
  }
  if (!isText(mechanism, NAME)) throw wrong("mechanism's name");
  const lists = [[epsilon], channel.symbols, ...prior.map((name) => fields[name])];
  if (!lists.every((list) => Array.isArray(list) && list.length <= MOST_SYMBOLS && list.every(isCanonical))) {
    throw wrong("list of decimals");
  }
  const rows = Array.isArray(channel.weights) ? channel.weights : [];
  const entries = total(rows.map((row) => (Array.isArray(row) ? row.length : NaN)));
  if (!(entries <= MOST_WEIGHTS && rows.flat().every((weight) => isText(weight, WEIGHT)))) {
    throw wrong("table of weights");
  }
  return fields as unknown as PolicyDocument;
}

/** Proves the claim from the integers alone, or refuses it. */
function judged({ scale: { low, high, step }, epsilon, prior, channel }: PolicyDocument): Pick<Policy, "scale" | "channel"> {
  const scale = new RatingScale(low, high, step);
  const units = toUnits(epsilon) ?? 0n;
  if (units < SMALLEST_EPSILON || units > LARGEST_EPSILON) {
    throw new PolicyError(`epsilon ${epsilon} is not from 0.001 to 20`);
  }
  const priors = prior?.length ?? 1;
  if (channel.weights.length !== scale.size || priors < 1 || priors > scale.size) throw wrong("number of rows");
  return { scale, channel: new Channel(channel.symbols, channel.weights.map((row) => row.map(BigInt)), units) };
}

function wrong(part: string): PolicyError {
  return new PolicyError(`its ${part} is wrong`);
}

/** Writes JSON as RFC 8785 does, for documents that hold no numbers and plain names only. */
function canonical(document: object): string {
  const sorted = (part: object): object =>
    Object.fromEntries(Object.entries(part).sort(([one], [other]) => (one < other ? -1 : 1)));
  return JSON.stringify(document, (_, part) => (isObject(part) ? sorted(part) : part));
}

async function sha256(text: string): Promise<string> {
  if (!globalThis.crypto?.subtle) throw new PolicyError("it can be checked over HTTPS only");
  return hexOf(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))));
}
