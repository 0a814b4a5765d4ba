"""What rows share, against the exact marginal likelihood of their reports, written out densely."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import multivariate_normal

from tacit.learning.hierarchy import Posterior, moved, updated_coefficients, updated_variance

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Doubles = NDArray[np.float64]

BELIEF = 0.7  # of the logarithm of a variance, as documented


@dataclass
class World:
    """Rows with three coordinates each, and reports that are linear in them; the rows share one thing at a time.

    `shared` is the prior variance of the first coordinate; the features move its mean.
    """

    features: Doubles
    designs: list[Doubles]
    reports: list[Doubles]
    noise: float
    others: Doubles

    @classmethod
    def drawn(cls, seed: int, rows: int = 30, columns: int = 3, most: int = 6, noise: float = 0.8) -> World:
        rng = np.random.default_rng(seed)
        features = rng.standard_normal((rows, columns))
        truth = rng.standard_normal(columns)
        others = np.array([0.5, 1.5])
        designs, reports = [], []
        for row in range(rows):
            design = np.column_stack([np.ones(k := int(rng.integers(0, most + 1))), rng.standard_normal((k, 2))])
            own = np.array([features[row] @ truth, 0, 0]) + rng.standard_normal(3) * np.sqrt([0.7, *others])
            designs.append(design)
            reports.append(design @ own + np.sqrt(noise) * rng.standard_normal(k))
        return cls(features, designs, reports, noise, others)

    def posterior(self, coefficients: Doubles, shared: float) -> Posterior:
        """The first coordinate of every row, by the book."""
        deviations, variances = [], []
        precision = np.diag(1 / np.array([shared, *self.others]))
        for row, (design, said) in enumerate(zip(self.designs, self.reports, strict=True)):
            centre = np.array([self.features[row] @ coefficients, 0, 0])
            covariance = np.linalg.inv(precision + design.T @ design / self.noise)
            deviations.append((covariance @ design.T @ (said - design @ centre) / self.noise)[0])
            variances.append(covariance[0, 0])
        return Posterior(np.array(deviations), np.array(variances), shared)

    def marginals(self, shared: float) -> list[Doubles]:
        """Covariances of every row's reports, whatever the row."""
        prior = np.diag([shared, *self.others])
        return [design @ prior @ design.T + self.noise * np.eye(len(design)) for design in self.designs]

    def log_likelihood(self, coefficients: Doubles, shared: float) -> float:
        total = 0.0
        for row, covariance in enumerate(self.marginals(shared)):
            if len(covariance):
                mean = np.full(len(covariance), self.features[row] @ coefficients)
                total += float(multivariate_normal(mean, covariance).logpdf(self.reports[row]))
        return total


def best_coefficients(world: World, belief: Doubles, shared: float) -> tuple[Doubles, Doubles]:
    """Solve for the maximiser of the penalised marginal likelihood: generalised least squares with a ridge."""
    curvature: NDArray[Any] = np.diag(1 / belief)
    right: NDArray[Any] = np.zeros(len(belief))
    for row, covariance in enumerate(world.marginals(shared)):
        design = np.outer(np.ones(len(covariance)), world.features[row])
        weighted = design.T @ np.linalg.inv(covariance)
        curvature = curvature + weighted @ design
        right = right + weighted @ world.reports[row]
    covariance = np.linalg.inv(curvature)
    return covariance @ right, np.diag(covariance)


@given(st.integers(0, 2**32 - 1), st.floats(0.05, 20), st.floats(0.05, 5))
def test_one_step_leads_to_the_best_coefficients_from_anywhere(seed: int, shared: float, noise: float) -> None:
    world = World.drawn(seed, rows=12, noise=noise)
    rng = np.random.default_rng(seed)
    belief = rng.uniform(0.1, 3, 3)
    expected, variances = best_coefficients(world, belief, shared)
    for start in (np.zeros(3), 3 * rng.standard_normal(3)):
        found, uncertainty = updated_coefficients(start, belief, world.features, world.posterior(start, shared))
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(uncertainty, variances, rtol=1e-6)


def test_the_coefficients_maximise_the_penalised_marginal_likelihood() -> None:
    world, belief = World.drawn(5), np.array([0.3, 1.0, 2.0])
    found, _ = updated_coefficients(np.zeros(3), belief, world.features, world.posterior(np.zeros(3), 0.7))

    def value(coefficients: Doubles) -> float:
        return world.log_likelihood(coefficients, 0.7) - 0.5 * float((coefficients**2 / belief).sum())

    for direction in np.random.default_rng(0).standard_normal((20, 3)):
        assert value(found) > value(found + 0.05 * direction)


@given(st.integers(0, 2**32 - 1))
def test_posterior_means_move_as_if_they_were_solved_again(seed: int) -> None:
    """Exactly so where a row has one coordinate."""
    rng = np.random.default_rng(seed)
    precisions, shared = rng.uniform(0, 4, 9), float(rng.uniform(0.1, 3))
    pulls, centres, shift = rng.standard_normal((3, 9))

    def means(around: Doubles) -> Doubles:
        return np.asarray((pulls + around / shared) / (precisions + 1 / shared))

    rows = Posterior(means(centres) - centres, 1 / (precisions + 1 / shared), shared)
    np.testing.assert_allclose(means(centres) + moved(rows, shift), means(centres + shift), atol=1e-9)


def fixed_point(world: World, default: float, start: float) -> float:
    variance = start
    for _ in range(60):
        variance = updated_variance(default, world.posterior(np.zeros(3), variance))
    return variance


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("default", [0.1, 0.7, 5.0])
def test_steps_end_where_the_penalised_marginal_likelihood_is_stationary(seed: int, default: float) -> None:
    world = World.drawn(seed, rows=25)
    world.features[:] = 0

    def surprise(logarithm: float) -> float:
        belief = 0.5 * (logarithm - np.log(default)) ** 2 / BELIEF**2
        return float(belief - world.log_likelihood(np.zeros(3), float(np.exp(logarithm))))

    found = fixed_point(world, default, default)
    assert fixed_point(world, default, 4 * default) == pytest.approx(found, rel=1e-4)
    best = minimize_scalar(surprise, bounds=(np.log(default) - 4, np.log(default) + 4), method="bounded")
    assert np.log(found) == pytest.approx(best.x, abs=1e-3)


@given(st.integers(0, 2**32 - 1), st.floats(0.01, 10), st.floats(0.01, 10))
def test_a_step_goes_uphill_and_not_too_far(seed: int, shared: float, default: float) -> None:
    world = World.drawn(seed, rows=8)
    step = np.log(updated_variance(default, world.posterior(np.zeros(3), shared)) / shared)
    assert abs(step) <= 0.7 + 1e-12

    def value(logarithm: float) -> float:
        belief = 0.5 * (logarithm - np.log(default)) ** 2 / BELIEF**2
        return float(world.log_likelihood(np.zeros(3), float(np.exp(logarithm))) - belief)

    slope = (value(np.log(shared) + 1e-4) - value(np.log(shared) - 1e-4)) / 2e-4
    assert step * slope >= -1e-5


def silent(rows: int, variance: float) -> Posterior:
    return Posterior(np.zeros(rows), np.full(rows, variance), variance)


@given(st.integers(1, 50), st.floats(1e-3, 1e3))
def test_where_nothing_is_said_everything_stays_at_its_default(rows: int, default: float) -> None:
    assert updated_variance(default, silent(rows, default)) == pytest.approx(default, rel=1e-12)
    strayed = 3 * default
    for _ in range(60):
        strayed = updated_variance(default, silent(rows, strayed))
    assert strayed == pytest.approx(default, rel=1e-6)
    features = np.random.default_rng(rows).standard_normal((rows, 4))
    belief = np.array([1.0, 0.1, 2.0, 0.5])
    found, uncertainty = updated_coefficients(np.zeros(4), belief, features, silent(rows, default))
    assert (found == 0).all()
    np.testing.assert_allclose(uncertainty, belief)


@given(
    st.lists(st.floats(0, 1e6), min_size=1, max_size=20),
    st.floats(1e-6, 1e6),
    st.sampled_from([np.float32, np.float64]),
)
def test_what_is_settled_is_a_share(variances: list[float], prior: float, kind: Any) -> None:
    settled = Posterior(np.zeros(len(variances)), np.array(variances, dtype=kind), prior).settled()
    assert ((settled >= 0) & (settled <= 1)).all()
    assert (settled[np.array(variances) >= prior * 1.001] == 0).all()
    assert Posterior(np.zeros(1), np.zeros(1, dtype=kind), prior).settled() == 1


def test_more_reports_settle_more() -> None:
    shares = [World.drawn(1, most=most).posterior(np.zeros(3), 0.7).settled().mean() for most in (1, 4, 16)]
    assert shares == sorted(shares)
