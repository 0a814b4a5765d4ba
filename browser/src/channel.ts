import { expLowerBound, isAtMostExp } from "./decimals.ts";
import { PolicyError } from "./errors.ts";
import { isCount } from "./strict-json.ts";

const ROW_TOTAL = 1n << 64n;
const LOW_MASK = 0xffffffffn;
export const MOST_SYMBOLS = 4096;
export const MOST_WEIGHTS = 2 ** 18;

/** A finite table from rating rank to report symbol, proven from its integers to lose at most epsilon. */
export class Channel {
  /** How many bits one symbol takes on the wire. */
  readonly bits: number;
  /** The smallest epsilon this table satisfies. */
  readonly exactLoss: number;
  /** The table as floats, for showing and learning; never for claims. */
  readonly probabilities: readonly (readonly number[])[];
  /** Cumulative sums of the rows, the last excluded, symbol by symbol: upper and lower halves. */
  readonly #upper: Uint32Array;
  readonly #lower: Uint32Array;

  /**
   * @param symbols The values that reports of each symbol stand for.
   * @param weights For each rank, every symbol's probability in units of 2^-64.
   * @param epsilon The claimed loss, in units of 10^-18.
   */
  constructor(readonly symbols: readonly string[], readonly weights: readonly (readonly bigint[])[], epsilon: bigint) {
    checkTable(symbols.length, weights);
    this.exactLoss = provenLoss(weights, epsilon);
    this.bits = 32 - Math.clz32(symbols.length - 1);
    this.probabilities = weights.map((row) => row.map((weight) => Number(weight) / 2 ** 64));
    this.#upper = new Uint32Array(weights.length * (symbols.length - 1));
    this.#lower = new Uint32Array(this.#upper.length);
    weights.forEach((row, rank) => this.#addThresholds(row, rank));
  }

  /**
   * Turns a rank and a uniform 64-bit word into a symbol: the number of thresholds of the rank's row up to the word.
   *
   * Every draw reads the whole table and compares with a whole row, without a branch that depends on rank or word.
   */
  draw(rank: number, word: bigint): number {
    const ranks = this.weights.length;
    if (!isCount(rank, ranks - 1) || word < 0n || word >= ROW_TOTAL) {
      throw new PolicyError(`a rank is not from 0 to ${ranks - 1}, or a word not of 64 bits`);
    }
    const wordUpper = Number(word >> 32n);
    const wordLower = Number(word & LOW_MASK);
    let symbol = 0;
    for (let at = 0; at < this.#upper.length; ) {
      let upper = 0;
      let lower = 0;
      for (let other = 0; other < ranks; other++, at++) {
        const chosen = ((other ^ rank) - 1) >> 31;
        upper |= this.#upper[at]! & chosen;
        lower |= this.#lower[at]! & chosen;
      }
      // Rounding cannot turn the sign: the first term is zero, or larger than the second.
      symbol += +((wordUpper - (upper >>> 0)) * 2 ** 32 + (wordLower - (lower >>> 0)) >= 0);
    }
    return symbol;
  }

  #addThresholds(row: readonly bigint[], rank: number): void {
    let sum = 0n;
    for (let symbol = 0; symbol < row.length - 1; symbol++) {
      sum += row[symbol]!;
      this.#upper[symbol * this.weights.length + rank] = Number(sum >> 32n);
      this.#lower[symbol * this.weights.length + rank] = Number(sum & LOW_MASK);
    }
  }
}

function checkTable(symbols: number, weights: readonly (readonly bigint[])[]): void {
  if (weights.length < 2 || symbols < 2 || symbols > MOST_SYMBOLS || weights.length * symbols > MOST_WEIGHTS) {
    throw new PolicyError(`a table of ${weights.length} x ${symbols} weights is out of range`);
  }
  weights.forEach((row, rank) => {
    const sum = row.reduce((sum, weight) => sum + weight, 0n);
    if (row.length !== symbols || row.some((weight) => weight < 1n) || sum !== ROW_TOTAL) {
      throw new PolicyError(`row ${rank} is not of ${symbols} positive weights that sum to 2^64`);
    }
  });
}

/** Proves in integers that no ratio of one symbol's weights exceeds e^epsilon, and returns the largest's logarithm. */
function provenLoss(weights: readonly (readonly bigint[])[], epsilon: bigint): number {
  const bound = expLowerBound(epsilon);
  let worst = 0;
  for (let symbol = 0; symbol < weights[0]!.length; symbol++) {
    let [largest, smallest] = [weights[0]![symbol]!, weights[0]![symbol]!];
    for (const row of weights) {
      if (row[symbol]! > largest) largest = row[symbol]!;
      if (row[symbol]! < smallest) smallest = row[symbol]!;
    }
    if (!isAtMostExp(largest, smallest, bound)) {
      throw new PolicyError(`symbol ${symbol} loses more than the epsilon it claims`);
    }
    worst = Math.max(worst, Math.log1p(Number(largest - smallest) / Number(smallest)));
  }
  return worst;
}
