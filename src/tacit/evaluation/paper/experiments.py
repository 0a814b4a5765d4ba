"""What is computed for the paper: one declared experiment per figure or table, in full or as a fast look."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tacit.errors import InvalidInputError
from tacit.evaluation.paper.methods import (
    BASELINE,
    BLP_MOG,
    BLP_SVD,
    CONSTANT,
    ISGD,
    LAPLACE_MOG,
    LAPLACE_SVD,
    PGMF,
    PGMF_CONTROLS,
    RANKS,
    TACIT,
    TACIT_ALL,
    TACIT_TAILORED,
    Method,
)
from tacit.evaluation.setting import DEVICE
from tacit.evaluation.source import DataSource
from tacit.learning import MfAlsOptions, MfSgdOptions, MogMfOptions, Options, SvdOptions
from tacit.privacy.scale import RatingScale

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tacit.evaluation.setting import Setting

MOVIELENS = DataSource("ml-100k")
# The paper gives MovieLens 100K this scale; its ratings are 1 to 5.
MOVIELENS_WIDE = DataSource("ml-100k", RatingScale.parse("0.5:5:0.5"))
JESTER = DataSource("jester-1-part-1")
LIBIMSETI = DataSource("libimseti-top2000")
LIBIMSETI_WORLD = DataSource("libimseti-world")

LABELS = {
    "ml-100k": "MovieLens 100K",
    "jester-1-part-1": "Jester 1, part 1",
    "libimseti-top2000": "Libimseti, 2,000 raters",
    "libimseti-world": "synthetic world, Libimseti's shape",
}

FOLDS = 10


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is computed for a data set: which epsilons, how many of the ten folds, which seeds and ranks."""

    epsilons: tuple[str, ...]
    folds: int
    seeds: tuple[int, ...]
    ranks: tuple[int, ...] = RANKS
    tuned: bool = True
    """Whether to vary more than the rank."""
    devices: bool = True
    """Whether to let every person's device rank with what channel-mf publishes: half a minute for a fold of Jester."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A full run or a fast look."""

    name: str
    movielens: Effort
    pg_mf: Effort
    jester: Effort
    libimseti: Effort
    world: Effort | None
    readings: tuple[str, ...]
    """Epsilons of the table of readings."""


FULL = Plan(
    "full",
    movielens=Effort(("0.1", "0.5", "1", "1.5", "2", "2.5", "3"), FOLDS, (0, 1)),
    pg_mf=Effort(("0.1", "0.4", "0.7", "1", "1.3", "1.6"), FOLDS, (0, 1)),
    jester=Effort(("0.1", "0.5", "1", "2", "3"), FOLDS, (0,), (1, 3, 5)),
    libimseti=Effort(("0.1", "0.5", "1", "1.5", "2", "2.5", "3"), FOLDS, (0, 1)),
    world=Effort(("0.1", "1", "3"), 1, (0,), (1,), tuned=False),
    readings=("0.1", "1", "3"),
)
FAST = Plan(
    "fast",
    movielens=Effort(("0.1", "1", "3"), 3, (0,), (1, 3)),
    pg_mf=Effort(("0.1", "1", "1.6"), 3, (0,), (1, 3)),
    jester=Effort(("0.1", "1", "3"), 3, (0,), (1, 3), tuned=False, devices=False),
    libimseti=Effort(("0.1", "1", "3"), 3, (0,), (1, 3)),
    world=None,
    readings=("0.1", "1", "3"),
)


@dataclass(frozen=True, slots=True)
class Job:
    """A setting on some data, and how many of its folds to run."""

    source: DataSource
    setting: Setting
    folds: int


@dataclass(frozen=True, slots=True)
class Experiment:
    """What a figure or table of the paper needs: methods on data."""

    name: str
    title: str
    parts: tuple[tuple[DataSource, tuple[Method, ...]], ...] = ()

    def jobs(self, plan: Plan) -> Iterator[Job]:
        """Return every setting to compute."""
        for source, methods in self.parts:
            effort = _effort(plan, source, self.name)
            if effort is None:
                continue
            for method in methods:
                yield from _jobs_of(source, method, effort)


NOISE = Experiment("noise", "Noise of Laplace and bounded Laplace")
MECHANISMS = Experiment(
    "mechanisms",
    "Bounded Laplace against Laplace",
    tuple((source, (BLP_MOG, LAPLACE_MOG, BLP_SVD, LAPLACE_SVD)) for source in (MOVIELENS, JESTER)),
)
MODELS = replace(MECHANISMS, name="models", title="Mixture of Gaussians against SVD")
_BESIDE = (BLP_MOG, *TACIT_ALL, TACIT_TAILORED, BASELINE, CONSTANT)
PG_MF = Experiment("pg-mf", "PG-MF against BLP-MoG-MF", ((MOVIELENS, (PGMF, *_BESIDE)),))
ISGD_STUDY = Experiment(
    "isgd",
    "ISGD against BLP-MoG-MF",
    (
        *((source, (ISGD, *_BESIDE)) for source in (MOVIELENS, JESTER, LIBIMSETI)),
        # At the provider alone: 135,359 devices, one after the other, would take hours.
        (LIBIMSETI_WORLD, (ISGD, BLP_MOG, TACIT, BASELINE, CONSTANT)),
    ),
)
READINGS = Experiment("readings", "What the paper leaves open")
COMMUNICATION = Experiment("communication", "Communication cost")
DATASETS = Experiment("datasets", "Data sets")

EXPERIMENTS = {
    one.name: one for one in (NOISE, MECHANISMS, MODELS, PG_MF, ISGD_STUDY, READINGS, COMMUNICATION, DATASETS)
}

# What else the paper's words allow, beside rank and regularisation: name, mechanism, options, data.
VARIANTS: dict[str, tuple[str, Options, DataSource]] = {
    "BLP-MoG-MF, rank 1, K = 4": ("bounded-laplace", MogMfOptions(rank=1), MOVIELENS),
    "the same, K = 1 (least squares)": ("bounded-laplace", MogMfOptions(rank=1, components=1), MOVIELENS),
    "the same, K = 2": ("bounded-laplace", MogMfOptions(rank=1, components=2), MOVIELENS),
    "the same, K = 8": ("bounded-laplace", MogMfOptions(rank=1, components=8), MOVIELENS),
    "the same, started from an SVD": ("bounded-laplace", MogMfOptions(rank=1, start="svd"), MOVIELENS),
    "the same, scale 0.5 to 5": ("bounded-laplace", MogMfOptions(rank=1), MOVIELENS_WIDE),
    "BLP-MoG-MF, rank 3, K = 4": ("bounded-laplace", MogMfOptions(rank=3), MOVIELENS),
    "the same, K = 1": ("bounded-laplace", MogMfOptions(rank=3, components=1), MOVIELENS),
    "BLP-MoG-MF, rank 10, K = 4": ("bounded-laplace", MogMfOptions(rank=10), MOVIELENS),
    "ISGD, rank 3, as published": ("clamped-laplace", MfSgdOptions(rank=3), MOVIELENS),
    "ISGD, scale 0.5 to 5": ("clamped-laplace", MfSgdOptions(rank=3), MOVIELENS_WIDE),
    "ISGD's reports, least squares, rank 1": (
        "clamped-laplace",
        MfAlsOptions(rank=1, regularisation=0.0),
        MOVIELENS,
    ),
    "ISGD's reports, mixture, rank 1": ("clamped-laplace", MogMfOptions(rank=1), MOVIELENS),
    "Laplace-MoG-MF, rank 1, K = 4": ("laplace", MogMfOptions(rank=1), MOVIELENS),
    "the same, K = 1 (no mixture)": ("laplace", MogMfOptions(rank=1, components=1), MOVIELENS),
    "the same, K = 4, stopped after 10 iterations": ("laplace", MogMfOptions(rank=1, iterations=10), MOVIELENS),
    "SVD of the filled matrix, rank 3": ("bounded-laplace", SvdOptions(rank=3), MOVIELENS),
    "SVD as in the Netflix prize, rank 3": ("bounded-laplace", MfSgdOptions(rank=3, offsets=True), MOVIELENS),
    "offsets and factors on BLP's reports": (
        "bounded-laplace",
        MfAlsOptions(rank=3, offsets=True, regularisation=40.0, offset_regularisation=20.0),
        MOVIELENS,
    ),
    "non-private MF, rank 2, as in the paper": ("none", MfAlsOptions(rank=2, regularisation=0.0), MOVIELENS),
    "non-private, with offsets, rank 20": ("none", MfAlsOptions(rank=20, regularisation=15.0, offsets=True), MOVIELENS),
}


def jobs_of(plan: Plan, names: tuple[str, ...]) -> list[Job]:
    """Return what the named experiments need, each setting once."""
    jobs: list[Job] = []
    for name in names:
        jobs += EXPERIMENTS[name].jobs(plan)
        if name == READINGS.name:
            jobs += _variants(plan)
        if name == PG_MF.name:
            jobs += _controls(plan)
    return list(dict.fromkeys(jobs))


def experiment_named(name: str) -> Experiment:
    """Return an experiment, or refuse a name that is none."""
    if name not in EXPERIMENTS:
        raise InvalidInputError(f"there is no figure {name[:40]!r}; choose one of {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]


def _effort(plan: Plan, source: DataSource, name: str) -> Effort | None:
    if name == PG_MF.name:
        return plan.pg_mf
    efforts = {MOVIELENS: plan.movielens, JESTER: plan.jester, LIBIMSETI: plan.libimseti, LIBIMSETI_WORLD: plan.world}
    return efforts[source]


def _jobs_of(source: DataSource, method: Method, effort: Effort) -> Iterator[Job]:
    if method.at == DEVICE and method != PGMF and not effort.devices:
        return
    options = method.all_options if effort.tuned else method.ranked
    if len(method.ranked) > 1:
        options = tuple(one for one in options if getattr(one, "rank", effort.ranks[0]) in effort.ranks)
    for seed in effort.seeds:
        settings = method.settings(options, effort.epsilons, seed=seed, folds=FOLDS)
        yield from (Job(source, setting, effort.folds) for setting in settings)


def _variants(plan: Plan) -> Iterator[Job]:
    for mechanism, options, source in VARIANTS.values():
        method = Method("", "", mechanism, options, (), ())
        for seed in plan.movielens.seeds:
            for setting in method.settings([options], plan.readings, seed=seed, folds=FOLDS):
                yield Job(source, setting, plan.movielens.folds)


def _controls(plan: Plan) -> Iterator[Job]:
    for options in PGMF_CONTROLS.values():
        for seed in plan.pg_mf.seeds:
            for setting in PGMF.settings([options], plan.pg_mf.epsilons, seed=seed, folds=FOLDS):
                yield Job(MOVIELENS, setting, plan.pg_mf.folds)
