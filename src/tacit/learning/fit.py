"""From reports to a finished model."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import ModelError
from tacit.learning.channel_mf import fit_channel_mf
from tacit.learning.channel_part import ChannelPart, finished
from tacit.learning.checkpoint import Checkpoint
from tacit.learning.closed_form import check_start, fit_offsets, squared_error, svd_pair
from tacit.learning.factors import FactorPair
from tacit.learning.kernels import checked_threads, default_threads
from tacit.learning.local_engine import LocalEngine
from tacit.learning.loop import Conduct, State
from tacit.learning.mf_als import fit_mf_als
from tacit.learning.mf_sgd import fit_mf_sgd
from tacit.learning.mixture import NoiseMixture
from tacit.learning.model import Model
from tacit.learning.model_parts import Offsets, Provenance
from tacit.learning.mog_mf import fit_mog_mf
from tacit.learning.options import (
    ChannelMfOptions,
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
    from tacit.learning.engine import Engine, ReportSummary
    from tacit.learning.loop import Watch
    from tacit.learning.matrix import ReportMatrix

# Reports of no offset that are added to everybody's own where a model has no offsets to fall back on.
_FALLBACK_REGULARISATION = 5.0


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
    """Fit the model the options belong to, on this machine.

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
    engine = LocalEngine(matrix, default_threads() if threads is None else checked_threads(threads))
    return fit_with(engine, options, rng, seed=seed, watch=watch, checkpoint=checkpoint)


def fit_with(  # noqa: PLR0913 - as above
    engine: Engine,
    options: Options,
    rng: np.random.Generator,
    *,
    seed: int | None = None,
    watch: Watch | None = None,
    checkpoint: str | Path | None = None,
) -> Model:
    """Fit the model the options belong to on any engine; see `fit`."""
    _check_seed(seed)
    _check_engine(engine, options)
    engine.prepare(options)
    kept = None if checkpoint is None else Checkpoint.of(Path(checkpoint), engine, options, rng)
    fallback = _fallback(engine, options)  # what may fail is done before the long part
    found = _run(engine, options, rng, Conduct(watch, kept))
    pair, summary = found.pair, engine.summary
    _refuse_non_finite(pair, options)
    offsets = Offsets(found.mean, pair.user_offsets(), pair.item_offsets())
    factor_ridge, offset_ridge = _ridges(options, summary)
    return Model(
        name=options.model,
        options=options.to_document(),
        scale=summary.scale,
        users=summary.users,
        items=summary.items,
        user_factors=pair.users[:, : pair.rank].copy(),
        item_factors=pair.items[:, : pair.rank].copy(),
        offsets=offsets,
        fallback=offsets if fallback is None else fallback,
        noise=found.noise,
        factor_ridge=factor_ridge,
        offset_ridge=offset_ridge,
        rated=engine.rated(),
        trace=found.trace,
        provenance=_provenance(engine, seed),
        channel=found.channel,
    )


def _check_seed(seed: int | None) -> None:
    if seed is not None and (type(seed) is not int or not 0 <= seed < 2**63):
        raise ModelError(f"seed is {seed!r}; give a whole number from 0 to 2**63 - 1")


def _check_engine(engine: Engine, options: Options) -> None:
    """Refuse what an engine cannot do, before it has done anything."""
    if isinstance(options, MfSgdOptions | SvdOptions):
        _local(engine, options)
    if isinstance(options, MogMfOptions | MfAlsOptions):
        check_start(engine, options)


@dataclass(frozen=True, eq=False, slots=True)
class _Found:
    """Where a fit ended, how, and the mean that the products are added to."""

    pair: FactorPair
    noise: NoiseMixture
    trace: FitTrace
    mean: float = 0.0
    channel: ChannelPart | None = None


def _run(  # noqa: PLR0911 - one for each model
    engine: Engine, options: Options, rng: np.random.Generator, conduct: Conduct
) -> _Found:
    summary = engine.summary
    match options:
        case MogMfOptions():
            return _iterated(*fit_mog_mf(engine, options, rng, conduct))
        case ChannelMfOptions():
            rows, trace, fitting = fit_channel_mf(engine, options, rng, conduct)
            pair, mean, channel = finished(fitting, rows, summary)
            return _Found(pair, fitting.noise, trace, mean, channel)
        case MfAlsOptions():
            return _iterated(*fit_mf_als(engine, options, rng, conduct), summary.mean if options.offsets else 0.0)
        case MfSgdOptions():
            state, trace = fit_mf_sgd(_local(engine, options), options, rng, conduct)
            return _iterated(state, trace, summary.mean if options.offsets else 0.0)
        case SvdOptions():
            matrix = _local(engine, options).summary
            pair = svd_pair(matrix, options.rank, options.fill, rng)
            return _closed(pair, squared_error(matrix, pair))
        case OffsetsOptions():
            pair, mean, left = fit_offsets(engine, options.regularisation)
            return _closed(pair, left, mean)
        case GlobalMeanOptions():
            pair = FactorPair.of(np.zeros((summary.shape[0], 0)), np.zeros((summary.shape[1], 0)), offsets=False)
            return _closed(pair, summary.variance * summary.reports, summary.mean)
    raise ModelError(f"{type(options).__name__} are the options of no model that is known here")


def _local(engine: Engine, options: Options) -> LocalEngine:
    """Return the local engine, for the models that only it can fit."""
    if not isinstance(engine, LocalEngine):
        raise ModelError(f"{options.model} cannot be fitted on the engine {engine.name[:40]}; use the engine local")
    return engine


def _iterated(state: State, trace: FitTrace, mean: float = 0.0) -> _Found:
    return _Found(state.factors.home(), state.mixture, trace, mean)


def _fallback(engine: Engine, options: Options) -> Offsets | None:
    """Return what answers where the user or the item is unknown; None for what the model itself has for that."""
    if isinstance(options, ChannelMfOptions):
        return None  # plain offsets would take the symbols at face value
    if isinstance(options, GlobalMeanOptions):
        people, things = engine.summary.shape
        return Offsets(engine.summary.mean, np.zeros(people, dtype=np.float32), np.zeros(things, dtype=np.float32))
    pair, level, _ = fit_offsets(engine, _FALLBACK_REGULARISATION)
    return Offsets(level, pair.user_offsets(), pair.item_offsets())


def _closed(pair: FactorPair, left: float, mean: float = 0.0) -> _Found:
    """Describe a fit without iterations by one: its objective is the sum of squared residuals left."""
    this = Iteration(number=1, objective=left, likelihood=None, change=0.0, seconds=0.0)
    return _Found(pair, NoiseMixture.single(), FitTrace((this,), "closed form"), mean)


def _ridges(options: Options, summary: ReportSummary) -> tuple[float, float | None]:
    """Return the ridge on a new user's factors and, where the model has offsets, on its offset."""
    match options:
        case MfAlsOptions():
            return options.regularisation, options.offset_regularisation if options.offsets else None
        case OffsetsOptions():
            return 0.0, options.regularisation
        case MfSgdOptions():
            # Every step pulls, so the ridge on a user grows with its reports; a new one is taken for an average one.
            ridge = options.regularisation * summary.reports / summary.shape[0]
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


def _provenance(engine: Engine, seed: int | None) -> Provenance:
    versions = {"tacit": version("tacit"), "numpy": np.__version__, "python": platform.python_version()}
    policies = tuple(policy.id for policy in engine.summary.policies)
    return Provenance(policies, engine.summary.checksum, seed, versions | engine.versions())
