from __future__ import annotations

import gzip
import hashlib
import json
import logging
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tacit.errors import InvalidInputError, ModelError, RunError
from tacit.evaluation.world import WorldShape, make_world
from tacit.learning import ChannelMfOptions, Model, ReportMatrix, SvdOptions
from tacit.privacy.item_wire import decode_items
from tacit.privacy.policy import Policy
from tacit.privacy.scale import RatingScale
from tacit.provider.store import Batch, Item, ReportStore
from tacit.provider.store.runs import FAILED, QUEUED, RUNNING, SUCCEEDED, RunRequest, RunStore
from tacit.provider.store.writing import GroupWriter, Said
from tacit.provider.training import Schedule, Trainer, TrainingSettings, checked_options, parse_interval
from tacit.provider.training.memory import available_memory
from tacit.provider.training.orders import Orders, message
from tacit.provider.training.run_folder import RunFolder, run_folders
from tacit.provider.training.snapshot import read_snapshot, write_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tacit.provider.store.runs import Run

STARS = RatingScale.parse("1:5:1")
QUICK = RunRequest("offsets", seed=1)
# Long enough to be cut off in the middle.
LONG = RunRequest("channel-mf", {"iterations": 300, "tolerance": 0.0, "dimensions": 4}, 11)
ENDLESS = RunRequest("channel-mf", {"iterations": 10_000, "tolerance": 0.0}, 11)
PATIENCE = 60


def fill(store: ReportStore, policy: Policy, *, people: int = 80, first: int = 0, ratings: int = 1600) -> None:
    """Let devices of a small world report."""
    key, table = store.adopt(policy), policy.channel.weights
    world = make_world(STARS, shape=WorldShape(people, 60, ratings), seed=3)
    store.put_items([Item(str(number), title) for number, title in enumerate(world.titles())])
    rng = np.random.default_rng(4)
    symbols = table.draw(STARS.ranks_of(world.ratings), rng.integers(0, 2**64, ratings, dtype=np.uint64))
    said: dict[int, list[Said]] = {}
    for user, item, symbol in zip(world.users.tolist(), world.items.tolist(), symbols.tolist(), strict=True):
        said.setdefault(user, []).append(Said(str(item), symbol, 0))
    batches = [Batch(_token(first + user), key, table.symbols, listed) for user, listed in said.items()]
    outcomes = GroupWriter(store.database, 1000).store(batches)
    assert sum(outcome.accepted for outcome in outcomes) == ratings


def _token(number: int) -> bytes:
    return hashlib.sha256(str(number).encode()).digest()


@pytest.fixture
def filled(sqlite_address: str, policy: Policy) -> Iterator[ReportStore]:
    opened = ReportStore.open(sqlite_address)
    fill(opened, policy)
    yield opened
    opened.close()


@contextmanager
def training(store: ReportStore, folder: Path, **settings: Any) -> Iterator[Trainer]:
    trainer = Trainer(store, RunStore(store.database), folder, TrainingSettings(threads=1, **settings))
    trainer.start()
    try:
        yield trainer
    finally:
        trainer.stop()


def ended(store: ReportStore, run: Run | int) -> Run:
    number, deadline = run if isinstance(run, int) else run.id, time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = RunStore(store.database).get(number)
        if found is not None and found.ended:
            return found
        time.sleep(0.02)
    raise AssertionError(f"run {number} has not ended")


def done(trainer: Trainer, store: ReportStore, request: RunRequest = QUICK) -> Run:
    return ended(store, trainer.request(request))


def until(condition: Any) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def alive(process_id: int) -> bool:
    try:
        state = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def learned(folder: Path) -> dict[str, Any]:
    """What a model's folder says apart from how long it took."""
    document = json.loads((folder / "model.json").read_bytes())
    document["trace"].pop("seconds")
    return document | {"items": json.loads((folder / "items" / "items.json").read_bytes())}


def test_a_whole_run_ends_in_a_published_model(address: str, policy: Policy, tmp_path: Path) -> None:
    store, folder = ReportStore.open(address), tmp_path / "training"
    fill(store, policy)
    with training(store, folder) as trainer:
        assert trainer.published is None
        run = done(trainer, store, RunRequest(seed=5))
        assert (run.state, run.error, run.published) == (SUCCEEDED, None, True)
        assert (run.reports, run.devices, run.seed, run.of_iterations) == (1600, 80, 5, 20)
        assert run.iterations == len(run.trace.objective) == len(run.trace.likelihood) > 1
        assert run.seconds is not None
        assert run.seconds > 0
        assert run.memory is not None
        assert 20e6 < run.memory < 2e9
        assert run.quality is not None
        assert run.quality["held_out"] == 160
        published = trainer.published
        assert published is not None
        assert "fitting channel-mf to 1600 reports, seed 5" in trainer.log_of(run.id)
        until(lambda: _names(folder / "run-0001") == ["log.txt", "model", "request.json"])
    keys = [store.device_key(_token(number)) for number in range(80)]
    assert {key for key in keys if key is not None} == set(published.model.users.ids.tolist())
    assert published.document == {
        "run": 1,
        "model": "channel-mf",
        "scale": {"low": "1", "high": "5", "step": "1"},
        "policies": [policy.id],
        "items": run.items,
        "published_items": len(decode_items(published.items).items),
        "reports": 1600,
        "least_reports": 20,
        "quality": run.quality,
        "bytes": len(published.items),
    }
    assert 0 < published.document["published_items"] < published.document["items"]
    on_disk = Model.load(folder / "run-0001/model")
    assert on_disk.provenance == published.model.provenance
    assert gzip.decompress(published.items_gzip) == published.items
    assert hashlib.sha256(published.items).hexdigest() == published.items_etag
    store.close()


def test_training_is_for_its_owner_alone_and_secrets_are_on_no_command_line(
    filled: ReportStore, tmp_path: Path
) -> None:
    with training(filled, tmp_path / "training") as trainer:
        run = trainer.request(ENDLESS)
        until((tmp_path / "training/run-0001/checkpoint/measured").exists)
        process = trainer.process_id
        assert process is not None
        command = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
        assert command[1:-1] == [
            b"-P",
            b"-m",
            b"tacit.provider.training.process",
            os.fsencode(tmp_path / "training/run-0001"),
        ]
        assert os.getsid(process) == process
        assert os.getpriority(os.PRIO_PROCESS, process) == 10
        os.kill(process, signal.SIGTERM)  # meant for the service, which decides
        time.sleep(0.2)
        assert alive(process)
    assert (tmp_path / "training").stat().st_mode & 0o077 == 0
    assert (tmp_path / "training/run-0001").stat().st_mode & 0o077 == 0
    assert not alive(process)
    assert RunStore(filled.database).get(run.id).state == QUEUED  # type: ignore[union-attr]


def test_a_process_that_is_killed_fails_its_run_and_the_old_model_stays(filled: ReportStore, tmp_path: Path) -> None:
    runs = RunStore(filled.database)
    with training(filled, tmp_path) as trainer:
        assert done(trainer, filled).state == SUCCEEDED
        before = trainer.published
        run = trainer.request(ENDLESS)
        until(lambda: runs.get(run.id).iterations > 3)  # type: ignore[union-attr]
        with pytest.raises(RunError, match="training run 2 is not ended yet"):
            trainer.request(QUICK)
        assert trainer.process_id is not None
        os.kill(trainer.process_id, signal.SIGKILL)
        failed = ended(filled, run)
        assert failed.state == FAILED
        assert failed.error is not None
        assert "killed by signal 9, perhaps for want of memory" in failed.error
        assert trainer.published is before
        assert before is not None
        assert before.run == 1
        assert failed.error in trainer.log_of(run.id)
        until(lambda: _names(tmp_path / "run-0002") == ["log.txt", "request.json"])
        assert done(trainer, filled).published


_PARENT = """
import sys, time
from pathlib import Path
from tacit.provider.store import ReportStore
from tacit.provider.store.runs import RunStore
from tacit.provider.training import Trainer, TrainingSettings
store = ReportStore.open(sys.argv[1])
trainer = Trainer(store, RunStore(store.database), Path(sys.argv[2]), TrainingSettings(threads=2))
trainer.start()
while trainer.process_id is None:
    time.sleep(0.01)
print(trainer.process_id, flush=True)
time.sleep(600)
"""


@contextmanager
def service(address: str, folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Another process that trains, and the number of its training process."""
    command = [sys.executable, "-c", _PARENT, address, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        try:
            assert parent.stdout is not None
            yield parent, int(parent.stdout.readline())
        finally:
            parent.kill()


def test_a_service_that_is_killed_goes_on_to_the_same_result(
    filled: ReportStore, sqlite_address: str, policy: Policy, tmp_path: Path
) -> None:
    disturbed, undisturbed = tmp_path / "disturbed", tmp_path / "undisturbed"
    runs = RunStore(filled.database)
    runs.create(LONG)
    with service(sqlite_address, disturbed) as (parent, child):
        until((disturbed / "run-0001/checkpoint/all/checkpoint.npz").exists)
        parent.kill()
        until(lambda: not alive(child))
    cut_off = runs.get(1)
    assert cut_off is not None
    assert (cut_off.state, cut_off.starts) == (RUNNING, 1)
    assert not (disturbed / "run-0001/model").exists()
    fill(filled, policy, first=1000)  # what came later must not matter
    with training(filled, disturbed) as trainer:
        resumed = ended(filled, 1)
        assert resumed.state == SUCCEEDED
        assert trainer.published is not None
        assert trainer.published.run == 1
        assert "fitting channel-mf to 1600 reports, seed 11" in trainer.log_of(1)
    for number in range(1000, 1080):
        GroupWriter(filled.database, 1000).delete_device(_token(number))
    with training(filled, undisturbed) as trainer:
        assert done(trainer, filled, LONG).trace == resumed.trace
    assert len(resumed.trace.objective) == 300
    assert None not in resumed.trace.objective
    assert learned(disturbed / "run-0001/model") == learned(undisturbed / "run-0002/model")


def test_a_run_that_is_stopped_with_its_service_is_taken_up_without_counting_as_dead(
    filled: ReportStore, tmp_path: Path
) -> None:
    runs = RunStore(filled.database)
    for _ in range(2):
        with training(filled, tmp_path) as trainer:
            if not runs.newest():
                trainer.request(ENDLESS)
            until(lambda trainer=trainer: trainer.process_id is not None)
        found = runs.get(1)
        assert found is not None
        assert (found.state, found.starts) == (QUEUED, 0)
    runs.update(1, options={"iterations": 2})
    with training(filled, tmp_path):
        assert ended(filled, 1).state == SUCCEEDED


def test_a_run_whose_service_died_three_times_is_given_up(filled: ReportStore, tmp_path: Path) -> None:
    runs = RunStore(filled.database)
    runs.create(QUICK)
    runs.update(1, state=RUNNING, starts=3)
    RunFolder.of(tmp_path, 1).make(QUICK)
    (tmp_path / "run-0001/snapshot.parquet").touch()
    with training(filled, tmp_path) as trainer:
        given_up = ended(filled, 1)
        assert given_up.state == FAILED
        assert given_up.error == "the service died 3 times during this run; start another one"
        assert done(trainer, filled).state == SUCCEEDED
    assert not (tmp_path / "run-0001/snapshot.parquet").exists()


def test_runs_that_cannot_succeed_say_why_and_keep_the_model(filled: ReportStore, tmp_path: Path) -> None:
    with training(filled, tmp_path) as trainer:
        done(trainer, filled)
        (tmp_path / "run-0002").mkdir()
        (tmp_path / "run-0002/model").touch()
        blocked = done(trainer, filled)
        assert (blocked.state, trainer.published.run) == (FAILED, 1)  # type: ignore[union-attr]
        assert "is a file or a link" in str(blocked.error)
    with training(filled, tmp_path, most_memory=1000) as trainer:
        refused = done(trainer, filled)
        assert refused.state == FAILED
        assert "training needs about" in str(refused.error)
        assert "lower rank" in str(refused.error)
        assert trainer.published is not None
        assert trainer.published.run == 1
    assert [run.id for run in RunStore(filled.database).newest() if run.published] == [1]


def test_without_reports_a_run_fails_and_nothing_is_published(
    sqlite_address: str, policy: Policy, tmp_path: Path
) -> None:
    store = ReportStore.open(sqlite_address)
    store.adopt(policy)
    with training(store, tmp_path) as trainer:
        failed = done(trainer, store)
        assert failed.error == "there are no reports to learn from; wait until devices have sent some"
        assert trainer.published is None
    store.close()


def test_few_reports_are_not_made_public_unless_that_is_wanted(
    sqlite_address: str, policy: Policy, tmp_path: Path
) -> None:
    store = ReportStore.open(sqlite_address)
    fill(store, policy, people=10, ratings=50)
    with training(store, tmp_path) as trainer:
        failed = done(trainer, store, RunRequest(seed=2))
        assert failed.error is not None
        assert "no item has 20 reports yet" in failed.error
        assert trainer.published is None
    with training(store, tmp_path, least_reports=2) as trainer:
        run = done(trainer, store, RunRequest(seed=2))
        assert (run.state, run.quality) == (SUCCEEDED, None)
        assert trainer.published is not None
        assert trainer.published.document["least_reports"] == 2
        assert "quality is not measured: 50 reports are fewer than 100" in trainer.log_of(run.id)
    store.close()


def test_a_damaged_model_is_passed_over_for_an_older_one(
    filled: ReportStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with training(filled, tmp_path) as trainer:
        for _ in range(3):
            assert done(trainer, filled).published
    assert [number for number, folder in run_folders(tmp_path) if folder.model.exists()] == [2, 3]
    arrays = tmp_path / "run-0003/model/arrays.npz"
    arrays.write_bytes(arrays.read_bytes()[:-1])
    with caplog.at_level(logging.ERROR), training(filled, tmp_path) as trainer:
        assert trainer.published is not None
        assert trainer.published.run == 2
        assert [run.id for run in RunStore(filled.database).newest() if run.published] == [2]
    assert "the model of training run 3 is skipped" in caplog.text
    (tmp_path / "run-0002/model/items/items.json").unlink()
    with training(filled, tmp_path) as trainer:
        assert trainer.published is None
    assert not [run for run in RunStore(filled.database).newest() if run.published]


def test_two_services_do_not_share_a_folder(filled: ReportStore, tmp_path: Path) -> None:
    second = Trainer(filled, RunStore(filled.database), tmp_path)
    with training(filled, tmp_path), pytest.raises(RunError, match="another service trains in"):
        second.start()
    second.stop()
    with training(filled, tmp_path):
        pass


def test_training_again_on_a_schedule(filled: ReportStore, policy: Policy, tmp_path: Path) -> None:
    runs = RunStore(filled.database)
    with training(filled, tmp_path, retrain_every=0.1):
        assert ended(filled, 1).state == SUCCEEDED  # at once: there are reports and no model
        time.sleep(1.3)
        assert len(runs.newest()) == 1  # nothing new
        fill(filled, policy, first=500, people=20, ratings=100)
        until(lambda: len(runs.newest()) == 2)
        assert ended(filled, 2).reports == 1700


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_schedule_waits_its_interval_and_for_something_new() -> None:
    clock, counts = Clock(), [500]
    schedule = Schedule(60, lambda: counts[-1], clock=clock)
    assert not schedule.due(has_model=True)
    clock.now += 59
    assert not schedule.due(has_model=True)
    clock.now += 1
    assert schedule.due(has_model=True)
    schedule.began()
    assert not schedule.due(has_model=True)
    clock.now += 60
    assert not schedule.due(has_model=True)
    counts.append(501)
    assert not schedule.due(has_model=True)  # an interval that was skipped starts anew
    clock.now += 60
    assert schedule.due(has_model=True)
    schedule.began()
    counts.append(502)  # somebody left: the model should forget them
    clock.now += 60
    assert schedule.due(has_model=True)


def test_after_a_restart_nothing_new_is_no_reason_to_train() -> None:
    clock = Clock()
    schedule = Schedule(60, lambda: 500, counted=500, clock=clock)
    clock.now += 60
    assert not schedule.due(has_model=True)


def test_without_a_model_the_first_run_waits_for_reports_only() -> None:
    clock, counts = Clock(), [99]
    schedule = Schedule(60, lambda: counts[-1], clock=clock)
    assert not schedule.due(has_model=False)
    counts.append(100)
    assert schedule.due(has_model=False)
    schedule.began()  # it fails: the next one is not at once
    assert not schedule.due(has_model=False)
    few = Schedule(60, lambda: 0, clock=clock)
    clock.now += 60
    assert not few.due(has_model=False)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("30m", 1800), ("1h", 3600), ("1d", 86400), ("366d", 366 * 86400)]
)
def test_intervals(text: str, seconds: int) -> None:
    assert parse_interval(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "1", "h", "0s", "-1h", "1.5h", "1h30m", "1 h", "367d", "٣h", "1h\n", "9" * 400 + "s"]
)
def test_intervals_that_are_none(text: str) -> None:
    with pytest.raises(InvalidInputError, match="is not an interval of up to 366d; write, say, 90s, 30m, 1h or 1d"):
        parse_interval(text)


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (RunRequest("../../etc"), "there is no model '../../etc'; choose one of mog-mf"),
        (RunRequest("m" * 1000), "there is no model 'mmm"),
        (RunRequest(options={"ranks": 3}), "channel-mf has no option 'ranks'; its options and defaults are rank 8"),
        (RunRequest(options={"rank": 1e9}), "rank is 1000000000.0; give a whole number"),
        (RunRequest(options={"rank": True}), "rank is True; give something like 8"),
        (RunRequest(options={"rank": None}), "rank is None; give something like 8"),
        (RunRequest(options={"rank": [8]}), "rank is [8]; give something like 8"),
        (RunRequest(options={"rank": 10**50}), "rank is 1000"),
        (RunRequest(options={"pattern": 1}), "pattern is 1; give something like True"),
        (RunRequest(options={"tolerance": float("nan")}), "tolerance is nan; give a number"),
        (RunRequest("svd", {"fill": "x" * 1000}), "fill is 'xxx"),
        (RunRequest(seed=-1), "seed is -1; give a whole number"),
        (RunRequest(seed=True), "seed is True"),
    ],
)
def test_requests_that_make_no_sense_are_refused_in_one_line(request_: RunRequest, says: str) -> None:
    with pytest.raises(ModelError) as refused:
        checked_options(request_)
    assert says in str(refused.value)
    assert len(str(refused.value)) < 300


def test_options_that_are_not_given_keep_their_defaults() -> None:
    assert checked_options(RunRequest()) == ChannelMfOptions()
    assert checked_options(RunRequest("svd", {"rank": 2}, 3)) == SvdOptions(rank=2)


def test_a_request_that_is_refused_leaves_no_run(filled: ReportStore, tmp_path: Path) -> None:
    trainer = Trainer(filled, RunStore(filled.database), tmp_path)
    with pytest.raises(ModelError, match="there is no model 'oracle'"):
        trainer.request(RunRequest("oracle"))
    assert RunStore(filled.database).newest() == []


def test_a_snapshot_holds_the_reports_of_several_policies(tmp_path: Path, policy: Policy) -> None:
    other = Policy.make("randomized-response", STARS, "2")
    items = np.array(["7", "07", "Rain, or \N{SNOWMAN}"], dtype=object)
    parts = [
        (np.array([5, 2**40, 5]), items, np.array([3, 0, 1]), policy),
        (np.array([9]), items[:1], np.array([4]), other),
    ]
    write_snapshot(tmp_path / "snapshot.parquet", parts)
    read = read_snapshot(tmp_path / "snapshot.parquet", [other, policy])
    assert [part[3].id for part in read] == [policy.id, other.id]
    for part, again in zip(parts, read, strict=True):
        assert [list(column) for column in again[:3]] == [list(column) for column in part[:3]]
    assert ReportMatrix.of_parts(read).checksum == ReportMatrix.of_parts(parts).checksum
    with pytest.raises(RunError, match="policies that the store does not have"):
        read_snapshot(tmp_path / "snapshot.parquet", [policy])


def test_orders_cross_a_line_and_hide_their_secrets() -> None:
    orders = Orders("postgresql://me:hush@host/name", "ab" * 32, 500, 20, 1)
    assert Orders.from_line(orders.to_line()) == orders
    assert "hush" not in repr(orders)
    assert "abab" not in repr(orders)


def test_messages_have_no_numbers_that_json_lacks() -> None:
    line = message("done", objective=[1.0, float("nan")], quality={"rmse": float("inf")})
    assert json.loads(line) == {"about": "done", "objective": [1.0, None], "quality": {"rmse": None}}


def test_a_process_without_a_service_does_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tacit.provider.training.process", str(tmp_path)]
    for given in (b"", b'{"database": "sqlite:///cut'):
        ending = subprocess.run(command, input=given, capture_output=True, check=False, timeout=PATIENCE)
        assert (ending.returncode, ending.stdout) == (3, b"")
    assert list(tmp_path.iterdir()) == []


def test_memory_that_is_to_be_had_is_less_than_there_is() -> None:
    assert 0 < available_memory() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
