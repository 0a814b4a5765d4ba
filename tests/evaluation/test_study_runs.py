"""A study is the same on any number of cores, goes on where it was ended, and never trusts a file it did not write."""

from __future__ import annotations

import errno
import json
import math
import multiprocessing
import os
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pytest

from tacit.errors import FileError, InvalidInputError, WorkerError
from tacit.evaluation import run as run_module
from tacit.evaluation import source as source_module
from tacit.evaluation.cache import cache_folder
from tacit.evaluation.fold import FoldResult
from tacit.evaluation.metrics import Metrics
from tacit.evaluation.pg_mf import PgMfOptions
from tacit.evaluation.results import ResultStore
from tacit.evaluation.rows import MEASURES, Row, evaluate
from tacit.evaluation.run import Progress, run_tasks
from tacit.evaluation.setting import Setting, grid
from tacit.evaluation.source import DataSource
from tacit.evaluation.task import Task, code_digest
from tacit.learning import GlobalMeanOptions, MfAlsOptions, MfSgdOptions, MogMfOptions, OffsetsOptions, SvdOptions
from tacit.privacy.scale import RatingScale

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

STARS = RatingScale.parse("1:5:1")
QUICK = Setting("bounded-laplace", "1", OffsetsOptions(), folds=3)
# Long enough for a worker to be ended at it.
SLOW = Setting("none", None, MogMfOptions(tolerance=0.0, iterations=1000), folds=8)
EVERY_MODEL = (
    MogMfOptions(rank=2, iterations=10),
    MfAlsOptions(rank=2),
    MfSgdOptions(rank=2, epochs=3),
    SvdOptions(rank=2),
    GlobalMeanOptions(),
    PgMfOptions(),
)


@dataclass(frozen=True)
class Study:
    source: DataSource
    store: ResultStore

    @property
    def path(self) -> Path:
        return Path(self.source.place)

    def tasks(self, *settings: Setting) -> list[Task]:
        digest = self.source.load().sha256
        return [
            Task(self.source, digest, "1:5:1", setting, fold, 3.4)
            for setting in settings
            for fold in range(setting.folds)
        ]

    def run(self, tasks: Sequence[Task], watch: Callable[[Progress], None] | None = None) -> dict[Task, FoldResult]:
        return run_tasks(tasks, self.store, jobs=1, watch=watch)

    def kept(self) -> list[Path]:
        return sorted(self.store.folder.rglob("*.json"))


@pytest.fixture
def study(tmp_path: Path) -> Study:
    rng = np.random.default_rng(4)
    lines = [
        f"{user},film {item},{rng.integers(1, 6)}"
        for user in range(30)
        for item in rng.choice(15, size=6, replace=False).tolist()
    ]
    path = tmp_path / "ratings.csv"
    path.write_text("\n".join(["user,item,rating", *lines, ""]), encoding="utf-8")
    return Study(DataSource(str(path), STARS), ResultStore(tmp_path / "folds"))


def figures(results: dict[Task, FoldResult]) -> dict[Task, dict[str, Any]]:
    return {task: result.to_document() | {"fit_seconds": 0} for task, result in results.items()}


def no_workers(_jobs: int) -> NoReturn:
    pytest.fail("a process was started")


# Several cores.


def test_the_number_of_processes_changes_nothing(study: Study, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = list(grid(["bounded-laplace", "none"], ["1"], EVERY_MODEL, folds=2))
    tasks = study.tasks(*settings)
    before = {name: os.environ.get(name) for name in run_module._ONE_THREAD}
    others = set(multiprocessing.active_children())
    seen: list[Progress] = []
    one = run_tasks(tasks, study.store, jobs=1, watch=seen.append)
    two = run_tasks(tasks, ResultStore(tmp_path / "others"), jobs=2)
    assert figures(one) == figures(two)
    assert set(one) == set(tasks)
    assert [(progress.done, progress.total) for progress in seen] == [(done, 22) for done in range(1, 23)]
    assert seen[-1].seconds_left == 0
    assert {name: os.environ.get(name) for name in before} == before
    assert set(multiprocessing.active_children()) == others

    monkeypatch.setattr(run_module, "_pool", no_workers)
    again = run_tasks(tasks, study.store, jobs=2, watch=lambda _: pytest.fail("something was computed"))
    assert again == one
    monkeypatch.undo()
    data = study.source.load()
    here = run_module.run_fold(data, tasks[0].setting, tasks[0].fold, threshold=3.4, threads=2)
    assert here.metrics == one[tasks[0]].metrics


@pytest.mark.parametrize("jobs", [0, -1, 257])
def test_a_number_of_processes_that_makes_no_sense_is_refused(study: Study, jobs: int) -> None:
    with pytest.raises(InvalidInputError, match=f"{jobs} jobs are not 1 to 256; choose as many as there are cores"):
        run_tasks(study.tasks(QUICK), study.store, jobs=jobs)


@pytest.mark.usefixtures("without_workers")
def test_time_left_is_what_the_rest_takes_at_the_pace_so_far(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Progress] = []

    def run(tasks: list[Task]) -> list[float]:
        """Every task takes 10 s for each weight of 1."""
        monkeypatch.setattr(run_module, "time", SimpleNamespace(perf_counter=iter([0.0, 10.0, 30.0, 60.0]).__next__))
        seen.clear()
        run_tasks(tasks, study.store, jobs=1, watch=seen.append, weigh=lambda task: 1.0 + task.fold)
        return [progress.seconds_left for progress in seen]

    tasks = study.tasks(QUICK)
    assert run(tasks) == [50, 30, 0]
    others = study.tasks(replace(QUICK, seed=1))
    assert run([*tasks, *others]) == [50, 30, 0]  # what was found from before takes none
    assert [(progress.done, progress.total) for progress in seen] == [(4, 6), (5, 6), (6, 6)]


# Ends that come early.


def interrupt(_: Progress) -> NoReturn:
    raise KeyboardInterrupt


@pytest.mark.usefixtures("without_workers")
def test_an_interrupted_study_goes_on(study: Study) -> None:
    tasks = study.tasks(QUICK, replace(QUICK, seed=1))
    with pytest.raises(KeyboardInterrupt):
        study.run(tasks, interrupt)
    assert len(study.kept()) == 1
    seen: list[Progress] = []
    done = study.run(tasks, seen.append)
    assert [(progress.done, progress.total) for progress in seen] == [(done, 6) for done in range(2, 7)]
    assert len(study.kept()) == len(done) == 6


def test_an_interrupt_ends_the_workers_at_once(study: Study) -> None:
    others = set(multiprocessing.active_children())
    endless = replace(SLOW, options=MogMfOptions(tolerance=0.0, iterations=10_000, rank=50))
    with pytest.raises(KeyboardInterrupt):
        run_tasks([*study.tasks(QUICK), *study.tasks(endless)], study.store, jobs=2, watch=interrupt)
    assert set(multiprocessing.active_children()) == others
    assert len(study.kept()) == 1
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_a_worker_that_still_loads_is_not_interrupted() -> None:
    """Python would write where it was; the wish reaches the process that hands out the work all the same."""
    inherited = []

    def start_while_interrupted() -> None:
        with run_module._interrupts_held():
            signal.raise_signal(signal.SIGINT)
            code = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))"
            inherited.append(subprocess.check_output([sys.executable, "-c", code], text=True).strip())

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            start_while_interrupted()
    finally:
        signal.signal(signal.SIGINT, before)
    assert inherited == ["True"]


def test_a_killed_worker_is_one_line_and_what_was_done_stays(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    others = set(multiprocessing.active_children())

    def kill(progress: Progress) -> None:
        for child in set(multiprocessing.active_children()) - others if progress.done == 1 else ():
            child.kill()

    tasks = study.tasks(SLOW)
    with pytest.raises(WorkerError) as ended:
        study.run(tasks, kill)
    assert "\n" not in str(ended.value)
    assert "what was computed is kept: run the same again, with fewer --jobs" in str(ended.value)
    kept = [study.store.find(task) for task in tasks]
    assert 1 <= sum(result is not None for result in kept) < len(tasks)
    done = [task for task, result in zip(tasks, kept, strict=True) if result is not None]
    monkeypatch.setattr(run_module, "_pool", no_workers)
    assert len(study.run(done)) == len(done)


def test_a_file_that_changes_meanwhile_is_refused(study: Study) -> None:
    tasks = study.tasks(QUICK)
    with study.path.open("a", encoding="utf-8") as file:
        file.write("31,film 1,5\n")
    with pytest.raises(InvalidInputError, match=r"ratings.csv changed while the study was running; run it again"):
        study.run(tasks)
    assert study.kept() == []


# Kept results.


def damage(change: Callable[[dict[str, Any]], object]) -> Callable[[str], str]:
    def damaged(text: str) -> str:
        document = json.loads(text)
        change(document)
        return json.dumps(document)

    return damaged


DAMAGES: dict[str, Callable[[str], str]] = {
    "empty": lambda _: "",
    "cut off": lambda text: text[:-20],
    "no JSON": lambda _: "\0\0\0",
    "a list": lambda _: "[]",
    "a number": lambda _: "7",
    "deep": lambda _: "[" * 60_000,
    "too large": lambda text: text + " " * (1 << 16),
    "no task": damage(lambda document: document.pop("task")),
    "no result": damage(lambda document: document.pop("result")),
    "a result that is none": damage(lambda document: document.update(result=[1, 2])),
    "another task": damage(lambda document: document["task"].update(epsilon="2")),
    "another code": damage(lambda document: document["task"].update(code="0")),
    "a figure less": damage(lambda document: document["result"].pop("ndcg")),
    "a figure more": damage(lambda document: document["result"].update(auc=0.5)),
    "text for a figure": damage(lambda document: document["result"].update(rmse="0.9")),
    "nothing for a figure": damage(lambda document: document["result"].update(rmse=None)),
    "NaN": damage(lambda document: document["result"].update(mae=math.nan)),
    "infinity": damage(lambda document: document["result"].update(mae=math.inf)),
    "digits": damage(lambda document: document["result"].update(n_test=10**400)),
}


@pytest.mark.parametrize("name", DAMAGES)
@pytest.mark.usefixtures("without_workers")
def test_a_damaged_or_foreign_file_is_as_good_as_none(study: Study, name: str) -> None:
    tasks = study.tasks(QUICK)
    before = figures(study.run(tasks))
    path = study.kept()[0]
    beside = sorted(path.parent.iterdir())
    good = path.read_text(encoding="utf-8")
    path.write_text(DAMAGES[name](good), encoding="utf-8")
    seen: list[Progress] = []
    assert figures(study.run(tasks, seen.append)) == before
    assert len(seen) == 1
    assert json.loads(path.read_text(encoding="utf-8"))["task"] == json.loads(good)["task"]
    assert sorted(path.parent.iterdir()) == beside  # nothing half-written is left


@pytest.mark.usefixtures("without_workers")
def test_a_kept_result_says_what_it_was_computed_from(study: Study) -> None:
    tasks = study.tasks(QUICK)
    study.run(tasks)
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in study.kept()]
    assert sorted(document["task"]["fold"] for document in documents) == [0, 1, 2]
    task = documents[0]["task"]
    assert task["data_sha256"] == tasks[0].sha256
    assert task["options"] == {"regularisation": 5.0}
    assert set(task["versions"]) == {"tacit", "numpy", "scipy", "kernel"}
    assert [path.stem for path in study.kept()] == sorted(task.key for task in tasks)


@pytest.mark.usefixtures("without_workers")
def test_a_folder_that_cannot_be_written_to_is_named_with_the_remedy(study: Study) -> None:
    study.store.folder.write_text("not a folder", encoding="utf-8")
    with pytest.raises(FileError, match=r"^cannot make the folder .*folds.*; set TACIT_CACHE to a folder that can be"):
        study.run(study.tasks(QUICK))


@pytest.mark.usefixtures("without_workers")
def test_a_full_disk_is_said_with_the_remedy(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_bytes(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    tasks = study.tasks(QUICK)
    monkeypatch.setattr(Path, "write_bytes", write_bytes)
    with pytest.raises(FileError) as full:
        study.run(tasks)
    assert str(full.value).endswith(": No space left on device; free space or choose another place with TACIT_CACHE")
    assert study.kept() == []


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACIT_CACHE", "/some/where")
    assert cache_folder() == Path("/some/where")
    monkeypatch.setenv("TACIT_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert cache_folder() == Path("/caches/tacit")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/ann")
    assert cache_folder() == Path("/home/ann/.cache/tacit")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # as where a user has no home
    with pytest.raises(FileError, match=r"^no home folder is known .*; set TACIT_CACHE to a folder$"):
        cache_folder()


def test_whatever_decides_a_result_decides_its_key(study: Study) -> None:
    task = study.tasks(QUICK)[0]
    setting = task.setting
    others = [
        replace(task, setting=replace(setting, mechanism="duchi")),
        replace(task, setting=replace(setting, mechanism="none", epsilon=None)),
        replace(task, setting=replace(setting, epsilon="1.5")),
        replace(task, setting=replace(setting, options=OffsetsOptions(regularisation=6.0))),
        replace(task, setting=replace(setting, options=GlobalMeanOptions())),
        replace(task, setting=replace(setting, seed=1)),
        replace(task, setting=replace(setting, folds=4)),
        replace(task, fold=1),
        replace(task, threshold=3.0),
        replace(task, scale="1:5:0.5"),
        replace(task, sha256="0" * 64),
    ]
    assert len({task.key, *(other.key for other in others)}) == 12
    elsewhere = DataSource("a copy.csv", STARS, rounding=True)
    assert replace(task, source=elsewhere).key == task.key  # the same ratings from another place


@pytest.mark.parametrize("file", ["evaluation/fold.py", "learning/mog_mf.py", "privacy/scale.py", "tables/reading.py"])
@pytest.mark.usefixtures("without_workers")
def test_code_that_computes_otherwise_finds_nothing(study: Study, monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    tasks = study.tasks(QUICK)
    study.run(tasks)
    read = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read(path) + b"#" * str(path).endswith(file))
    assert study.store.find(tasks[0]) is not None
    code_digest.cache_clear()
    try:
        assert study.store.find(tasks[0]) is None
    finally:
        code_digest.cache_clear()


# Rows.


def row_of(rmse: Sequence[float], tests: Sequence[int] = (33, 33, 34)) -> Row:
    results = tuple(
        FoldResult(Metrics(one, one / 2, *[0.5] * 10, users=7), 100 - n_test, n_test, 0.25, None)
        for one, n_test in zip(rmse, tests, strict=True)
    )
    return Row(QUICK, "a test", "0" * 64, "1:5:1", 3.4, results)


def test_a_row_has_means_and_standard_deviations_over_folds() -> None:
    found = row_of([0.9, 1.0, 1.4]).to_document()
    assert found["rmse"] == pytest.approx(1.1)
    assert found["rmse_sd"] == pytest.approx(math.sqrt((0.04 + 0.01 + 0.09) / 2))
    assert (found["mae"], found["mae_sd"]) == pytest.approx((0.55, found["rmse_sd"] / 2))
    assert (found["f_score"], found["f_score_sd"]) == (0.5, 0)
    assert (found["n_train"], found["n_test"], found["folds_run"], found["fit_seconds"]) == (67, 33, 3, 0.25)
    alone = row_of([0.9], [34]).to_document()
    assert (alone["rmse"], alone["rmse_sd"], alone["n_train"] + alone["n_test"]) == (0.9, 0, 100)
    assert set(MEASURES) == set(asdict(row_of([0.9], [34]).results[0].metrics)) - {"users"}


@pytest.mark.usefixtures("without_workers")
def test_rows_come_in_order_and_are_plain_json(study: Study) -> None:
    settings = list(grid(["none", "duchi"], ["0.5", "2"], EVERY_MODEL, seed=3, folds=4))
    rows = evaluate(study.source, [*settings, settings[0]], study.store)
    assert [row.setting for row in rows] == [*settings, settings[0]]
    documents = json.loads(json.dumps([row.to_document() for row in rows], allow_nan=False))
    for row, document in zip(rows, documents, strict=True):
        assert document["n_train"] + document["n_test"] == 180
        assert document["rmse"] == pytest.approx(np.mean([result.metrics.rmse for result in row.results]))
        assert document["rmse_sd"] == pytest.approx(np.std(row.values("rmse"), ddof=1))
        assert document["options"] == asdict(row.setting.options)
        assert (document["threshold"], document["scale"], document["data"]) == (3.4, "1:5:1", "ratings.csv")
        assert document["data_sha256"] == study.source.load().sha256


def test_a_file_needs_a_scale_and_a_named_data_set_has_one(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInputError, match=r"^ratings.csv: say its --scale, such as 1:5:1, or name a data set"):
        DataSource("ratings.csv")
    data = study.source.load()
    monkeypatch.setattr(source_module, "load_data_set", lambda name: replace(data, name=name))
    named = DataSource("ml-100k").load()
    assert (named.name, str(named.scale)) == ("ml-100k", "1:5:1")
    wide = DataSource("ml-100k", RatingScale.parse("0.5:5:0.5")).load()
    assert str(wide.scale) == "0.5:5:0.5"
    assert np.array_equal(wide.ranks, 2 * data.ranks.astype(int) + 1)
    with pytest.raises(InvalidInputError, match=r"rating 5 .* is outside the scale 1 to 4"):
        DataSource("ml-100k", RatingScale.parse("1:4:1")).load()
