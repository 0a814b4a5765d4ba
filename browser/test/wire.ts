/** Item models as bytes, for tests; what is given wins, so that anything can be damaged. */
export interface WireArray {
  name: string;
  type: string;
  shape: number[];
  data: ArrayBufferView;
}

export function wire(fields: object, arrays: WireArray[]): Uint8Array {
  const listed = arrays.map(({ name, type, shape }) => ({ name, type, shape }));
  const header = Buffer.from(JSON.stringify({ arrays: listed, ...fields }));
  const filled = Buffer.concat([header, Buffer.alloc(-header.length & 7, " ")]);
  const length = Buffer.alloc(4);
  length.writeUInt32LE(filled.length);
  const parts = arrays.flatMap(({ data }) => [
    Buffer.from(data.buffer, data.byteOffset, data.byteLength), Buffer.alloc(-data.byteLength & 7),
  ]);
  return Uint8Array.from(Buffer.concat([Buffer.from("tim\x01", "latin1"), length, filled, ...parts]));
}

export const FIELDS = {
  format: "tacit-items/2", scale: { low: "1", high: "5", step: "1" }, mean: 3, rank: 1, encoding: "int8",
  beliefs: { residual_variance: 0.5, offset_variance: 0.25 }, pattern: { traits: 3, responses: 1 },
};

const float = (name: string, shape: number[], ...numbers: number[]): WireArray =>
  ({ name, type: "float32", shape, data: Float32Array.from(numbers) });

/** The arrays of a model of four items with everything a model can have. */
export function arrays(): WireArray[] {
  return [
    { name: "item_names_ids", type: "int64", shape: [4], data: BigInt64Array.from([10n, 20n, 30n, -4n]) },
    { name: "offsets", type: "int16", shape: [4], data: Int16Array.from([100, 50, 0, -100]) },
    float("offsets_scales", [], 0.01),
    { name: "factors", type: "int8", shape: [1, 4], data: Int8Array.from([10, -10, 20, 1]) },
    float("factors_scales", [4], 0.01, 0.01, 0.01, 0.01),
    { name: "offset_variances", type: "int16", shape: [4], data: Int16Array.from([1, 2, 3, 4]) },
    float("offset_variances_scales", [], 0.01),
    { name: "factor_variances", type: "int8", shape: [4, 1], data: Int8Array.from([1, 1, 1, 1]) },
    float("factor_variances_scales", [1], 0.01),
    float("person_factor_variances", [1], 0.5),
    { name: "traits", type: "int8", shape: [4, 3], data: Int8Array.from([1, 2, 3, 4, 5, 6, -7, -8, -9, 1, 0, 2]) },
    float("traits_scales", [3], 0.1, 0.1, 0.1),
    { name: "responses", type: "int8", shape: [4, 1], data: Int8Array.from([5, 6, 7, 8]) },
    float("responses_scales", [1], 0.1),
    { name: "shares", type: "int16", shape: [4], data: Int16Array.from([100, 200, 300, 400]) },
    float("shares_scales", [], 0.001),
    float("person_trait_variances", [3], 0.5, 0.5, 0.5),
    float("place_scale", [1], 0.5),
  ];
}

/** The same arrays with some of them changed. */
export function changed(name: string, change: Partial<WireArray>): WireArray[] {
  return arrays().map((array) => (array.name === name ? { ...array, ...change } : array));
}
