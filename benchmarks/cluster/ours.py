"""tacit's drivers on an engine, as `--variant` says: local, broadcast or joined; from files of reports to a trace."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cluster import worlds
from cluster.meters import Meter, probes
from cluster.model import distinct_rows
from peers.measure import cpu_seconds, say
from peers.spark_als import DRIVER_MEMORY
from tacit.learning import MogMfOptions, read_reports
from tacit.learning.local_engine import LocalEngine
from tacit.learning.loop import Conduct
from tacit.learning.mog_mf import fit_mog_mf
from tacit.learning.spark.engine import LARGEST_BROADCAST, SparkEngine
from tacit.learning.spark.layout import lay_out
from tacit.learning.spark.session import spark_session
from tacit.learning.spark.sources import parts_of_files

if TYPE_CHECKING:
    from collections.abc import Callable

    from tacit.learning.engine import Engine
    from tacit.learning.spark.chunks import Chunk
    from tacit.learning.spark.layout import Layout
    from tacit.learning.trace import Iteration

COMPONENTS = 4
RIDGE = 0.1
METERED = 4  # iterations: a whole round of the joined plan, which writes factors down in one of so many


@dataclass(frozen=True, slots=True)
class Job:
    """What a driver is asked to do."""

    data: Path
    rank: int
    threads: int
    warming: int
    iterations: int
    chunk_reports: int
    variant: str

    @classmethod
    def from_command_line(cls) -> Job:
        """Read the arguments a driver is started with."""
        parser = argparse.ArgumentParser()
        parser.add_argument("--data", type=Path, required=True, help="folder of the world")
        for name in ("rank", "threads", "warming", "iterations", "chunk-reports"):
            parser.add_argument(f"--{name}", type=int, required=True)
        parser.add_argument("--variant", choices=("local", "broadcast", "joined"), required=True)
        return cls(**vars(parser.parse_args()))


def fitted(engine: Engine, rank: int, iterations: int, watch: Callable[[Iteration], None]) -> list[float]:
    """Train and return the likelihoods."""
    options = MogMfOptions(rank=rank, components=COMPONENTS, regularisation=RIDGE, iterations=iterations, tolerance=0.0)
    _, trace = fit_mog_mf(engine, options, np.random.default_rng(0), Conduct(watch))
    return [float(one.likelihood or 0.0) for one in trace.iterations]


def timed(engine: Engine, job: Job) -> dict[str, Any]:
    """Time the iterations after those that warm up, one by one; the mean is what a long fit pays for each."""
    marks: list[tuple[float, float]] = []
    watch = lambda _: marks.append((time.perf_counter(), cpu_seconds()))  # noqa: E731 - as short as it can be
    likelihoods = fitted(engine, job.rank, job.warming + job.iterations, watch)
    wall, cpu = np.diff(np.array(marks[job.warming - 1 :]), axis=0).T
    return {
        "seconds": round(float(wall.mean()), 4),
        "median_seconds": round(float(np.median(wall)), 4),
        "cpu_seconds": round(float(cpu.mean()), 4),
        "likelihoods": likelihoods,
    }


def on_this_machine(job: Job) -> dict[str, Any]:
    """Measure the local engine."""
    start = time.perf_counter()
    matrix = read_reports(job.data / "reports", [worlds.policy()])
    ingest = time.perf_counter() - start
    return {"ingest_seconds": round(ingest, 2), "shape": matrix.shape, **timed(LocalEngine(matrix, job.threads), job)}


def on_spark(job: Job) -> dict[str, Any]:
    """Measure the Spark engine with one of its plans."""
    settings = {"spark.master": f"local[{job.threads}]", "spark.driver.memory": DRIVER_MEMORY}
    session = spark_session(settings | {"spark.local.dir": str(job.data)})
    start = time.perf_counter()
    parts = parts_of_files([job.data / "reports"])
    layout = lay_out(session.sparkContext, parts, [worlds.policy()], chunk_reports=job.chunk_reports)
    ingest = time.perf_counter() - start
    engine = SparkEngine(layout, 0 if job.variant == "joined" else LARGEST_BROADCAST)
    figures = timed(engine, job) | {"bytes": _metered(engine, job)}
    if job.variant == "joined":
        figures["needed"] = needed(layout)
    else:
        figures["probes"] = probes(session.sparkContext, layout, job.rank)
    chunks = [len(layout.by_user), len(layout.by_item)]
    return {"ingest_seconds": round(ingest, 2), "chunks": chunks, **figures, "engine": engine.versions()}


def _metered(engine: SparkEngine, job: Job) -> dict[str, float]:
    """Count what an iteration sends, in a fit that is not timed."""
    meter, marks = Meter(engine.layout.context), []
    fitted(engine, job.rank, 1 + METERED, lambda _: marks.append(meter.read()))
    return {name: (marks[-1][name] - marks[0][name]) / METERED for name in marks[0]}


def needed(layout: Layout) -> dict[str, dict[str, int]]:
    """Count the rows that chunks of each side need of the other, and foresee them from popularity alone."""
    found = {}
    sides = {"users": (layout.by_user, layout.items.counts), "items": (layout.by_item, layout.users.counts)}
    for name, (side, popularity) in sides.items():
        counted = side.each(_needed)
        foreseen = [distinct_rows(reports, popularity / popularity.sum()) for _, reports in counted]
        found[name] = {"rows": sum(rows for rows, _ in counted), "foreseen": round(sum(foreseen))}
    return found


def _needed(chunk: Chunk) -> tuple[int, int]:
    return len(np.unique(chunk.rows.columns)), len(chunk.rows.columns)


def main() -> None:
    """Measure in this process and print one line of JSON."""
    job = Job.from_command_line()
    start = time.perf_counter()
    figures = on_this_machine(job) if job.variant == "local" else on_spark(job)
    library = "tacit" if job.variant == "local" else "pyspark"
    say(library, **figures, total_seconds=round(time.perf_counter() - start, 1))


if __name__ == "__main__":
    main()
