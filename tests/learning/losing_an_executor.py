"""Sweeps on two executors, one of which is killed in the middle: a program, for it needs a Spark of its own."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.learning.factors import Ridge, random_pair
from tacit.learning.mixture import NoiseMixture
from tacit.learning.spark import joined
from tacit.learning.spark.engine import SparkEngine
from tacit.learning.spark.joined import JoinedPlan
from tacit.learning.spark.layout import lay_out
from tacit.learning.spark.session import spark_session
from tacit.learning.spark.sources import parts_of_files
from tacit.privacy.policy import Policy

if TYPE_CHECKING:
    from tacit.learning.engine import Sweeper

ITERATIONS, LOST_IN, WRITTEN_EVERY = 3, 2, 2  # when it is lost, what came before is written down, and was forgotten
MEANWHILE = 0.3  # seconds, for tasks to get to all executors
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # it runs for seconds
SETTINGS = {
    "spark.driver.extraJavaOptions": QUICK_JAVA,
    "spark.executor.extraJavaOptions": QUICK_JAVA,
    "spark.master": "local-cluster[2,1,1024]",
    "spark.driver.memory": "1g",
    "spark.shuffle.io.maxRetries": "1",  # who is dead will not answer later
    "spark.shuffle.io.retryWait": "100ms",
}
MIXTURE = NoiseMixture(np.array([0.7, 0.3]), np.array([0.5, 4.0]))


def descendants_of(process: int) -> list[int]:
    """The processes that a process started, and those that these did."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # those that have ended meanwhile
            # The name of a program is in parentheses and may have any character; what follows has none of these.
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    found = {process}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found - {process})


def command_of(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:  # it has ended
        return b""


def executors() -> list[int]:
    """The processes of executors; they are Java's, which is ours."""
    return [one for one in descendants_of(os.getpid()) if b"CoarseGrainedExecutorBackend" in command_of(one)]


def told(processes: list[int], what: signal.Signals) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, what)


def kill_in_the_middle(context: Any, processes: list[int]) -> None:
    """Wait until tasks run, and end processes without a word."""
    tracker = context.statusTracker()
    while not any(stage.numActiveTasks for stage in map(tracker.getStageInfo, tracker.getActiveStageIds()) if stage):
        time.sleep(0.001)
    time.sleep(MEANWHILE)
    told(processes, signal.SIGKILL)


def swept(sweeper: Sweeper, context: Any) -> int:
    """Sweep several times; return how many executors were lost meanwhile."""
    before = set(executors())
    for iteration in range(ITERATIONS):
        if iteration == LOST_IN:
            victim = executors()[0]
            processes = [victim, *descendants_of(victim)]
            told(processes, signal.SIGSTOP)  # so that it cannot be done before it is lost
            threading.Thread(target=kill_in_the_middle, args=[context, processes], daemon=True).start()
        sweeper.users(MIXTURE)
        sweeper.items(MIXTURE)
    return len(before - set(executors()))


def main(reports: str, policy: str, found: str) -> None:
    """Sweep over a file of reports by both plans; write the factors, and say how many executors were lost."""
    joined.CHECKPOINT_EVERY = WRITTEN_EVERY
    session = spark_session(SETTINGS)
    context = session.sparkContext
    layout = lay_out(
        context, parts_of_files([reports]), [Policy.from_json(Path(policy).read_text())], chunk_reports=400
    )
    engine, lost, factors = SparkEngine(layout), {}, {}
    for name, plan in (("broadcast", engine), ("joined", JoinedPlan(layout, 1))):
        pair = random_pair(engine.summary, 5, offsets=False, rng=np.random.default_rng(3))
        sweeper = plan.sweeper(pair, 0.0, Ridge(0.8))
        lost[name] = swept(sweeper, context)
        home = sweeper.factors.home()
        factors |= {f"{name}_users": home.users, f"{name}_items": home.items}
    np.savez(found, **factors)
    sys.stdout.write(json.dumps(lost) + "\n")
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
