"""The methods the paper compares, and the ways to read what it leaves open about each.

The paper names no rank, no K and no regularisation, and says SVD without saying which. A reading is a choice of these;
where it leaves several, the one to use in a fold is chosen by the error in all other folds, for every method alike.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tacit.evaluation.pg_mf import PgMfOptions
from tacit.evaluation.setting import DEVICE, PG_MF, PROVIDER, Setting
from tacit.learning import (
    ChannelMfOptions,
    GlobalMeanOptions,
    MfAlsOptions,
    MfSgdOptions,
    MogMfOptions,
    Options,
    SvdOptions,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PUBLISHED, RANKED, TUNED = "published", "best rank", "tuned"

RANKS = (1, 2, 3, 5)


@dataclass(frozen=True, slots=True)
class Method:
    """A mechanism and a model, with the options that belong to every reading.

    `published` is the setting the publication gives, or the nearest to it; `ranked` varies the rank alone; `tuned`
    varies what else there is, in about as many settings for every method.
    """

    key: str
    label: str
    mechanism: str
    published: Options
    ranked: tuple[Options, ...]
    tuned: tuple[Options, ...]
    at: str = PROVIDER

    def options(self, reading: str) -> tuple[Options, ...]:
        """Return the options a reading may choose from."""
        return {PUBLISHED: (self.published,), RANKED: self.ranked, TUNED: (*self.ranked, *self.tuned)}[reading]

    @property
    def all_options(self) -> tuple[Options, ...]:
        """Return every setting of every reading once."""
        return tuple(dict.fromkeys((self.published, *self.ranked, *self.tuned)))

    def settings(
        self, options: Iterable[Options], epsilons: Iterable[str], *, seed: int, folds: int
    ) -> Iterator[Setting]:
        """Combine options and epsilons; a method without noise has none."""
        chosen: list[str | None] = [None] if self.mechanism == "none" else list(epsilons)
        for one in options:
            yield from (Setting(self.mechanism, epsilon, one, seed, folds, self.at) for epsilon in chosen)


def _ranks(options: Options) -> tuple[Options, ...]:
    return tuple(replace(options, rank=rank) for rank in RANKS)  # type: ignore[call-arg] # those here have a rank


def _each(options: Options, **change: object) -> tuple[Options, ...]:
    return tuple(replace(one, **change) for one in _ranks(options))


_MOG = MogMfOptions(rank=3)
_SVD = SvdOptions(rank=3)
_SGD = MfSgdOptions(rank=3)
_MF = MfAlsOptions(rank=3, regularisation=0.0)
_PG = PgMfOptions(rank=3)

_MOG_READINGS = (_MOG, _ranks(_MOG), (*_each(_MOG, regularisation=0.1), *_each(_MOG, regularisation=5.0)))
_SVD_READINGS = (_SVD, _ranks(_SVD), _each(_SVD, fill="global"))

BLP_MOG = Method("blp-mog", "BLP-MoG-MF", "bounded-laplace", *_MOG_READINGS)
LAPLACE_MOG = Method("laplace-mog", "Laplace-MoG-MF", "laplace", *_MOG_READINGS)
BLP_SVD = Method("blp-svd", "BLP-SVD", "bounded-laplace", *_SVD_READINGS)
LAPLACE_SVD = Method("laplace-svd", "Laplace-SVD", "laplace", *_SVD_READINGS)
# Its steps may be shorter, which wide scales need, its regularisation absent, or least squares take its place.
_ISGD_TUNED = (
    *_each(_SGD, regularisation=0.0),
    *(replace(_SGD, rank=rank, step=step) for rank in (1, 3) for step in (0.003, 0.001)),
    *_ranks(_MF),
)
ISGD = Method("isgd", "ISGD", "clamped-laplace", _SGD, _ranks(_SGD), _ISGD_TUNED)
PGMF = Method(
    "pg-mf",
    "PG-MF",
    PG_MF,
    _PG,
    _ranks(_PG),
    (replace(_PG, rounds=1), replace(_PG, rounds=1, rank=1), replace(_PG, step_size=0.1), replace(_PG, step_size=10.0)),
    DEVICE,
)
BASELINE = Method("baseline", "non-private MF", "none", _MF, _ranks(_MF), _each(_MF, regularisation=5.0))
CONSTANT = Method("constant", "true mean", "none", GlobalMeanOptions(), (GlobalMeanOptions(),), ())

# Ours on the paper's own reports: one setting everywhere, so there is one reading.
_CHANNEL = ChannelMfOptions()
TACIT = Method("tacit", "tacit, provider", "bounded-laplace", _CHANNEL, (_CHANNEL,), ())
TACIT_DEVICE = replace(TACIT, key="tacit-device", label="tacit, device", at=DEVICE)
# Where a device's accuracy comes from: without the visible pattern, and without anybody's report.
_BLIND, _DEAF = ChannelMfOptions(pattern=False), ChannelMfOptions(reports=False)
TACIT_WITHOUT_PATTERN = Method(
    "tacit-no-pattern", "device, pattern off", "bounded-laplace", _BLIND, (_BLIND,), (), DEVICE
)
TACIT_WITHOUT_REPORTS = Method("tacit-no-reports", "device, no reports", "none", _DEAF, (_DEAF,), (), DEVICE)
TACIT_ALL = (TACIT, TACIT_DEVICE, TACIT_WITHOUT_PATTERN, TACIT_WITHOUT_REPORTS)
# The same device where people report through the best channel instead of the paper's; in tables, not in its figures.
TACIT_TAILORED = replace(TACIT_DEVICE, key="tacit-tailored", label="tacit, device, tailored", mechanism="tailored")

# Controls of PG-MF, not readings of it: a start that knows nothing, and steps that ignore how noisy they are.
PGMF_CONTROLS: dict[str, Options] = {
    "random start": replace(_PG, start_level=0.0),
    "no stabilising factor": replace(_PG, stabilisation=0.0),
    "neither": replace(_PG, start_level=0.0, stabilisation=0.0),
}

PGMF_WEAKEST = replace(PGMF, published=PGMF_CONTROLS["neither"])
