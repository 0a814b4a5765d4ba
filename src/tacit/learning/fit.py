"""From reports to a finished model."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import ModelError
from tacit.learning.checkpoint import Checkpoint
from tacit.learning.closed_form import fit_offsets, squared_error, svd_pair
from tacit.learning.factors import FactorPair
from tacit.learning.kernels import checked_threads, default_threads, kernel_name
from tacit.learning.loop import Conduct, State
from tacit.learning.mf_als import fit_mf_als
from tacit.learning.mf_sgd import fit_mf_sgd
from tacit.learning.mixture import NoiseMixture
from tacit.learning.model import Model
from tacit.learning.model_parts import Offsets, Provenance, rated_of
from tacit.learning.mog_mf import fit_mog_mf
from tacit.learning.options import (
    GlobalMeanOptions,
    MfAlsOptions,
    MfSgdOptions,
    MogMfOptions,
    OffsetsOptions,
    Options,
    SvdOptions,
)
from tacit.learning.trace import FitTrace, Iteration

if TYPE_CHECKING:
    from tacit.learning.loop import Watch
    from tacit.learning.matrix import ReportMatrix

# Reports of no offset that are added to everybody's own where a model has no offsets to fall back on.
_FALLBACK_REGULARISATION = 5.0
_LINE = 16


def fit(  # noqa: PLR0913 - three that matter, and four about how it is run
    matrix: ReportMatrix,
    options: Options,
    rng: np.random.Generator,
    *,
    seed: int | None = None,
    threads: int | None = None,
    watch: Watch | None = None,
    checkpoint: str | Path | None = None,
) -> Model:
    """Fit the model the options belong to.

    The same reports, options and generator give the same model whatever the number of threads.

    Args:
        matrix: The reports.
        options: Options of the model wanted.
        rng: Where random starts come from.
        seed: What the generator was made from, to be written down.
        threads: How many threads to use; by default `TACIT_THREADS`, or all cores.
        watch: Called after every iteration. An interrupt (Ctrl-C) stops the fit after the iteration it falls
            into, and what is there by then is returned.
        checkpoint: A folder to keep the fit in, and to go on from if it was kept there before.
    """
    _check_seed(seed)
    kept = None if checkpoint is None else Checkpoint.of(Path(checkpoint), matrix, options, rng)
    conduct = Conduct(default_threads() if threads is None else checked_threads(threads), watch, kept)
    state, trace, mean = _run(matrix, options, rng, conduct)
    _refuse_non_finite(state.pair, options)
    fallback = _fallback(matrix, options, conduct.threads)
    factor_ridge, offset_ridge = _ridges(options, matrix)
    pair = state.pair
    return Model(
        name=options.model,
        options=options.to_document(),
        scale=matrix.scale,
        users=matrix.users,
        items=matrix.items,
        user_factors=pair.users[:, : pair.rank].copy(),
        item_factors=pair.items[:, : pair.rank].copy(),
        offsets=Offsets(mean, pair.user_offsets(), pair.item_offsets()),
        fallback=fallback,
        noise=state.mixture,
        factor_ridge=factor_ridge,
        offset_ridge=offset_ridge,
        rated=rated_of(matrix),
        trace=trace,
        provenance=_provenance(matrix, seed),
    )


def _check_seed(seed: int | None) -> None:
    if seed is not None and (type(seed) is not int or not 0 <= seed < 2**63):
        raise ModelError(f"seed is {seed!r}; give a whole number from 0 to 2**63 - 1")


def memory_needed(matrix: ReportMatrix, options: Options) -> int:
    """Estimate how many bytes a fit takes at its peak, the reports included."""
    people, things = matrix.shape
    rank = getattr(options, "rank", 0)
    stride = -(-(rank + 2) // _LINE) * _LINE
    factors = 4 * stride * (people + things) + 8 * rank * (people + things)
    # A copy of the users' factors, to see how far they moved; plain values less the mean, for offsets.
    extra = 4 * stride * people + (4 * matrix.reports if matrix.symbol_values is None else 0)
    if isinstance(options, MfSgdOptions):
        extra += matrix.reports * (4 + 4 + 4 + 8 + 4 + matrix.by_user.values.itemsize)
    elif isinstance(options, SvdOptions) or getattr(options, "start", "") == "svd":
        extra += 24 * matrix.reports + 8 * (2 * rank + 20) * (people + things)
    return matrix.nbytes + factors + extra + 4 * rank * (people + things) + 40 * (people + things)


def _run(
    matrix: ReportMatrix, options: Options, rng: np.random.Generator, conduct: Conduct
) -> tuple[State, FitTrace, float]:
    """Return where the fit ended, how, and the mean that the products are added to."""
    match options:
        case MogMfOptions():
            return *fit_mog_mf(matrix, options, rng, conduct), 0.0
        case MfAlsOptions():
            return *fit_mf_als(matrix, options, rng, conduct), matrix.mean if options.offsets else 0.0
        case MfSgdOptions():
            return *fit_mf_sgd(matrix, options, rng, conduct), matrix.mean if options.offsets else 0.0
        case SvdOptions():
            pair = svd_pair(matrix, options.rank, options.fill, rng)
            return *_closed(pair, squared_error(matrix, pair)), 0.0
        case OffsetsOptions():
            pair, mean, left = fit_offsets(matrix, options.regularisation, conduct.threads)
            return *_closed(pair, left), mean
        case GlobalMeanOptions():
            pair = FactorPair.of(np.zeros((matrix.shape[0], 0)), np.zeros((matrix.shape[1], 0)), offsets=False)
            return *_closed(pair, matrix.variance * matrix.reports), matrix.mean
    raise ModelError(f"{type(options).__name__} are the options of no model that is known here")


def _fallback(matrix: ReportMatrix, options: Options, threads: int) -> Offsets:
    """Return what answers where the user or the item is unknown: a mean and offsets, but for a model that has none."""
    if isinstance(options, GlobalMeanOptions):
        people, things = matrix.shape
        return Offsets(matrix.mean, np.zeros(people, dtype=np.float32), np.zeros(things, dtype=np.float32))
    pair, level, _ = fit_offsets(matrix, _FALLBACK_REGULARISATION, threads)
    return Offsets(level, pair.user_offsets(), pair.item_offsets())


def _closed(pair: FactorPair, left: float) -> tuple[State, FitTrace]:
    """Describe a fit without iterations by one: its objective is the sum of squared residuals left."""
    this = Iteration(number=1, objective=left, likelihood=None, change=0.0, seconds=0.0)
    return State(pair, NoiseMixture.single(), (this,)), FitTrace((this,), "closed form")


def _ridges(options: Options, matrix: ReportMatrix) -> tuple[float, float | None]:
    """Return the ridge on a new user's factors and, where the model has offsets, on its offset."""
    match options:
        case MfAlsOptions():
            return options.regularisation, options.offset_regularisation if options.offsets else None
        case OffsetsOptions():
            return 0.0, options.regularisation
        case MfSgdOptions():
            # Every step pulls, so the ridge on a user grows with its reports; a new one is taken for an average one.
            ridge = options.regularisation * matrix.reports / matrix.shape[0]
            return ridge, ridge if options.offsets else None
        case MogMfOptions():
            return options.regularisation, None
        case SvdOptions():
            # In a fit, the means that fill the gaps hold a row back; a new row has its reports alone.
            return _FALLBACK_REGULARISATION, None
    return 0.0, None


def _refuse_non_finite(pair: FactorPair, options: Options) -> None:
    if not (np.isfinite(pair.users).all() and np.isfinite(pair.items).all()):
        raise ModelError(
            f"{options.model}: the factors grew beyond all bounds; choose a shorter step, or another regularisation"
        )


def _provenance(matrix: ReportMatrix, seed: int | None) -> Provenance:
    versions = {"tacit": version("tacit"), "numpy": np.__version__, "python": platform.python_version()}
    versions["kernel"] = kernel_name()
    return Provenance(tuple(policy.id for policy in matrix.policies), matrix.checksum, seed, versions)
