"""Computing what the paper's figures and tables need, and keeping it in one folder; nothing is drawn here."""

from __future__ import annotations

import csv
import json
from contextlib import suppress
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
from tacit.privacy.canonical import read_json

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
        check_folder(folder, self.about["figures"])
        if self.folds.rows:
            self.folds.save(folder / _FOLDS)
            save_csv(folder / _ROWS, self.folds.summary())
        for name, rows in ((_NOISE, self.noise), (_TRAFFIC, self.traffic), (_DATA, self.data)):
            if rows:
                save_csv(folder / name, rows)
        write_bytes(folder / _ABOUT, (json.dumps(self.about, indent=2) + "\n").encode())

    @classmethod
    def load(cls, folder: Path) -> Reproduction:
        """Read what `save` wrote; anything else is refused."""
        about = _read_about(folder)
        figures = set(about["figures"])
        learned = figures - {NOISE.name, COMMUNICATION.name, DATASETS.name}
        folds = FoldTable.load(folder / _FOLDS) if learned else FoldTable([])
        tables = ((NOISE, _NOISE, "derived"), (COMMUNICATION, _TRAFFIC, "paper_down"), (DATASETS, _DATA, "paper_scale"))
        return cls(
            about, folds, *(_read_csv(folder / file, last) if one.name in figures else [] for one, file, last in tables)
        )


def check_folder(folder: Path, figures: Sequence[str]) -> None:
    """Make a folder for results; refuse one that cannot be written to, or has results this run would not replace."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_bytes(folder / ".probe", b"")
        (folder / ".probe").unlink()
    except OSError as error:
        raise FileError(f"cannot write to the folder {folder}: {reason_of(error)}; choose another with -o") from error
    if (folder / _ABOUT).exists() and not set(_read_about(folder)["figures"]) <= set(figures):
        raise FileError(f"{folder} has results of more figures than {', '.join(figures)}; choose another with -o")


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
    made = {NOISE.name: tables[_NOISE], COMMUNICATION.name: tables[_TRAFFIC], DATASETS.name: tables[_DATA]}
    figures = [name for name in names if made.get(name, table.rows)]
    about: dict[str, Any] = {"plan": plan.name, "figures": figures, "versions": versions(), "left_out": left_out}
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


def _read_about(folder: Path) -> dict[str, Any]:
    path = folder / _ABOUT
    content = read_bytes(path, limit=_LARGEST)
    try:
        about = read_json(content)
        good = isinstance(about["plan"], str) and isinstance(about["versions"], dict)
        good = good and all(isinstance(line, str) for line in [*about["left_out"], *about["figures"]])
    except (ValueError, TypeError, KeyError):
        good = False
    if not good:
        raise FileError(f"{path} is not what tacit reproduce writes; run it again without --draw")
    return dict(about)


def _read_csv(path: Path, needed: str) -> list[dict[str, Any]]:
    """Read rows, and what looks like a number as one."""
    try:
        text = read_bytes(path, limit=_LARGEST).decode()
    except UnicodeDecodeError:
        text = ""
    rows = [{name: _value(cell) for name, cell in row.items()} for row in csv.DictReader(text.splitlines())]
    if not rows or needed not in rows[0]:
        raise FileError(f"{path} is not what tacit reproduce writes; run it again without --draw")
    return rows


def _value(text: Any) -> Any:  # noqa: ANN401 - text, number or truth
    for kind in (_truth, int, float):
        with suppress(ValueError, TypeError):
            return kind(text)
    return text


def _truth(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"
