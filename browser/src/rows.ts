/** Arithmetic on rows of numbers. */

/** Rows of numbers, one behind the other. */
export interface Matrix {
  readonly rows: number;
  readonly columns: number;
  readonly data: Float32Array;
}

/** Returns one row of a matrix, from a column on; what is written to it is written to the matrix. */
export function row({ columns, data }: Matrix, at: number, first = 0): Float32Array {
  return data.subarray(at * columns + first, (at + 1) * columns);
}

/** Multiplies two rows, as far as the second goes. */
export function dot(one: ArrayLike<number>, other: ArrayLike<number>): number {
  let sum = 0;
  for (let at = 0; at < other.length; at++) sum += one[at]! * other[at]!;
  return sum;
}

/** Adds a row, so many times, to a sum. */
export function addTo(sum: Float64Array, added: ArrayLike<number>, times: number): void {
  for (let at = 0; at < sum.length; at++) sum[at]! += added[at]! * times;
}

/** Adds numbers up. */
export function total(numbers: Iterable<number>): number {
  let sum = 0;
  for (const number of numbers) sum += number;
  return sum;
}
