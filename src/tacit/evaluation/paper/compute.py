"""Computing what the paper's figures and tables need, and keeping it in one folder; nothing is drawn here."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tacit.errors import DataSetError, FileError
from tacit.evaluation.metrics import default_threshold
from tacit.evaluation.paper.experiments import (
    COMMUNICATION,
    DATASETS,
    JESTER,
    LIBIMSETI,
    LIBIMSETI_WORLD,
    MOVIELENS,
    NOISE,
    Job,
    Plan,
    jobs_of,
)
from tacit.evaluation.paper.records import FoldTable, record, save_csv
from tacit.evaluation.paper.side_tables import communication_rows, data_row, noise_rows
from tacit.evaluation.run import run_tasks
from tacit.evaluation.task import Task, versions
from tacit.files import read_bytes, reason_of, write_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tacit.evaluation.ratings import RatingData
    from tacit.evaluation.results import ResultStore
    from tacit.evaluation.run import Progress
    from tacit.evaluation.source import DataSource

_FOLDS, _ROWS, _NOISE, _TRAFFIC, _DATA, _ABOUT = (
    "folds.csv.gz",
    "rows.csv",
    "noise.csv",
    "communication.csv",
    "datasets.csv",
    "about.json",
)
_LARGEST = 1 << 24
_A_FIT = 20_000  # so many ratings take as long as the smallest fit


@dataclass(frozen=True, slots=True)
class Reproduction:
    """Everything that was computed, ready to be judged and drawn."""

    about: dict[str, Any]
    folds: FoldTable
    noise: list[dict[str, Any]]
    traffic: list[dict[str, Any]]
    data: list[dict[str, Any]]

    def save(self, folder: Path) -> None:
        """Write the results: every fold, one row for every setting, and the tables beside them."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(f"cannot make the folder {folder}: {reason_of(error)}; choose another with -o") from error
        if self.folds.rows:
            self.folds.save(folder / _FOLDS)
            save_csv(folder / _ROWS, self.folds.summary())
        for name, rows in ((_NOISE, self.noise), (_TRAFFIC, self.traffic), (_DATA, self.data)):
            if rows:
                save_csv(folder / name, rows)
        write_bytes(folder / _ABOUT, (json.dumps(self.about, indent=2) + "\n").encode())

    @classmethod
    def load(cls, folder: Path) -> Reproduction:
        """Read what `save` wrote."""
        about = json.loads(read_bytes(folder / _ABOUT, limit=_LARGEST))
        folds = FoldTable.load(folder / _FOLDS) if (folder / _FOLDS).exists() else FoldTable([])
        return cls(about, folds, _read_csv(folder / _NOISE), _read_csv(folder / _TRAFFIC), _read_csv(folder / _DATA))


def compute(  # noqa: PLR0913 - what, where it is kept, and how it is run
    plan: Plan,
    names: Sequence[str],
    store: ResultStore,
    *,
    jobs: int,
    say: Callable[[str], None],
    watch: Callable[[Progress], None] | None = None,
) -> Reproduction:
    """Compute what the named experiments need under a plan."""
    wanted = jobs_of(plan, tuple(names))
    known: dict[DataSource, dict[str, Any]] = {}
    tables: dict[str, list[dict[str, Any]]] = {_NOISE: [], _TRAFFIC: [], _DATA: []}
    left_out = []
    for source in _sources(plan, names, wanted):
        say(f"reading {source.place}")
        try:
            data = source.load()
        except DataSetError as error:
            left_out.append(f"{source.place} is left out: {error}")
            say(left_out[-1])
            continue
        known[source] = _about(data)
        if source == MOVIELENS:
            tables[_NOISE] = noise_rows(data) if NOISE.name in names else []
            tables[_TRAFFIC] = communication_rows(data) if COMMUNICATION.name in names else []
        if DATASETS.name in names and source.scale is None:
            tables[_DATA].append(data_row(data, source.place))
        del data  # before the next: worlds are large
    if not known:
        raise DataSetError(f"none of the data sets needed is here; {left_out[-1]}")
    table = _results([job for job in wanted if job.source in known], known, store, jobs, watch)
    about: dict[str, Any] = {"plan": plan.name, "figures": list(names), "versions": versions(), "left_out": left_out}
    about["fit_seconds"] = round(sum(row["fit_seconds"] for row in table.rows))
    return Reproduction(about, table, tables[_NOISE], tables[_TRAFFIC], tables[_DATA])


def _sources(plan: Plan, names: Sequence[str], wanted: Sequence[Job]) -> list[DataSource]:
    """Return the data that the experiments need."""
    sources = [job.source for job in wanted]
    if NOISE.name in names or COMMUNICATION.name in names:
        sources.append(MOVIELENS)
    if DATASETS.name in names:
        sources += [MOVIELENS, JESTER, LIBIMSETI, *([] if plan.world is None else [LIBIMSETI_WORLD])]
    return list(dict.fromkeys(sources))


def _about(data: RatingData) -> dict[str, Any]:
    return {
        "data": data.name,
        "scale": str(data.scale),
        "data_sha256": data.sha256,
        "threshold": default_threshold(data.scale),
        "ratings": len(data),
    }


def _results(
    wanted: Sequence[Job],
    known: dict[DataSource, dict[str, Any]],
    store: ResultStore,
    jobs: int,
    watch: Callable[[Progress], None] | None,
) -> FoldTable:
    """Run every fold that is missing; the largest data first, so that no process ends up alone with them."""
    order = sorted(wanted, key=lambda job: (job.source != LIBIMSETI_WORLD, job.source != JESTER))
    tasks: dict[Task, dict[str, Any]] = {}
    for job in order:
        about = known[job.source]
        for fold in range(job.folds):
            task = Task(job.source, about["data_sha256"], about["scale"], job.setting, fold, about["threshold"])
            tasks[task] = about
    done = run_tasks(list(tasks), store, jobs=jobs, watch=watch, weigh=lambda task: _A_FIT + tasks[task]["ratings"])
    return FoldTable([record(task.setting, task.fold, done[task], about) for task, about in tasks.items()])


def _read_csv(path: Path) -> list[dict[str, Any]]:
    """Read rows, and what looks like a number as one."""
    if not path.exists():
        return []
    rows = csv.DictReader(read_bytes(path, limit=_LARGEST).decode().splitlines())
    return [{name: _value(text) for name, text in row.items()} for row in rows]


def _value(text: str) -> Any:  # noqa: ANN401 - text, number or truth
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text
