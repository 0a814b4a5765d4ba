/** Cholesky factors of matrices that follow from published items, which may have come from anywhere. */
import { damaged } from "./item-wire.ts";

/** A square matrix, row by row; of a factor, only the lower triangle is looked at. */
export interface Square {
  readonly size: number;
  readonly data: Float64Array;
}

/** Factors a matrix with something added on its diagonal; one that is not positive definite is refused. */
export function lowerRoot({ size, data }: Square, added: (at: number) => number): Square {
  const root = data.slice();
  for (let row = 0; row < size; row++) {
    root[row * size + row]! += added(row);
    for (let column = 0; column <= row; column++) {
      let left = root[row * size + column]!;
      for (let at = 0; at < column; at++) left -= root[row * size + at]! * root[column * size + at]!;
      if (column < row) left /= root[column * size + column]!;
      else if (left > 0) left = Math.sqrt(left);
      else throw damaged("system of equations");
      root[row * size + column] = left;
    }
  }
  return { size, data: root };
}

/** Solves root x = right. */
export function solveLower({ size, data }: Square, right: Float64Array): Float64Array {
  const solution = right.slice();
  for (let row = 0; row < size; row++) {
    let left = solution[row]!;
    for (let at = 0; at < row; at++) left -= data[row * size + at]! * solution[at]!;
    solution[row] = left / data[row * size + row]!;
  }
  return solution;
}

/** Solves root' x = right. */
export function solveUpper({ size, data }: Square, right: Float64Array): Float64Array {
  const solution = right.slice();
  for (let row = size - 1; row >= 0; row--) {
    const found = (solution[row]! /= data[row * size + row]!);
    for (let at = 0; at < row; at++) solution[at]! -= data[row * size + at]! * found;
  }
  return solution;
}
