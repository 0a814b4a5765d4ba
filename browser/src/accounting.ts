/**
 * Accounting: what a person has given away in all, over any mix of policies.
 *
 * The pure total is exact. The (epsilon, delta) total is an upper bound: each table's privacy losses are replaced by
 * those of the curve that dominates every ordered pair of ratings, on a grid, and their sum is bounded by its moments.
 * The grid holds every second point of the one that the Python package composes on, so its figure is never undercut.
 */
import type { Channel } from "./channel.ts";
import { fromUnits, toUnits } from "./decimals.ts";
import { TacitError } from "./errors.ts";
import type { Policy } from "./policy.ts";
import { dot, total } from "./rows.ts";
import { isCount } from "./strict-json.ts";

/** A person's privacy loss over all reports, by two notions. */
export interface Totals {
  readonly reports: number;
  /** The sum of the epsilons, exactly: what a lifetime cap is enforced on. */
  readonly pure: string;
  /** An epsilon that goes with `delta`; information only, for policies fixed beforehand. */
  readonly approximate: number;
  readonly delta: number;
}

/** What one report can reveal: losses and how likely each is. */
interface LossDistribution {
  readonly losses: Float64Array;
  readonly masses: Float64Array;
}

const FINEST_GRID = 100;
const LARGEST_GRID = 5_000;

// Of a larger table not every pair of rows is compared: any table of that loss is at most as bad as two answers.
const MOST_STEPS = 5e7;

// Every order gives a bound; the best of these is within a few thousandths of the best of all.
const ORDERS = Array.from({ length: 240 }, (_, step) => 1e-4 * 1.1 ** step);

// For rounding in the sums below.
const MARGIN = 1 + 1e-6;

/** Composes the reports made under each policy, both ways. */
export function totalLoss(spends: readonly (readonly [Policy, number])[], delta = 1e-6): Totals {
  if (!(delta > 0 && delta < 1)) throw new TacitError(`delta ${delta} is not between 0 and 1; 1e-6 is usual`);
  if (!spends.every(([, count]) => isCount(count, Number.MAX_SAFE_INTEGER))) {
    throw new TacitError("a number of reports is not a whole number from 0 on");
  }
  const made = spends.filter(([, count]) => count > 0);
  const pure = fromUnits(made.reduce((sum, [policy, count]) => sum + toUnits(policy.epsilon)! * BigInt(count), 0n));
  const reports = total(made.map(([, count]) => count));
  const approximate = made.length ? Math.min(Number(pure), composed(made, delta)) : 0;
  return { reports, pure, approximate, delta };
}

function composed(made: readonly (readonly [Policy, number])[], delta: number): number {
  const epsilons = made.map(([policy]) => Number(policy.epsilon));
  const interval = Math.max(Math.min(...epsilons) / FINEST_GRID, Math.max(...epsilons) / LARGEST_GRID);
  const parts = made.map(([policy, count]) => [lossDistribution(policy.channel, interval), count] as const);
  const bounds = ORDERS.map((order) => {
    const moments = total(parts.map(([part, count]) => count * logMoment(part, order)));
    // The largest of (1 - e^-x) e^-(order x), as a logarithm.
    const excess = order * Math.log(order) - (1 + order) * Math.log1p(order);
    return (moments + excess - Math.log(delta)) / order;
  });
  return Math.max(0, Math.min(...bounds) * MARGIN);
}

/** Returns the logarithm of E[e^(order loss)]. */
function logMoment({ losses, masses }: LossDistribution, order: number): number {
  const most = losses.at(-1)!;
  return Math.log(dot(masses, losses.map((loss) => Math.exp(order * (loss - most))))) + order * most;
}

/** Connects the dots of the dominating curve, straight over e^loss, and returns the losses that have this curve. */
function lossDistribution(channel: Channel, interval: number): LossDistribution {
  const reach = Math.ceil(channel.exactLoss / interval) + 1;
  const losses = Float64Array.from({ length: 2 * reach + 1 }, (_, at) => (at - reach) * interval);
  const curve = dominatingCurve(channel, losses);
  const slope = (at: number): number =>
    at < 0 ? -1 : at >= losses.length - 1 ? 0
    : (curve[at + 1]! - curve[at]!) / (Math.exp(losses[at]!) * Math.expm1(interval));
  const masses = losses.map((loss, at) => Math.exp(loss) * Math.max(0, slope(at) - slope(at - 1)));
  return { losses: losses.filter((_, at) => masses[at]! > 0), masses: masses.filter((mass) => mass > 0) };
}

/** Returns the largest sum of (p - e^loss q) where positive, over ordered pairs of ratings, for rising losses. */
function dominatingCurve(channel: Channel, losses: Float64Array): Float64Array {
  const rows = channel.probabilities;
  const steps = rows.length ** 2 * (channel.symbols.length + losses.length);
  const worst = steps > MOST_STEPS ? twoAnswers(channel.exactLoss, losses) : new Float64Array(losses.length);
  if (steps <= MOST_STEPS) for (const p of rows) for (const q of rows) raiseTo(worst, p, q, losses);
  return worst.map((height, at) => (losses[at]! >= channel.exactLoss ? 0 : height));
}

/** The curve of randomised response, which no table of the same loss exceeds. */
function twoAnswers(loss: number, losses: Float64Array): Float64Array {
  const likely = 1 / (1 + Math.exp(-loss));
  return losses.map((at) => Math.max(0, 1 - Math.exp(at), likely - Math.exp(at) * (1 - likely)));
}

function raiseTo(worst: Float64Array, p: readonly number[], q: readonly number[], losses: Float64Array): void {
  const interval = losses[1]! - losses[0]!;
  const [massP, massQ] = [new Float64Array(losses.length + 1), new Float64Array(losses.length + 1)];
  for (let symbol = 0; symbol < p.length; symbol++) {
    // The last grid point below the symbol's own loss: up to there it counts.
    const steps = Math.floor((Math.log(p[symbol]! / q[symbol]!) - losses[0]!) / interval);
    const at = Math.min(Math.max(steps, 0), losses.length - 1);
    massP[at]! += p[symbol]!;
    massQ[at]! += q[symbol]!;
  }
  for (let at = losses.length - 1; at >= 0; at--) {
    massP[at]! += massP[at + 1]!;
    massQ[at]! += massQ[at + 1]!;
    worst[at] = Math.max(worst[at]!, massP[at]! - Math.exp(losses[at]!) * massQ[at]!);
  }
}
