"""How accurate `channel-mf` is at provider and device, with its controls and beside other private methods.

MovieLens 100K in full: ten folds, small epsilons over five seeds. Other data sets at some epsilons, the large ones on
three of their ten folds. The data are looked for in the folder `TACIT_DATA` names, or beside the project; what was
computed before is found in the cache.
"""

from __future__ import annotations

import argparse
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
from tacit.evaluation.results import ResultStore
from tacit.evaluation.run import run_tasks
from tacit.evaluation.setting import DEVICE, PROVIDER, Setting
from tacit.evaluation.source import DataSource
from tacit.evaluation.task import Task
from tacit.learning import ChannelMfOptions, GlobalMeanOptions, MfAlsOptions, MfSgdOptions, MogMfOptions, Options

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDS, JOBS = 10, 2
MECHANISMS = ("bounded-laplace", "tailored")
SMALL = ("0.1", "0.5")
ALL = (*SMALL, "1", "2", "3")
SEEDS = range(5)
ON, OFF, DEAF = ChannelMfOptions(), ChannelMfOptions(pattern=False), ChannelMfOptions(reports=False)
NAMES: dict[Options, str] = {ON: "channel-mf", OFF: "channel-mf, pattern off", DEAF: "channel-mf, no reports"}
# The paper's method and its baselines, where their own errors are lowest over all epsilons.
RIVALS: tuple[tuple[str, Options], ...] = (
    ("bounded-laplace", MogMfOptions(rank=1)),
    ("clamped-laplace", MfSgdOptions(rank=1)),
    ("clamped-laplace", MfAlsOptions(rank=3, regularisation=5.0)),
)
MEASURES = ("rmse", "ndcg", "f_score_all")


@dataclass(frozen=True, slots=True)
class Study:
    """Settings on one data set, and how many of their ten folds are run."""

    data: str
    folds: int
    epsilons: tuple[str, ...]
    seeds: range = range(1)
    whole: bool = False

    def settings(self) -> Iterator[Setting]:
        """Return what is run; rivals on one data set only."""
        for place in (PROVIDER, DEVICE):
            yield Setting("none", None, ON, at=place)
            yield Setting("bounded-laplace", "1", DEAF, at=place)
            for mechanism in MECHANISMS:
                for options in (ON, OFF):
                    yield from (Setting(mechanism, one, options, at=place) for one in self.epsilons)
                    for seed in list(self.seeds)[1:]:
                        yield from (Setting(mechanism, one, options, seed, at=place) for one in SMALL)
            if self.whole:
                yield from (Setting(*one, options, at=place) for one, options in self._rivals())
        yield Setting("none", None, GlobalMeanOptions())

    def _rivals(self) -> Iterator[tuple[tuple[str, str], Options]]:
        for mechanism, options in RIVALS:
            yield from (((mechanism, epsilon), options) for epsilon in self.epsilons)


STUDIES = (
    Study("ml-100k", FOLDS, ALL, SEEDS, whole=True),
    Study("ml-latest-small", FOLDS, ("0.1", "1", "3")),
    Study("libimseti-top2000", FOLDS, ("0.1", "1", "3")),
    Study("ml-1m", 3, ("0.1", "1", "3")),
    Study("jester-1-part-1", 3, ("0.1", "1", "3")),
)


def run(study: Study) -> list[dict[str, object]]:
    """Compute a study; return one row for every setting."""
    source = DataSource(study.data)
    data = source.load()
    threshold = default_threshold(data.scale)
    settings = list(study.settings())
    tasks = {
        setting: [Task(source, data.sha256, str(data.scale), setting, fold, threshold) for fold in range(study.folds)]
        for setting in settings
    }
    every = [task for folds in tasks.values() for task in folds]
    done = run_tasks(every, ResultStore(cache_folder() / "folds"), jobs=JOBS)
    rows = []
    for setting, folds in tasks.items():
        row: dict[str, object] = {"data": study.data, "model": NAMES.get(setting.options, setting.model)}
        row |= {"mechanism": setting.mechanism, "epsilon": setting.epsilon, "at": setting.at, "seed": setting.seed}
        for measure in MEASURES:
            values = [getattr(done[task].metrics, measure) for task in folds]
            row |= {measure: round(float(np.mean(values)), 4), f"{measure}_sd": round(float(np.std(values, ddof=1)), 4)}
        rows.append(row | {"folds": len(folds)})
    return rows


def print_rows(rows: list[dict[str, object]]) -> None:
    """Print one line for every setting; those of several seeds also as a mean."""
    groups: dict[tuple[object, ...], list[dict[str, object]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in ("data", "mechanism", "epsilon", "model", "at")), []).append(row)
    for key, seeds in groups.items():
        first = seeds[0]
        means = f"   {np.mean([row['rmse'] for row in seeds]):.4f} over {len(seeds)} seeds" if len(seeds) > 1 else ""
        print(
            f"{key[0]!s:18}{key[1]!s:17}{key[2]!s:>5} {key[3]!s:26}{key[4]!s:9}{first['rmse']:.4f}"
            f" +- {first['rmse_sd']:.4f}  nDCG {first['ndcg']:.4f}  F all {first['f_score_all']:.4f}{means}"
        )


def main() -> int:
    """Compute, print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", default=",".join(study.data for study in STUDIES), help="which data sets")
    chosen = parser.parse_args().data.split(",")
    os.environ.setdefault("TACIT_DATA", str(Path(__file__).parents[2] / "shared" / "data"))
    rows: list[dict[str, object]] = []
    for study in STUDIES:
        if study.data not in chosen:
            continue
        progress(study.data)
        try:
            found = run(study)
        except DataSetError as error:
            progress(f"left out: {error}")
            continue
        print_rows(found)
        rows += found
    if {row["data"] for row in rows} == {study.data for study in STUDIES}:
        (RESULTS / "accuracy.json").write_text(
            "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n", encoding="utf-8"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
