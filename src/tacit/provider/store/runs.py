"""Training runs as the database keeps them: what was asked for, how far it is, how it ended."""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from tacit.errors import RunError
from tacit.provider.store.schema import runs

if TYPE_CHECKING:
    from sqlalchemy import Connection, Select

    from tacit.provider.store.database import Database

QUEUED, RUNNING, SUCCEEDED, FAILED = "queued", "running", "succeeded", "failed"
MOST_LISTED = 100

_UNFINISHED = (QUEUED, RUNNING)
_INTERNAL = ("starts", "memory", "changes")


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What to train; a seed that is not given is drawn."""

    model: str = "channel-mf"
    options: dict[str, Any] = field(default_factory=dict)
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """The objective and likelihood of every iteration so far; None where they are not numbers, or not known."""

    objective: tuple[float | None, ...] = ()
    likelihood: tuple[float | None, ...] = ()

    def __post_init__(self) -> None:
        """Take lists too, which is what JSON has."""
        object.__setattr__(self, "objective", tuple(self.objective))
        object.__setattr__(self, "likelihood", tuple(self.likelihood))

    def with_iteration(self, number: int, objective: float | None, likelihood: float | None) -> Trace:
        """Return the trace up to an iteration, numbered from 1; what is missing before it is not known."""
        unknown = (None,) * max(number - 1 - len(self.objective), 0)
        before = self.objective[: number - 1] + unknown, self.likelihood[: number - 1] + unknown
        return Trace((*before[0], objective), (*before[1], likelihood))


@dataclass(frozen=True, slots=True)
class Run:
    """A training run. `iterations` and `trace` are those of the fit under way, in the end of the published one."""

    id: int
    state: str
    model: str
    options: dict[str, Any]
    seed: int
    hour: str
    """When it was asked for, to the hour: no exact time is kept."""
    reports: int | None = None
    devices: int | None = None
    items: int | None = None
    iterations: int = 0
    of_iterations: int | None = None
    trace: Trace = Trace()
    seconds: float | None = None
    error: str | None = None
    quality: dict[str, Any] | None = None
    published: bool = False
    starts: int = 0
    """How often a process was started for it that did not end by itself, the present one included."""
    memory: int | None = None
    changes: int | None = None
    """What `ReportStore.changes` was when it began."""
    """How many bytes the fits are estimated to take; after the end, what the process took at its peak."""

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.state not in _UNFINISHED

    def to_document(self) -> dict[str, Any]:
        """Write the run as the service shows it."""
        document = {name: value for name, value in asdict(self).items() if name not in _INTERNAL}
        return document | {"trace": {name: list(series) for name, series in document["trace"].items()}}


@dataclass(frozen=True)
class RunStore:
    """The runs in a database, one of them at most unfinished."""

    database: Database

    def create(self, request: RunRequest) -> Run:
        """Note a new run as queued, or refuse it while another is not ended."""
        seed = secrets.randbits(32) if request.seed is None else request.seed
        run = Run(0, QUEUED, request.model, dict(request.options), seed, _this_hour())
        with self.database.writing() as connection:
            self._let_nobody_else_create(connection)
            other = connection.scalar(select(runs.c.key).where(runs.c.state.in_(_UNFINISHED)))
            if other is not None:
                raise RunError(f"training run {other} is not ended yet; wait for it, then ask again")
            row = {"state": run.state, "document": _text_of(run)}
            key = connection.execute(runs.insert().returning(runs.c.key), row).scalar_one()
        return replace(run, id=int(key))

    def _let_nobody_else_create(self, connection: Connection) -> None:
        """Make others wait until this transaction ends; SQLite has one writer anyway."""
        if not self.database.is_sqlite:
            connection.exec_driver_sql("LOCK TABLE runs IN SHARE ROW EXCLUSIVE MODE")

    def get(self, run_id: int) -> Run | None:
        """Return a run, None if it is unknown."""
        found = self._read(select(runs).where(runs.c.key == run_id)) if 0 < run_id < 2**31 else []
        return found[0] if found else None

    def newest(self, limit: int = MOST_LISTED) -> list[Run]:
        """Return the newest runs, the newest first."""
        return self._read(select(runs).order_by(runs.c.key.desc()).limit(limit))

    def unfinished(self) -> list[Run]:
        """Return the runs that are queued or running, the oldest first."""
        return self._read(select(runs).where(runs.c.state.in_(_UNFINISHED)).order_by(runs.c.key))

    def succeeded(self) -> list[Run]:
        """Return the newest runs that led to a model, the newest first."""
        wanted = select(runs).where(runs.c.state == SUCCEEDED)
        return self._read(wanted.order_by(runs.c.key.desc()).limit(MOST_LISTED))

    def update(self, run_id: int, **changes: Any) -> Run:  # noqa: ANN401 - fields of a run
        """Change fields of a run, and return it as it is then."""
        with self.database.writing() as connection:
            return self._change(connection, run_id, changes)

    def publish(self, run_id: int, **changes: Any) -> Run:  # noqa: ANN401 - as above
        """Mark a run as the published one, and no other; change other fields in the same step."""
        with self.database.writing() as connection:
            for other in _runs_of(connection, select(runs).order_by(runs.c.key.desc()).limit(MOST_LISTED)):
                if other.published and other.id != run_id:
                    self._change(connection, other.id, {"published": False})
            return self._change(connection, run_id, changes | {"published": True})

    @staticmethod
    def _change(connection: Connection, run_id: int, changes: dict[str, Any]) -> Run:
        found = _runs_of(connection, select(runs).where(runs.c.key == run_id).with_for_update())
        if not found:
            raise RunError(f"there is no training run {run_id}; ask for the list of runs")
        run = replace(found[0], **changes)
        new = {"state": run.state, "document": _text_of(run)}
        connection.execute(runs.update().where(runs.c.key == run_id).values(new))
        return run

    def _read(self, wanted: Select[Any]) -> list[Run]:
        with self.database.reading() as connection:
            return _runs_of(connection, wanted)


def _runs_of(connection: Connection, wanted: Select[Any]) -> list[Run]:
    return [_run_of(row.key, row.state, row.document) for row in connection.execute(wanted)]


def _run_of(key: int, state: str, text: str) -> Run:
    document = json.loads(text)
    known = {one.name for one in fields(Run)}
    values = {name: value for name, value in document.items() if name in known}
    return Run(**values | {"id": key, "state": state, "trace": Trace(**document["trace"])})


def _text_of(run: Run) -> str:
    kept = {name: value for name, value in asdict(run).items() if name not in {"id", "state"}}
    return json.dumps(kept, allow_nan=False)


def _this_hour() -> str:
    return time.strftime("%Y-%m-%dT%H:00Z", time.gmtime())
