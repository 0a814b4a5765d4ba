from __future__ import annotations

import json
import re
import threading
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text

from tacit.errors import RunError
from tacit.provider.store import ReportStore
from tacit.provider.store.runs import FAILED, QUEUED, RUNNING, SUCCEEDED, RunRequest, RunStore, Trace

if TYPE_CHECKING:
    from collections.abc import Iterator

FIELDS = (
    "id state model options seed reports devices items iterations of_iterations trace seconds error quality hour"
    " published"
)


@pytest.fixture
def runs(address: str) -> Iterator[RunStore]:
    opened = ReportStore.open(address)
    yield RunStore(opened.database)
    opened.close()


def test_a_run_is_kept_as_it_was_asked_for(runs: RunStore) -> None:
    made = runs.create(RunRequest("offsets", {"regularisation": 3}, 7))
    assert (made.id, made.state, made.model, made.options, made.seed) == (
        1,
        QUEUED,
        "offsets",
        {"regularisation": 3},
        7,
    )
    assert runs.get(1) == made
    assert runs.unfinished() == [made] == runs.newest()
    assert not made.ended


def test_a_document_has_the_fields_of_the_contract_and_is_plain_json(runs: RunStore) -> None:
    made = runs.create(RunRequest())
    document = runs.update(made.id, trace=Trace((1.5, None), (None, -2.0)), starts=2).to_document()
    assert sorted(document) == sorted(FIELDS.split())
    assert json.loads(json.dumps(document)) == document
    assert document["trace"] == {"objective": [1.5, None], "likelihood": [None, -2.0]}


def test_no_exact_time_is_stored(runs: RunStore) -> None:
    made = runs.create(RunRequest())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:00Z", made.hour)
    with runs.database.reading() as connection:
        row = connection.execute(text("SELECT * FROM runs")).one()
    assert set(row._mapping) == {"key", "state", "document"}
    times = [value for name, value in json.loads(row.document).items() if re.search("hour|time|date|at$", name)]
    assert times == [made.hour]


def test_a_second_run_is_refused_until_the_first_has_ended(runs: RunStore) -> None:
    first = runs.create(RunRequest())
    for state in (QUEUED, RUNNING):
        runs.update(first.id, state=state)
        with pytest.raises(RunError, match="training run 1 is not ended yet; wait"):
            runs.create(RunRequest())
    runs.update(first.id, state=FAILED, error="no")
    assert runs.create(RunRequest()).id == 2
    assert [run.id for run in runs.newest()] == [2, 1]
    assert [run.id for run in runs.newest(1)] == [2]


def test_of_many_that_ask_at_once_one_is_served(runs: RunStore) -> None:
    served, refused, gate = [], [], threading.Barrier(8)

    def ask() -> None:
        gate.wait()
        try:
            served.append(runs.create(RunRequest()).id)
        except RunError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(served), len(refused)) == (1, 7)
    assert len(runs.newest()) == 1


def test_one_run_at_most_is_published(runs: RunStore) -> None:
    for number in (1, 2, 3):
        runs.create(RunRequest())
        runs.publish(number, state=SUCCEEDED, quality={"rmse": 0.9})
    assert [(run.id, run.published) for run in runs.succeeded()] == [(3, True), (2, False), (1, False)]
    runs.publish(2)
    assert [run.id for run in runs.newest() if run.published] == [2]
    assert runs.newest()[0].quality == {"rmse": 0.9}


def test_changes_at_the_same_time_are_all_kept(runs: RunStore) -> None:
    run = runs.create(RunRequest())
    names = ("reports", "devices", "items", "of_iterations")
    threads = [threading.Thread(target=lambda name=name: runs.update(run.id, **{name: 5})) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = runs.get(run.id)
    assert kept is not None
    assert [getattr(kept, name) for name in names] == [5, 5, 5, 5]


@pytest.mark.parametrize("unknown", [0, -1, 2, 2**31, 2**70])
def test_an_unknown_run_is_none_and_cannot_be_changed(runs: RunStore, unknown: int) -> None:
    runs.create(RunRequest())
    assert runs.get(unknown) is None
    if unknown == 2:
        with pytest.raises(RunError, match="no training run 2"):
            runs.update(unknown, state=FAILED)


def test_seeds_are_drawn(runs: RunStore) -> None:
    first = runs.create(RunRequest())
    runs.update(first.id, state=FAILED)
    assert first.seed != runs.create(RunRequest()).seed


def test_a_trace_that_goes_on_from_earlier_forgets_what_came_after_and_marks_what_is_not_known() -> None:
    trace = Trace((3.0, 2.0, 1.0), (None, None, None)).with_iteration(2, 2.5, -1.0)
    assert trace == Trace((3.0, 2.5), (None, -1.0))
    assert trace.with_iteration(5, 0.5, None) == Trace((3.0, 2.5, None, None, 0.5), (None, -1.0, None, None, None))
