"""The paper's model against a textbook implementation, written from the paper in plain NumPy and double precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import norm

from tacit.learning.factors import FactorPair, Ridge
from tacit.learning.kernels import padded
from tacit.learning.local_engine import LocalEngine
from tacit.learning.loop import Conduct
from tacit.learning.matrix import ReportMatrix
from tacit.learning.mixture import NoiseMixture
from tacit.learning.mog_mf import em_iteration, fit_mog_mf, narrowest_variance, start
from tacit.learning.options import MogMfOptions
from tacit.privacy.policy import Policy
from tacit.privacy.scale import RatingScale
from tacit.tables import read_columns

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STARS = RatingScale.parse("1:5:1")
UNWATCHED = Conduct()

Doubles = NDArray[np.float64]


@dataclass
class Textbook:
    """U, V, Pi and Sigma of the paper for a matrix with gaps (NaN)."""

    R: Doubles
    U: Doubles
    V: Doubles
    pi: Doubles
    sigma2: Doubles
    ridge: float = 0.0

    @property
    def known(self) -> NDArray[np.bool_]:
        return ~np.isnan(self.R)

    def residuals(self) -> Doubles:
        return np.where(self.known, self.R - self.U @ self.V.T, 0.0)

    def log_shares(self) -> Doubles:
        deviations = np.sqrt(self.sigma2)
        return np.log(self.pi) + norm.logpdf(self.residuals()[:, :, None], scale=deviations)

    def likelihood(self) -> float:
        return float(logsumexp(self.log_shares(), axis=2)[self.known].sum())

    def e_step(self) -> Doubles:
        shares = self.log_shares()
        return np.exp(shares - logsumexp(shares, axis=2, keepdims=True)) * self.known[:, :, None]

    def update_mixture(self, gamma: Doubles) -> None:
        total = gamma.sum(axis=(0, 1))
        self.pi = total / self.known.sum()
        self.sigma2 = (gamma * self.residuals()[:, :, None] ** 2).sum(axis=(0, 1)) / total

    def _solve(self, weights: Doubles, values: Doubles, other: Doubles) -> Doubles:
        root = np.sqrt(weights)
        design, target = root[:, None] * other, root * np.nan_to_num(values)
        if self.ridge:
            design = np.vstack([design, np.sqrt(self.ridge) * np.eye(other.shape[1])])
            target = np.concatenate([target, np.zeros(other.shape[1])])
        return np.linalg.lstsq(design, target, rcond=1e-5)[0]

    def update_users(self, gamma: Doubles) -> None:
        W = gamma @ (1 / self.sigma2)
        self.U = np.array([self._solve(W[i], self.R[i], self.V) for i in range(len(self.U))])

    def update_items(self, gamma: Doubles) -> None:
        W = gamma @ (1 / self.sigma2)
        self.V = np.array([self._solve(W[:, j], self.R[:, j], self.U) for j in range(len(self.V))])

    def iterate(self) -> float:
        """The monotone order; returns the likelihood of the new factors under the mixture they were fitted with."""
        self.update_users(self.e_step())
        self.update_items(self.e_step())
        likelihood = self.likelihood()
        self.update_mixture(self.e_step())
        return likelihood

    def iterate_as_printed(self) -> None:
        """Lines 6 to 8 of Algorithm 2: mixture, then factors, with the responsibilities of the line before."""
        gamma = self.e_step()
        self.update_mixture(gamma)
        self.update_users(gamma)
        self.update_items(gamma)


def random_reports(seed: int, people: int = 40, things: int = 30, fill: float = 0.5) -> Doubles:
    rng = np.random.default_rng(seed)
    truth = 3.5 + rng.standard_normal((people, 2)) @ rng.standard_normal((2, things))
    noise = np.where(rng.random(truth.shape) < 0.2, 3.0, 0.4) * rng.standard_normal(truth.shape)
    return np.where(rng.random(truth.shape) < fill, (truth + noise).astype(np.float32), np.nan)


def matrix_of(R: Doubles) -> ReportMatrix:
    users, items = np.nonzero(~np.isnan(R))
    catalogue: dict[str, Any] = {"catalogue_users": np.arange(len(R)), "catalogue_items": np.arange(R.shape[1])}
    return ReportMatrix.of_values(users, items, R[users, items], STARS, **catalogue)


def started(matrix: ReportMatrix, options: MogMfOptions, seed: int) -> tuple[FactorPair, NoiseMixture]:
    sweeper, mixture = start(LocalEngine(matrix, 1), options, np.random.default_rng(seed))
    return sweeper.factors.home(), mixture


def textbook_of(R: Doubles, matrix: ReportMatrix, started: tuple[FactorPair, NoiseMixture], ridge: float) -> Textbook:
    """The same start, with users and items in their own order."""
    pair, mixture = started
    rank = pair.rank
    U, V = np.zeros((R.shape[0], rank)), np.zeros((R.shape[1], rank))
    U[matrix.users.ids], V[matrix.items.ids] = pair.users[:, :rank], pair.items[:, :rank]
    return Textbook(R, U, V, mixture.weights, mixture.variances, ridge)


@pytest.mark.parametrize(
    ("rank", "components", "ridge"), [(1, 4, 0.0), (2, 3, 0.0), (3, 1, 0.0), (5, 4, 0.5), (9, 2, 2.0)]
)
def test_twenty_iterations_agree_with_the_textbook(rank: int, components: int, ridge: float) -> None:
    R = random_reports(rank, people=30 + 20 * rank, things=20 + 20 * rank, fill=0.6)
    matrix = matrix_of(R)
    options = MogMfOptions(rank=rank, components=components, regularisation=ridge, iterations=20, tolerance=0.0)
    oracle = textbook_of(R, matrix, started(matrix, options, 7), ridge)
    state, trace = fit_mog_mf(LocalEngine(matrix, 1), options, np.random.default_rng(7), UNWATCHED)
    for iteration in trace.iterations:
        expected = oracle.iterate()
        assert iteration.likelihood is not None
        assert iteration.likelihood * matrix.reports == pytest.approx(expected, rel=1e-6)
    expected_scores = (oracle.U @ oracle.V.T)[np.ix_(matrix.users.ids, matrix.items.ids)]
    scores = state.factors.home().users[:, :rank].astype(float) @ state.factors.home().items[:, :rank].T.astype(float)
    # Where everything is rated enough to be determined, every prediction agrees, not only those of the reports.
    assert np.abs(scores - expected_scores).max() <= 1e-4 * np.abs(expected_scores).max()
    np.testing.assert_allclose(state.mixture.weights, oracle.pi, rtol=1e-4)
    np.testing.assert_allclose(state.mixture.variances, oracle.sigma2, rtol=1e-4)


def test_the_printed_order_of_updates_reaches_the_same_optimum() -> None:
    R = random_reports(3, people=60, things=40, fill=0.7)
    matrix = matrix_of(R)
    begun = started(matrix, MogMfOptions(rank=1, components=2), 1)
    ours, printed = (textbook_of(R, matrix, begun, 0.0) for _ in range(2))
    for _ in range(300):
        ours.iterate()
        printed.iterate_as_printed()
    assert printed.likelihood() == pytest.approx(ours.likelihood(), rel=1e-9)
    np.testing.assert_allclose(printed.U @ printed.V.T, ours.U @ ours.V.T, rtol=1e-4)
    np.testing.assert_allclose(np.sort(printed.sigma2), np.sort(ours.sigma2), rtol=1e-4)


@settings(max_examples=150)
@given(
    seed=st.integers(0, 10**6),
    rank=st.integers(1, 6),
    components=st.integers(1, 5),
    ridge=st.sampled_from([0.0, 0.1, 3.0]),
    fill=st.floats(0.05, 1.0),
)
@example(seed=16570, rank=5, components=1, ridge=0.0, fill=0.125)  # collapses, and then rises
def test_the_penalised_likelihood_never_falls_before_a_collapse(
    seed: int, rank: int, components: int, ridge: float, fill: float
) -> None:
    R = random_reports(seed, people=25, things=20, fill=fill)
    R[0, 0] = 4.0
    matrix = matrix_of(R)
    options = MogMfOptions(rank=rank, components=components, regularisation=ridge, iterations=30, tolerance=0.0)
    _, trace = fit_mog_mf(LocalEngine(matrix, 1), options, np.random.default_rng(seed), UNWATCHED)
    objectives = np.array([iteration.objective for iteration in trace.iterations])
    assert np.isfinite(objectives).all()
    # Once a component has collapsed the reports are explained exactly, many rows are singular, and what is left of
    # their residuals, over a variance held at its least, can move either way: there is no bar after that.
    collapses = [int(note.split(":")[0].split()[1]) for note in trace.notes if "collapsed" in note]
    before = objectives[: min(collapses, default=len(objectives) + 1) - 1]
    # Single precision: a report's residual is known to about 1e-6, which weighs most where variances are smallest.
    assert (np.diff(before) <= 1e-5 * matrix.reports).all()


def test_a_component_that_collapses_is_held_and_reported() -> None:
    # Everything is explained exactly: residuals vanish and variances would follow them to zero.
    R = np.outer(np.linspace(1, 2, 12), np.linspace(1, 2, 9)).astype(np.float32).astype(float)
    matrix = matrix_of(R)
    options = MogMfOptions(rank=1, components=3, iterations=60, tolerance=0.0)
    state, trace = fit_mog_mf(LocalEngine(matrix, 1), options, np.random.default_rng(0), UNWATCHED)
    assert any("collapsed" in note for note in trace.notes)
    assert (state.mixture.variances >= narrowest_variance(matrix)).all()
    assert np.isfinite(state.factors.home().users).all()
    scores = state.factors.home().users[:, :1] @ state.factors.home().items[:, :1].T
    np.testing.assert_allclose(scores, R[np.ix_(matrix.users.ids, matrix.items.ids)], rtol=1e-3)


def test_a_component_that_empties_is_left_out_and_reported() -> None:
    R = random_reports(5)
    matrix = matrix_of(R)
    sweeper, _ = start(LocalEngine(matrix, 1), MogMfOptions(rank=1), np.random.default_rng(0))
    # A component with next to no weight, and too wide to explain any report.
    mixture = NoiseMixture(np.array([1 - 1e-13, 1e-13]), np.array([4.0, 1e4]))
    step = em_iteration(sweeper, mixture, 1e-6)
    assert step.notes == ["component 2 emptied and was left out"]
    assert step.mixture.weights.tolist() == [1.0, 0.0]
    again = em_iteration(sweeper, step.mixture, 1e-6)
    assert again.notes == []
    assert np.isfinite([again.objective, *again.mixture.variances]).all()


def test_a_row_that_is_not_determined_gets_the_solution_of_least_norm() -> None:
    R = np.full((4, 6), np.nan)
    R[0], R[1, :2], R[2, 3], R[3, 1:] = 3.0, [1.0, 5.0], 2.0, 4.0
    matrix = matrix_of(R)
    rng = np.random.default_rng(2)
    pair = FactorPair.of(rng.standard_normal((4, 3)), rng.standard_normal((6, 3)), offsets=False)
    mixture = NoiseMixture(np.array([0.5, 0.5]), np.array([0.5, 3.0]))
    LocalEngine(matrix, 1).sweeper(pair, 0.0, Ridge(0.0)).users(mixture)
    for user in (1, 2):
        row = matrix.users.index_of(user)
        assert row is not None
        rated = matrix.items.find(np.flatnonzero(~np.isnan(R[user])))
        expected = np.linalg.pinv(pair.items[rated, :3].astype(float)) @ R[user][~np.isnan(R[user])]
        np.testing.assert_allclose(pair.users[row, :3], expected, rtol=1e-5)


@pytest.mark.parametrize(("epsilon", "low", "high"), [("0.1", 1.19, 1.30), ("1", 1.11, 1.22), ("3", 1.00, 1.09)])
def test_bounded_laplace_on_movielens_gives_the_known_error(
    data_file: Callable[[str], Path], epsilon: str, low: float, high: float
) -> None:
    columns = read_columns(data_file("ml-100k.parquet"), ["user", "item", "rating"])
    users, items = (column.ids().decoded() for column in columns[:2])
    ratings = columns[2].numbers()
    held_out = np.random.default_rng(0).permutation(len(ratings)) % 10 == 0
    policy = Policy.make("bounded-laplace", STARS, epsilon)
    words = np.random.default_rng(1).integers(0, 2**64, len(ratings), dtype=np.uint64, endpoint=False)
    symbols = policy.channel.draw(STARS.ranks_of(ratings), words)
    kept = ~held_out
    matrix = ReportMatrix.of_symbols(users[kept], items[kept], symbols[kept], policy)
    options = MogMfOptions(rank=1, tolerance=0.0)
    state, trace = fit_mog_mf(LocalEngine(matrix, 1), options, np.random.default_rng(2), UNWATCHED)
    rows, columns_ = matrix.users.find(users[held_out]), matrix.items.find(items[held_out])
    scores = np.einsum("ij,ij->i", state.factors.home().users[rows], state.factors.home().items[columns_])
    predicted = np.where((rows >= 0) & (columns_ >= 0), scores, matrix.mean)
    error = np.sqrt(np.mean((np.clip(predicted, 1, 5) - ratings[held_out]) ** 2))
    assert low < error < high
    # The noise is lighter-tailed than a Gaussian, so all components come to the same variance: plain least squares.
    variances = np.array(trace.iterations[-1].variances)
    assert np.ptp(variances) < 1e-3 * variances.mean()


def test_padding_is_aligned_and_zero() -> None:
    for columns in (1, 16, 17, 258):
        rows = padded(np.ones((3, columns)))
        assert rows.ctypes.data % 64 == 0
        assert rows.shape == (3, -(-columns // 16) * 16)
        assert rows.sum() == 3 * columns
