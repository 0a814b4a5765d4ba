/** Arrays of an item model, decoded from few bits and checked. */
import { damaged, type StoredArray } from "./item-wire.ts";
import type { Matrix } from "./rows.ts";
import { decode } from "./strict-json.ts";

/** Numbers up to this size, multiplied and summed, stay finite. */
export const LARGEST = 1e15;
/** The least variance that something is divided by. */
export const SMALLEST_VARIANCE = Math.fround(1e-30);

/** Arrays by name, each taken once. */
export interface Arrays {
  /** Reads one number an item. */
  vector(name: string, length: number, least?: number): Float32Array;
  /** Reads rows of numbers with a scale for every column. */
  matrix(name: string, rows: number, columns: number, least?: number): Matrix;
  /** Reads a short row of numbers as they are. */
  small(name: string, length: number, least?: number): Float32Array;
  /** Reads ids, numbers or text, in their text form; none is empty or there twice. */
  ids(name: string): string[];
  /** Refuses arrays that nobody asked for. */
  refuseOthers(): void;
}

type Taken = (name: string, type: StoredArray["type"], ...shape: number[]) => StoredArray["data"];

/** A side of a shape that may have any length. */
const ANY = -1;

/** Offers stored arrays, of the types and shapes they should have. */
export function arraysOf(stored: ReadonlyMap<string, StoredArray>): Arrays {
  const left = new Map(stored);
  const take: Taken = (name, type, ...shape) => {
    const found = left.get(name);
    const fits = found?.shape.length === shape.length && found.shape.every((side, at) => shape[at] === ANY || side === shape[at]);
    if (!fits || found.type !== type) throw damaged(name);
    left.delete(name);
    return found.data;
  };
  const floats = (...wanted: Parameters<Taken>): Float32Array => new Float32Array(take(...wanted) as Float32Array);
  const scales = (name: string, ...shape: number[]): Float32Array =>
    inRange(name, floats(`${name}_scales`, "float32", ...shape), -LARGEST);
  return {
    vector(name, length, least = -LARGEST) {
      const scale = scales(name)[0]!;
      return inRange(name, floats(name, "int16", length).map((code) => code * scale), least);
    },
    matrix(name, rows, columns, least = -LARGEST) {
      const each = scales(name, columns);
      const data = floats(name, "int8", rows, columns).map((code, at) => code * each[at % columns]!);
      return { rows, columns, data: inRange(name, data, least) };
    },
    small: (name, length, least = -LARGEST) => inRange(name, floats(name, "float32", length), least),
    ids(name) {
      const numbers = `${name}_ids`;
      const ids = left.has(numbers) ? Array.from(take(numbers, "int64", ANY) as BigInt64Array, String) : texts(name, take);
      if (!ids.length || new Set(ids).size < ids.length) throw damaged("list of items");
      return ids;
    },
    refuseOthers() {
      if (left.size) throw damaged("number of arrays");
    },
  };
}

function texts(name: string, take: Taken): string[] {
  const text = take(`${name}_text`, "uint8", ANY) as Uint8Array;
  const ends = Array.from(take(`${name}_offsets`, "int64", ANY) as BigInt64Array, Number);
  const rising = ends.every((end, at) => (at ? end > ends[at - 1]! : end === 0));
  if (!rising || ends.at(-1) !== text.length) throw damaged(name);
  try {
    return ends.slice(1).map((end, at) => decode(text.subarray(ends[at]!, end)));
  } catch {
    throw damaged(name);
  }
}

/** Returns numbers that are all from the least on and finite; NaN is not. */
function inRange(name: string, numbers: Float32Array, least: number): Float32Array {
  if (!numbers.every((number) => number >= least && number <= LARGEST)) throw damaged(`range of ${name}`);
  return numbers;
}
