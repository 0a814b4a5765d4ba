"""Plain matrix factorisation (Eq. 1) by stochastic gradient steps, the same for any number of threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tacit.learning.factors import FIRST_GUESS, FactorPair, Ridge, random_pair, relative_change
from tacit.learning.kernels import ReportBlocks, sgd_epoch
from tacit.learning.loop import Conduct, State, Step, iterate
from tacit.learning.mixture import NoiseMixture

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.learning.local_engine import LocalEngine
    from tacit.learning.matrix import ReportMatrix
    from tacit.learning.options import MfSgdOptions
    from tacit.learning.trace import FitTrace

# Users and items are dealt into so many groups each. Blocks of reports that share neither can be worked on
# side by side; the order of all steps is fixed by the groups, not by the threads.
_GROUPS = 16
# Steps overshoot when they are long beside the squared factors, which grow with the reports: a step times the largest
# report is kept below this. Ratings of a few stars are far from it.
_LONGEST_STEP = 0.25
# With offsets to begin with, what random factors claim to explain is noise that few epochs do not get rid of.
_NEXT_TO_NOTHING = 0.001
_SMALL = 1_000_000  # reports below which starting threads costs more than it saves


def fit_mf_sgd(
    engine: LocalEngine, options: MfSgdOptions, rng: np.random.Generator, conduct: Conduct
) -> tuple[State, FitTrace]:
    """Run through all reports, in an order drawn once, as often as asked."""
    matrix = engine.summary
    mean = np.float32(matrix.mean if options.offsets else 0.0)
    explained = _NEXT_TO_NOTHING if options.offsets else FIRST_GUESS
    pair = random_pair(matrix, options.rank, offsets=options.offsets, rng=rng, explained=explained)
    blocks = deal(matrix, rng)
    table = None if matrix.symbol_values is None else matrix.symbol_values - mean
    if table is None:
        blocks = ReportBlocks(blocks.side, blocks.starts, blocks.users, blocks.items, blocks.values - mean)
    largest = float(np.abs(blocks.values if table is None else table).max())
    rates = rates_of(pair, options, min(options.step, _LONGEST_STEP / max(largest, 1.0)))
    ridge = Ridge(options.regularisation, options.regularisation)
    threads = engine.threads if matrix.reports >= _SMALL else 1

    def step(state: State) -> Step:
        before = pair.users.copy()
        squared = sgd_epoch(blocks, table, pair.users, pair.items, rates, threads=threads)
        change = relative_change(before, pair.users)
        return Step(state.mixture, objective=squared + ridge.penalty(pair), change=change)

    start = State(pair, NoiseMixture.single())
    return iterate(start, step, conduct, iterations=options.epochs, tolerance=0.0)


def deal(matrix: ReportMatrix, rng: np.random.Generator) -> ReportBlocks:
    """Deal users and items into groups at random, and put the reports of each block in random order."""
    people, things = matrix.shape
    user_group = (rng.permutation(people) % _GROUPS).astype(np.int16)
    item_group = (rng.permutation(things) % _GROUPS).astype(np.int16)
    users = np.repeat(np.arange(people, dtype=np.int32), matrix.by_user.counts())
    block = user_group[users] * np.int16(_GROUPS) + item_group[matrix.by_user.columns]
    shuffled = rng.permutation(matrix.reports).astype(np.int32 if matrix.reports < 2**31 else np.int64)
    order = shuffled[np.argsort(block[shuffled], kind="stable")]
    starts = np.zeros(_GROUPS**2 + 1, dtype=np.int64)
    np.cumsum(np.bincount(block, minlength=_GROUPS**2), out=starts[1:])
    return ReportBlocks(_GROUPS, starts, users[order], matrix.by_user.columns[order], matrix.by_user.values[order])


def rates_of(pair: FactorPair, options: MfSgdOptions, step: float) -> NDArray[np.float32]:
    """Return, for every coordinate, what a user keeps and its step, and the same for an item.

    The coordinates that are 1 by definition are kept whole and take no step.
    """
    rates = np.zeros((4, pair.users.shape[1]), dtype=np.float32)
    rates[[0, 2]] = 1.0
    moved_users, moved_items = list(range(pair.rank)), list(range(pair.rank))
    if pair.offsets:
        moved_users.append(pair.rank)
        moved_items.append(pair.rank + 1)
    for keep, move, moved in ((0, 1, moved_users), (2, 3, moved_items)):
        rates[keep, moved] = 1.0 - step * options.regularisation
        rates[move, moved] = step
    return rates
