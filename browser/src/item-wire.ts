/** The bytes of an item model: a JSON header, then arrays; what does not add up exactly is refused. */
import { ModelError } from "./errors.ts";
import { hasFields, isCount, isObject, readJson, type Json } from "./strict-json.ts";

const LARGEST = 64 * 2 ** 20;
const LARGEST_HEADER = 2 ** 16;
const MOST_BRACKETS = 100;
const MAGIC = 0x016d6974; // "tim" and the version, 1
const START = 8;
const ALIGNED = 8;
const TYPES = {
  int8: Int8Array, int16: Int16Array, int64: BigInt64Array, float32: Float32Array, uint8: Uint8Array,
};

export type ArrayType = keyof typeof TYPES;

/** An array as it was stored, in C order. */
export interface StoredArray {
  readonly type: ArrayType;
  readonly shape: readonly number[];
  readonly data: InstanceType<(typeof TYPES)[ArrayType]>;
}

export interface WireParts {
  readonly fields: { [name: string]: Json };
  readonly arrays: ReadonlyMap<string, StoredArray>;
}

/** Returns the document and the arrays that bytes hold. */
export function readWire(bytes: Uint8Array): WireParts {
  if (!(bytes instanceof Uint8Array) || bytes.length < START || bytes.length > LARGEST) {
    throw damaged("size");
  }
  const content = bytes.slice(); // aligned, and nobody else's
  const view = new DataView(content.buffer);
  const length = view.getUint32(4, true);
  const fits = length % ALIGNED === 0 && length <= Math.min(LARGEST_HEADER, content.length - START);
  if (view.getUint32(0, true) !== MAGIC || !fits) throw damaged("layout");
  const fields = headerOf(content.subarray(START, START + length));
  return { fields, arrays: arraysOf(fields.arrays, content, START + length) };
}

/** Says which part of an item model is wrong. */
export function damaged(part: string): ModelError {
  return new ModelError(`the item model is not usable: its ${part} is wrong; fetch it again, or update tacit`);
}

function headerOf(bytes: Uint8Array): { [name: string]: Json } {
  const brackets = bytes.filter((byte) => byte === 0x5b || byte === 0x7b);
  let header: Json = null;
  try {
    if (brackets.length <= MOST_BRACKETS) header = readJson(bytes);
  } catch {
    // Not JSON: as wrong as anything else that is no object.
  }
  if (!isObject(header)) throw damaged("header");
  return header;
}

/** Reads the arrays one behind the other: they cannot overlap, and nothing is left over. */
function arraysOf(listed: Json | undefined, content: Uint8Array, start: number): Map<string, StoredArray> {
  const arrays = new Map<string, StoredArray>();
  for (const entry of Array.isArray(listed) ? listed : []) {
    const { name, type, shape } = described(entry, content.length);
    const count = shape.reduce((product, side) => product * side, 1);
    const stop = start + count * TYPES[type].BYTES_PER_ELEMENT;
    const end = Math.ceil(stop / ALIGNED) * ALIGNED;
    if (arrays.has(name) || end > content.length || content.subarray(stop, end).some(Boolean)) {
      throw damaged("order of arrays");
    }
    arrays.set(name, { type, shape, data: new TYPES[type](content.buffer as ArrayBuffer, start, count) });
    start = end;
  }
  if (start !== content.length) throw damaged("length");
  return arrays;
}

function described(entry: Json, most: number): { name: string; type: ArrayType; shape: number[] } {
  if (hasFields(entry, "name", "type", "shape")) {
    const { name, type, shape } = entry;
    const fits = Array.isArray(shape) && shape.length <= 2 && shape.every((side) => isCount(side, most));
    if (typeof name === "string" && typeof type === "string" && Object.hasOwn(TYPES, type) && fits) {
      return { name, type: type as ArrayType, shape: shape as number[] };
    }
  }
  throw damaged("list of arrays");
}
