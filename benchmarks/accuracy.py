"""How accurate `channel-mf` is at provider and device, with its controls and beside other private methods.

MovieLens 100K in full: ten folds, small epsilons over five seeds. Other data sets at some epsilons, the large ones on
three of their ten folds. Lists are compared in pairs with the best of the others, whichever that is. The data are
looked for in the folder `TACIT_DATA` names, or beside the project; what was computed before is found in the cache.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from peers.processes import RESULTS, progress
from tacit.errors import DataSetError
from tacit.evaluation.cache import cache_folder
from tacit.evaluation.metrics import default_threshold
from tacit.evaluation.paper.analysis import Point, difference
from tacit.evaluation.paper.records import Place
from tacit.evaluation.results import ResultStore
from tacit.evaluation.run import run_tasks
from tacit.evaluation.setting import DEVICE, PROVIDER, Setting
from tacit.evaluation.source import DataSource
from tacit.evaluation.task import Task
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
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tacit.evaluation.fold import FoldResult

    Rows = list[dict[str, object]]

FOLDS, JOBS = 10, 2
MECHANISMS = ("bounded-laplace", "tailored")
SMALL = ("0.1", "0.5")
ALL = (*SMALL, "1", "2", "3")
SEEDS = range(5)
ON, OFF, DEAF = ChannelMfOptions(), ChannelMfOptions(pattern=False), ChannelMfOptions(reports=False)
NAMES: dict[Options, str] = {ON: "channel-mf", OFF: "channel-mf, pattern off", DEAF: "channel-mf, no reports"}
# The paper's method and its baselines, at the settings that do best somewhere by error or by lists.
RIVALS: tuple[tuple[str, Options], ...] = (
    ("bounded-laplace", MogMfOptions(rank=1)),
    ("bounded-laplace", MogMfOptions(rank=1, regularisation=5.0)),
    ("bounded-laplace", SvdOptions(rank=1, fill="global")),
    ("clamped-laplace", MfSgdOptions(rank=1)),
    ("clamped-laplace", MfSgdOptions(rank=1, step=0.001)),
    ("clamped-laplace", MfAlsOptions(rank=1, regularisation=0.0)),
    ("clamped-laplace", MfAlsOptions(rank=3, regularisation=5.0)),
    ("laplace", MogMfOptions(rank=1, regularisation=5.0)),
    ("laplace", SvdOptions(rank=1, fill="global")),
)
MEASURES = ("rmse", "ndcg", "f_score_all")
LIST_MEASURES = MEASURES[1:]


def label(options: Options) -> str:
    """Name a model, with the options that are not its defaults."""
    usual = type(options)().to_document()
    changed = [f"{name} {value}" for name, value in options.to_document().items() if value != usual[name]]
    return NAMES.get(options) or ", ".join([options.model, *changed])


@dataclass(frozen=True, slots=True)
class Study:
    """Settings on one data set, and how many of their ten folds are run."""

    data: str
    folds: int
    epsilons: tuple[str, ...]
    seeds: range = range(1)

    def settings(self) -> Iterator[Setting]:
        """Return what is run."""
        for place in (PROVIDER, DEVICE):
            yield Setting("none", None, ON, at=place)
            yield Setting("bounded-laplace", "1", DEAF, at=place)
            for mechanism in MECHANISMS:
                for options in (ON, OFF):
                    yield from (Setting(mechanism, one, options, at=place) for one in self.epsilons)
                    for seed in list(self.seeds)[1:]:
                        yield from (Setting(mechanism, one, options, seed, at=place) for one in SMALL)
        for epsilon in self.epsilons:
            yield from self.rivals(epsilon)
        yield Setting("none", None, GlobalMeanOptions())

    def rivals(self, epsilon: str) -> Iterator[Setting]:
        """Return the other private methods, at both places."""
        for place in (PROVIDER, DEVICE):
            yield from (Setting(mechanism, epsilon, options, at=place) for mechanism, options in RIVALS)


STUDIES = (
    Study("ml-100k", FOLDS, ALL, SEEDS),
    Study("ml-latest-small", FOLDS, ("0.1", "1", "3")),
    Study("libimseti-top2000", FOLDS, ("0.1", "1", "3")),
    Study("ml-1m", 3, ("0.1", "1", "3")),
    Study("jester-1-part-1", 3, ("0.1", "1", "3")),
)


@dataclass(frozen=True, eq=False, slots=True)
class Measured:
    """A study's figures, fold by fold."""

    study: Study
    folds: dict[Setting, list[FoldResult]]

    def values(self, setting: Setting, measure: str) -> NDArray[np.float64]:
        """Return a measure in every fold."""
        return np.array([getattr(result.metrics, measure) for result in self.folds[setting]])

    def point(self, setting: Setting) -> Point:
        """Return all measures in every fold, as the paper's comparisons want them."""
        found = enumerate(self.folds[setting])
        return Point(setting.epsilon, {Place(0, fold): one.to_document() for fold, one in found})

    def rows(self) -> Rows:
        """Return a row for every setting."""
        return [self._row(setting) for setting in self.folds]

    def _row(self, setting: Setting) -> dict[str, object]:
        row: dict[str, object] = {"data": self.study.data, "model": label(setting.options)}
        row |= {"mechanism": setting.mechanism, "epsilon": setting.epsilon, "at": setting.at, "seed": setting.seed}
        for measure in MEASURES:
            values = self.values(setting, measure)
            row |= {measure: round(float(values.mean()), 4), f"{measure}_sd": round(float(values.std(ddof=1)), 4)}
        return row | {"folds": self.study.folds}

    def lists(self) -> Rows:
        """Compare devices' lists with the best of all others, in pairs over folds."""
        wanted = itertools.product(self.study.epsilons, MECHANISMS, LIST_MEASURES)
        return [self._beside(epsilon, mechanism, measure) for epsilon, mechanism, measure in wanted]

    def _beside(self, epsilon: str, mechanism: str, measure: str) -> dict[str, object]:
        best = max(self.study.rivals(epsilon), key=lambda one: self.values(one, measure).mean())
        ours = Setting(mechanism, epsilon, ON, at=DEVICE)
        apart = difference(self.point(ours), self.point(best), measure)
        return {
            "data": self.study.data,
            "measure": measure,
            "epsilon": epsilon,
            "mechanism": mechanism,
            "ours": round(float(self.values(ours, measure).mean()), 4),
            "best_other": round(float(self.values(best, measure).mean()), 4),
            "other": f"{best.mechanism} {label(best.options)}, {best.at}",
            "standard_errors_apart": round(apart.mean / apart.standard_error, 1),
        }


def run(study: Study) -> Measured:
    """Compute a study."""
    source = DataSource(study.data)
    data = source.load()
    threshold = default_threshold(data.scale)
    tasks = {
        setting: [Task(source, data.sha256, str(data.scale), setting, fold, threshold) for fold in range(study.folds)]
        for setting in study.settings()
    }
    every = [task for folds in tasks.values() for task in folds]
    done = run_tasks(every, ResultStore(cache_folder() / "folds"), jobs=JOBS)
    return Measured(study, {setting: [done[task] for task in folds] for setting, folds in tasks.items()})


def print_rows(rows: Rows) -> None:
    """Print one line for every setting; those of several seeds also as a mean."""
    groups: dict[tuple[object, ...], list[dict[str, object]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in ("data", "mechanism", "epsilon", "model", "at")), []).append(row)
    for key, seeds in groups.items():
        first = seeds[0]
        means = f"   {np.mean([row['rmse'] for row in seeds]):.4f} over {len(seeds)} seeds" if len(seeds) > 1 else ""
        print(
            f"{key[0]!s:18}{key[1]!s:17}{key[2]!s:>5} {key[3]!s:44}{key[4]!s:9}{first['rmse']:.4f}"
            f" +- {first['rmse_sd']:.4f}  nDCG {first['ndcg']:.4f}  F all {first['f_score_all']:.4f}{means}"
        )


def print_lists(lists: Rows) -> None:
    """Print one line for every comparison."""
    for row in lists:
        print(
            f"{row['data']!s:18}{row['measure']!s:12}{row['epsilon']!s:>5} {row['mechanism']!s:16}{row['ours']:.4f}"
            f"  best other {row['best_other']:.4f} ({row['other']}), {row['standard_errors_apart']} errors apart"
        )


def main() -> int:
    """Compute, print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", default=",".join(study.data for study in STUDIES), help="which data sets")
    chosen = parser.parse_args().data.split(",")
    os.environ.setdefault("TACIT_DATA", str(Path(__file__).parents[2] / "shared" / "data"))
    record: dict[str, Rows] = {"rows": [], "lists": []}
    for study in STUDIES:
        if study.data not in chosen:
            continue
        progress(study.data)
        try:
            found = run(study)
        except DataSetError as error:
            progress(f"left out: {error}")
            continue
        rows, lists = found.rows(), found.lists()
        print_rows(rows)
        print_lists(lists)
        record["rows"] += rows
        record["lists"] += lists
    if {row["data"] for row in record["rows"]} == {study.data for study in STUDIES}:
        parts = [f'"{name}": [\n' + ",\n".join(map(json.dumps, found)) + "\n]" for name, found in record.items()]
        (RESULTS / "accuracy.json").write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
