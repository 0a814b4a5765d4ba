"""Where a fit computes: choosing the engine, and getting the reports to it."""

from __future__ import annotations

import importlib.util
import os
import re
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.cli.options import note
from tacit.errors import EngineError, FileError, InvalidInputError, MissingExtraError, ReportError
from tacit.learning import ReportMatrix, read_reports
from tacit.learning.kernels import checked_threads, default_threads
from tacit.learning.local_engine import LocalEngine
from tacit.learning.memory import available_memory
from tacit.tables import count_rows, files_of, refuse_secrets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tacit.learning.engine import Engine
    from tacit.learning.options import Options
    from tacit.privacy.policy import Policy
    from tacit.provider.store import ReportStore

LOCAL, SPARK, GPU, AUTO = "local", "spark", "gpu", "auto"
ENGINES = (LOCAL, SPARK, GPU, AUTO)

_ELSEWHERE = ("mog-mf", "channel-mf", "mf-als")
_STORES = ("postgresql:", "postgresql+psycopg:", "sqlite:")
_ADDRESSES = ("file", "gs", "hdfs", "s3", "viewfs")  # where Arrow finds files
_BYTES_A_REPORT = 40  # while reports are read and sorted; what they take afterwards is less
_PARTS_A_CORE = 4
_SHOWN_ID = 12
_SUBMITTED = "PYSPARK_GATEWAY_PORT"  # in the environment where spark-submit has started Java, and Java us
_PASSWORD = re.compile(r"://[^/@]*:[^/]*@|[?&]password=", re.IGNORECASE)
_SILENT = "the store has no reports; wait until devices have sent some"


@dataclass(frozen=True, slots=True)
class Sources:
    """What to learn from: files and folders of reports, or the address of a store."""

    places: tuple[str, ...]
    policies: tuple[Policy, ...]

    def __post_init__(self) -> None:
        """Refuse what cannot be read together."""
        if self.store is None and any(map(_is_store, self.places)):
            raise InvalidInputError("a store is read by itself; give its address alone, or files and folders")
        for place in self.addresses:
            scheme = place.partition("://")[0]
            if scheme.lower() not in _ADDRESSES:
                raise InvalidInputError(
                    f"addresses that begin with {scheme[:40]!r} are not read; give files, folders, postgresql:// or sqlite:///"
                )
            refuse_secrets(place)
        if self.store is None and not self.policies:
            raise InvalidInputError("files of reports need the policies they were made under; give --policy")

    @property
    def store(self) -> str | None:
        """The address of the store, if it is one."""
        return self.places[0] if len(self.places) == 1 and _is_store(self.places[0]) else None

    @property
    def addresses(self) -> list[str]:
        """The places of files that are addresses, which Arrow reads on a cluster."""
        return [place for place in self.places if "://" in place and not _is_store(place)]

    def reports(self) -> int:
        """Return about how many reports there are."""
        if self.store is not None:
            with _store(self.store) as store:
                return store.count("reports")
        return sum(count_rows(file) for place in self.places for file in files_of(place))


def _is_store(place: str) -> bool:
    return place.lower().startswith(_STORES)


@contextmanager
def opened_engine(
    name: str, sources: Sources, options: Options, threads: int | None, settings: Mapping[str, str]
) -> Iterator[Engine]:
    """Offer the engine of that name with the reports laid out; `auto` says what it chose."""
    _check_engine(name, options, threads, settings)
    chosen = _chosen(sources, options, threads, settings) if name == AUTO else name
    if chosen == SPARK:
        with _on_spark(sources, settings) as engine:
            yield engine
        return
    if sources.addresses:
        scheme = sources.addresses[0].partition("://")[0]
        raise InvalidInputError(
            f"files at addresses ({scheme[:40]}://) are read by the engine spark; add --engine spark"
        )
    matrix = _matrix(sources)
    on_gpu = _on_gpu(matrix, options, by_choice=name != AUTO) if chosen == GPU else None
    yield on_gpu or LocalEngine(matrix, default_threads() if threads is None else checked_threads(threads))


def _check_engine(name: str, options: Options, threads: int | None, settings: Mapping[str, str]) -> None:
    if name not in ENGINES:
        raise InvalidInputError(f"engine {name[:40]!r} is unknown; choose one of {', '.join(ENGINES)}")
    if name in (SPARK, GPU) and options.model not in _ELSEWHERE:
        raise InvalidInputError(f"the engine {name} fits {', '.join(_ELSEWHERE)}; for {options.model} use local")
    if settings and name not in (SPARK, AUTO):
        raise InvalidInputError(f"--spark settings are of no use to the engine {name}; add --engine spark")
    if threads is not None and name == SPARK:
        raise InvalidInputError("--threads is of no use to the engine spark; set --spark spark.task.cpus=N instead")
    if threads is not None and name == GPU:
        raise InvalidInputError("--threads is of no use to the engine gpu; leave it out")


def _chosen(sources: Sources, options: Options, threads: int | None, settings: Mapping[str, str]) -> str:
    """Choose an engine, and say which one, why, and what it makes nothing of."""
    chosen, why = _automatic(sources, options)
    useless = ["--threads"] * (threads is not None and chosen != LOCAL) + ["--spark"] * (
        bool(settings) and chosen != SPARK
    )
    note(f"engine {chosen}: {why}" + "".join(f"; {name} is of no use to it" for name in useless))
    return chosen


def _automatic(sources: Sources, options: Options) -> tuple[str, str]:
    """Choose an engine: a GPU if there is one, a cluster for what does not fit into memory, else this machine."""
    if sources.addresses:
        return SPARK, "addresses of files are read there"
    if options.model not in _ELSEWHERE:
        return LOCAL, f"{options.model} has no other"
    needed, there = _BYTES_A_REPORT * sources.reports(), available_memory()
    if needed > there:
        why = f"reports take about {needed / 1e9:.0f} GB, and {there / 1e9:.0f} GB of memory are to be had"
        if importlib.util.find_spec("pyspark") is not None:
            return SPARK, why
        return LOCAL, f"{why}, but Spark is not installed"
    from tacit.learning.gpu import gpu_found  # noqa: PLC0415 - as above

    found, said = gpu_found()
    return GPU if found else LOCAL, said


def _on_gpu(matrix: ReportMatrix, options: Options, *, by_choice: bool) -> Engine | None:
    """Return the GPU engine; None where nobody chose it and the fit does not go there, which is said."""
    from tacit.learning.gpu import gpu_engine  # noqa: PLC0415 - slow, and only for those who ask

    try:
        engine = gpu_engine(matrix)
        if not by_choice:
            engine.prepare(options)
    except EngineError as error:
        if by_choice:
            raise
        note(f"engine local after all: {error}")
        return None
    return engine


def _matrix(sources: Sources) -> ReportMatrix:
    if sources.store is None:
        return read_reports(sources.places, sources.policies)
    with _store(sources.store) as store:
        parts = store.latest_reports()
    if not parts:
        raise ReportError(_SILENT)
    given = {policy.id for policy in sources.policies or [part[3] for part in parts]}
    for *_, policy in parts:
        if policy.id not in given:
            shown = policy.id[:_SHOWN_ID]
            raise ReportError(f"the store has reports of policy {shown!r}, which was not given; give it too, or none")
    return ReportMatrix.of_parts(parts)


@contextmanager
def _on_spark(sources: Sources, settings: Mapping[str, str]) -> Iterator[Engine]:
    from tacit.learning.spark import spark_engine, spark_session  # noqa: PLC0415 - slow, and only for those who ask

    if _SUBMITTED in os.environ and sources.store is not None and _PASSWORD.search(sources.store):
        msg = "spark-submit writes its command line into Spark's event log, and the address has a password in it"
        raise InvalidInputError(f"{msg}; leave it out, and let a password file have it (~/.pgpass, on all machines)")
    session = spark_session(settings)
    if sources.store is not None:
        with _stored(sources.store, sources.policies, session) as engine:
            yield engine
        return
    engine = spark_engine(session, sources.places, sources.policies)
    try:
        yield engine
    finally:
        engine.close()


@contextmanager
def _stored(address: str, policies: Sequence[Policy], session: Any) -> Iterator[Engine]:  # noqa: ANN401 - Spark's
    """Let the cluster read a store; its state stays readable until the end, for what a lost executor had."""
    from tacit.learning.spark import spark_engine_of_parts  # noqa: PLC0415 - as above

    with _store(address) as store:
        known = policies or tuple(store.policies().values())
    from tacit.provider.store.ranges import StoredPart, device_ranges  # noqa: PLC0415 - as above

    with device_ranges(address, _PARTS_A_CORE * session.sparkContext.defaultParallelism) as ranges:
        if not ranges:
            raise ReportError(_SILENT)
        engine = spark_engine_of_parts(session, [StoredPart(address, wanted) for wanted in ranges], known)
        try:
            yield engine
        finally:
            engine.close()


@contextmanager
def _store(address: str) -> Iterator[ReportStore]:
    try:
        from tacit.provider.store import ReportStore  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise MissingExtraError("reading a store needs the serve extra; install tacit[serve]") from error
    file = re.match(r"sqlite(?:\+\w+)?:///(.+)", address)
    if file and not Path(file[1]).exists():  # opening would make one
        raise FileError(f"there is no database {file[1][:200]}; check the address")
    store = ReportStore.open(address)
    try:
        yield store
    finally:
        store.close()
