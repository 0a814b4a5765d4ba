"""Where a fit computes: choosing the engine, and getting the reports to it."""

from __future__ import annotations

import importlib.util
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tacit.cli.options import note
from tacit.cli.sources import SILENT, opened_store, read_matrix, refuse_password
from tacit.errors import EngineError, InvalidInputError, ReportError
from tacit.learning.kernels import checked_threads, default_threads
from tacit.learning.local_engine import LocalEngine
from tacit.learning.memory import available_memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tacit.cli.sources import Sources
    from tacit.learning import ReportMatrix
    from tacit.learning.engine import Engine
    from tacit.learning.options import Options
    from tacit.privacy.policy import Policy

LOCAL, SPARK, GPU, AUTO = "local", "spark", "gpu", "auto"
ENGINES = (LOCAL, SPARK, GPU, AUTO)

_ELSEWHERE = ("mog-mf", "channel-mf", "mf-als")
_BYTES_A_REPORT = 40  # while reports are read and sorted; what they take afterwards is less
_PARTS_A_CORE = 4
_REPORTS_A_PART = 1 << 22  # of a store, at most: a part lies in one worker's memory


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
    if name == GPU:
        _check_gpu()
    matrix = read_matrix(sources)
    on_gpu = _on_gpu(matrix, options, by_choice=name != AUTO) if chosen == GPU else None
    yield on_gpu or LocalEngine(matrix, default_threads() if threads is None else checked_threads(threads))


def _check_engine(name: str, options: Options, threads: int | None, settings: Mapping[str, str]) -> None:
    if name not in ENGINES:
        raise InvalidInputError(f"engine {name[:40]!r} is unknown; choose one of {', '.join(ENGINES)}")
    if name in (SPARK, GPU):
        _check_model(name, options)
    if settings and name not in (SPARK, AUTO):
        raise InvalidInputError(f"--spark settings are of no use to the engine {name}; add --engine spark")
    if threads is not None and name == SPARK:
        raise InvalidInputError("--threads is of no use to the engine spark; set --spark spark.task.cpus=N instead")
    if threads is not None and name == GPU:
        raise InvalidInputError("--threads is of no use to the engine gpu; leave it out")


def _check_model(name: str, options: Options) -> None:
    if name == SPARK and _needs_all(options):
        raise InvalidInputError("start=svd needs all reports on one machine; use start=random, or the engine local")
    if options.model not in _ELSEWHERE:
        msg = (
            f"the engine {name} fits {', '.join(_ELSEWHERE)}; for {options.model} use local, and files of this machine"
        )
        raise InvalidInputError(msg)


def _needs_all(options: Options) -> bool:
    """Tell whether a fit starts from all reports at once."""
    return getattr(options, "start", "random") == "svd"


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
        _check_model(SPARK, options)
        return SPARK, "addresses of files are read there"
    if options.model not in _ELSEWHERE:
        return LOCAL, f"{options.model} has no other"
    needed, there = _BYTES_A_REPORT * sources.reports(), available_memory()
    if needed > there:
        why = f"reports take about {needed / 1e9:.0f} GB, and {there / 1e9:.0f} GB of memory are to be had"
        if _needs_all(options):
            return LOCAL, f"{why}, but start=svd needs all of them on one machine"
        if importlib.util.find_spec("pyspark") is not None:
            return SPARK, why
        return LOCAL, f"{why}, but Spark is not installed"
    from tacit.learning.gpu import gpu_found  # noqa: PLC0415 - as above

    found, said = gpu_found()
    return GPU if found else LOCAL, said


def _check_gpu() -> None:
    from tacit.learning.gpu import check_gpu  # noqa: PLC0415 - slow, and only for those who ask

    check_gpu()


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


@contextmanager
def _on_spark(sources: Sources, settings: Mapping[str, str]) -> Iterator[Engine]:
    from tacit.learning.spark import spark_engine_of_parts, spark_session  # noqa: PLC0415 - slow, for those who ask
    from tacit.learning.spark.sources import parts_of_files  # noqa: PLC0415 - as above

    if sources.store is not None:
        refuse_password(sources.store)
        with _stored(sources.store, sources.policies, spark_session(settings)) as engine:
            yield engine
        return
    parts = parts_of_files(sources.places)  # what is not there is better said before Spark starts
    engine = spark_engine_of_parts(spark_session(settings), parts, sources.policies)
    try:
        yield engine
    finally:
        engine.close()


@contextmanager
def _stored(address: str, policies: Sequence[Policy], session: Any) -> Iterator[Engine]:  # noqa: ANN401 - Spark's
    """Let the cluster read a store; its state stays readable until the end, for what a lost executor had."""
    from tacit.learning.spark import spark_engine_of_parts  # noqa: PLC0415 - as above

    with opened_store(address):  # which refuses what is no store, and says what is missing here
        from tacit.provider.store import absolute_address  # noqa: PLC0415 - as above
        from tacit.provider.store.ranges import StoredPart, device_ranges  # noqa: PLC0415 - as above

    cores = session.sparkContext.defaultParallelism
    with device_ranges(address, _PARTS_A_CORE * cores, most=_REPORTS_A_PART) as ranges:
        if not ranges:
            raise ReportError(SILENT)
        with opened_store(address) as store:  # those of the state that is read are among them by now
            known = policies or tuple(store.policies().values())
        parts = [StoredPart(absolute_address(address), wanted) for wanted in ranges]
        engine = spark_engine_of_parts(session, parts, known)
        try:
            yield engine
        finally:
            engine.close()
