import { arraysOf, LARGEST, SMALLEST_VARIANCE, type Arrays } from "./item-arrays.ts";
import { readPattern, type ItemPattern } from "./item-pattern.ts";
import { damaged, readWire } from "./item-wire.ts";
import { row, type Matrix } from "./rows.ts";
import { RatingScale } from "./scale.ts";
import { hasFields, isCount, type Json } from "./strict-json.ts";

const FORMAT = "tacit-items/2";
const ENCODING = "int8";
const FIELDS = ["format", "scale", "mean", "rank", "encoding", "beliefs", "pattern", "arrays"];
const MOST_COLUMNS = 512;

type Fields = { readonly [name: string]: Json };

/** What the provider believes of people, and how sure it is of its items. */
export interface Beliefs {
  /** Of a rating around its score. */
  readonly residualVariance: number;
  /** Prior variance of a person's own offset. */
  readonly offsetVariance: number;
  /** Prior variances of a person's own coordinates on the factors. */
  readonly factorVariances: Float32Array;
  readonly itemOffsetVariances: Float32Array;
  readonly itemFactorVariances: Matrix;
}

/** The public part of a model, all that a device needs to rank by itself; items by falling number of reports. */
export class ItemModel {
  readonly #indices: ReadonlyMap<string, number>;

  private constructor(
    readonly scale: RatingScale,
    readonly items: readonly string[],
    readonly mean: number,
    readonly offsets: Float32Array,
    readonly factors: Matrix,
    readonly beliefs: Beliefs | null,
    readonly pattern: ItemPattern | null,
  ) {
    this.#indices = new Map(items.map((item, index) => [item, index]));
  }

  /** Reads a model that may have come from anywhere, or refuses it. */
  static read(bytes: Uint8Array): ItemModel {
    const { fields, arrays: stored } = readWire(bytes);
    if (!hasFields(fields, ...FIELDS) || fields.format !== FORMAT || fields.encoding !== ENCODING) {
      throw damaged("format");
    }
    const arrays = arraysOf(stored);
    const items = arrays.ids("item_names");
    const rank = count(fields, "rank");
    const offsets = arrays.vector("offsets", items.length);
    const factors = turned(arrays.matrix("factors", rank, items.length));
    const beliefs = fields.beliefs === null ? null : beliefsOf(fields.beliefs, arrays, items.length, rank);
    const pattern = fields.pattern === null ? null : patternOf(fields.pattern, arrays, items.length);
    if (pattern && !beliefs) throw damaged("pattern without beliefs");
    arrays.refuseOthers();
    const mean = number(fields, "mean", -LARGEST);
    return new ItemModel(scaleOf(fields.scale), items, mean, offsets, factors, beliefs, pattern);
  }

  /** Returns the index of an item, or undefined if it is unknown. */
  indexOf(item: string): number | undefined {
    return this.#indices.get(item);
  }
}

function beliefsOf(found: Json | undefined, arrays: Arrays, items: number, rank: number): Beliefs {
  if (!hasFields(found, "residual_variance", "offset_variance")) throw damaged("beliefs");
  return {
    residualVariance: number(found, "residual_variance", SMALLEST_VARIANCE),
    offsetVariance: number(found, "offset_variance", SMALLEST_VARIANCE),
    factorVariances: arrays.small("person_factor_variances", rank, SMALLEST_VARIANCE),
    itemOffsetVariances: arrays.vector("offset_variances", items, 0),
    itemFactorVariances: arrays.matrix("factor_variances", items, rank, 0),
  };
}

function patternOf(found: Json | undefined, arrays: Arrays, items: number): ItemPattern {
  if (!hasFields(found, "traits", "responses")) throw damaged("pattern");
  const [traits, responses] = [count(found, "traits"), count(found, "responses")];
  if (responses + 2 > traits) throw damaged("number of traits");
  return readPattern(arrays, items, traits, responses);
}

function scaleOf(found: Json | undefined): RatingScale {
  if (!hasFields(found, "low", "high", "step")) throw damaged("scale");
  try {
    return new RatingScale(found.low as string, found.high as string, found.step as string);
  } catch {
    throw damaged("scale");
  }
}

function count(fields: Fields, name: string): number {
  const found = fields[name];
  if (!isCount(found, MOST_COLUMNS)) throw damaged(name);
  return found;
}

function number(fields: Fields, name: string, least: number): number {
  const found = fields[name];
  if (typeof found !== "number" || !(found >= least && found <= LARGEST)) throw damaged(name);
  return found;
}

function turned(matrix: Matrix): Matrix {
  const { rows, columns } = matrix;
  const data = new Float32Array(rows * columns);
  for (let at = 0; at < rows; at++) row(matrix, at).forEach((part, other) => (data[other * rows + at] = part));
  return { rows: columns, columns: rows, data };
}
