"""What an iteration costs on a cluster: a model of its parts, and what it foresees where nobody has measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from floor import Flops
from tacit.evaluation.world import WorldShape

if TYPE_CHECKING:
    from numpy.typing import NDArray

FLOAT = 4
REPORT = 5  # bytes in a chunk: a column's number and a symbol
_LINE = 16  # floats; rows of factors are a multiple of it where kernels read them
_JOBS = 2  # an iteration has one for each side; in the broadcast plan they are queries of a DataFrame
_PARTITIONS_PER_CORE = 2  # at most, in the broadcast plan
# In the joined plan a chunk is a task that sends and one that solves, on both sides, and one more in every fourth
# iteration, when it is written down.
_TASKS_A_CHUNK = 2.25


def distinct_rows(reports: float, chances: NDArray[np.float64]) -> float:
    """Return how many different rows so many reports name, on average, if each names row j with a chance of its own.

    A row is left out with the chance (1 - p)^n, which is nearly exp(-n p).
    """
    return float(-np.expm1(-reports * chances).sum())


def stride(rank: int) -> int:
    """Return how many floats a row takes where it is padded."""
    return -(-rank // _LINE) * _LINE


def broadcast_bytes(shape: WorldShape, rank: int) -> float:
    """Return the bytes that every worker is sent in an iteration: each side once."""
    return float(FLOAT * stride(rank) * (shape.people + shape.items))


@dataclass(frozen=True, slots=True)
class Popularity:
    """Mean numbers of reports in equally large groups of users and of items, in units of the mean of all."""

    users: list[float]
    items: list[float]

    def rows_needed(self, shape: WorldShape, chunk_reports: int) -> dict[str, float]:
        """Foresee how many rows all chunks of each side need of the other, each with so many reports."""
        chunks, found = max(1.0, shape.ratings / chunk_reports), {}
        for side, groups, rows in (("users", self.items, shape.items), ("items", self.users, shape.people)):
            share = rows / len(groups)  # rows in a group
            chances = np.array(groups) / rows
            each = share * -np.expm1(-min(chunk_reports, shape.ratings) * chances)
            found[side] = chunks * float(each.sum())
        return found

    def shuffled_bytes(self, shape: WorldShape, rank: int, chunk_reports: int) -> float:
        """Foresee what chunks send each other in an iteration; rows travel without padding."""
        return FLOAT * rank * sum(self.rows_needed(shape, chunk_reports).values())


@dataclass(frozen=True, slots=True)
class Rates:
    """What things take on one core, or all together where it says so, as measured."""

    arithmetic: float  # seconds an operation of the normal equations and their solution
    reading: float  # seconds a byte of reports from the block store into Python
    sending: float  # seconds a byte of factors to all workers of a machine, and back; whole machine
    exchange: float  # seconds a byte of rows from chunk to chunk, but for the network
    job: float  # seconds, on the driver, beside those of its tasks
    query: float  # likewise
    task: float  # seconds that a task has on top of its work
    dispatch: float  # seconds a task, on the driver

    @classmethod
    def of(cls, record: dict[str, Any], world: dict[str, Any]) -> Rates:
        """Read them off the measurements of one world."""
        found, shape = world["engines"], shape_of(world)
        probes = found["broadcast"]["probes"]
        task = max(0.0, probes["task_seconds"])
        job, query = (max(0.0, probes[name] - task) for name in ("job_seconds", "query_seconds"))
        busy = _busy(record, world)
        reading = max(0.0, probes["reading_seconds"] - _JOBS * query - probes["reading_tasks"] * task / busy)
        rates = cls(
            arithmetic=record["threads"] * found["local"]["seconds"] / Flops.of(shape, record["rank"]).total(),
            reading=busy * reading / (2 * REPORT * shape.ratings),
            sending=max(0.0, probes["sending_seconds"] - _JOBS * (job + task)) / broadcast_bytes(shape, record["rank"]),
            exchange=0.0,
            job=job,
            query=query,
            task=task,
            dispatch=max(0.0, probes["dispatch_seconds"]),
        )
        rest = found["joined"]["seconds"] - sum(rates.joined(record, world).values())
        return cls(**{**rates.record(), "exchange": max(0.0, rest) * busy / found["joined"]["bytes"]["shuffled"]})

    def record(self) -> dict[str, float]:
        """Return them by name."""
        return {name: getattr(self, name) for name in self.__slots__}

    def broadcast(self, record: dict[str, Any], world: dict[str, Any]) -> dict[str, float]:
        """Foresee the parts of an iteration of the broadcast plan in a world that was measured."""
        shape, tasks = shape_of(world), world["engines"]["broadcast"]["bytes"]["tasks"]
        cores = _busy(record, world)
        return {
            "arithmetic": self.arithmetic * Flops.of(shape, record["rank"]).total() / cores,
            "reading": self.reading * 2 * REPORT * shape.ratings / cores,
            "sending": self.sending * broadcast_bytes(shape, record["rank"]),
            "scheduling": _JOBS * self.query + tasks * self.task / cores,
        }

    def joined(self, record: dict[str, Any], world: dict[str, Any]) -> dict[str, float]:
        """Foresee the parts of an iteration of the joined plan in a world that was measured."""
        sent, cores = world["engines"]["joined"]["bytes"], _busy(record, world)
        parts = self.broadcast(record, world)
        return {
            "arithmetic": parts["arithmetic"],
            "reading": parts["reading"],
            "exchange": self.exchange * sent["shuffled"] / cores,
            "scheduling": _JOBS * self.job + sent["tasks"] * self.task / cores,
        }


@dataclass(frozen=True, slots=True)
class Cluster:
    """So many equal machines."""

    name: str
    machines: int
    cores: int
    network: float  # bytes a second, of each machine

    def broadcast(self, rates: Rates, shape: WorldShape, rank: int, chunk_reports: int) -> dict[str, float]:
        """Foresee an iteration of the broadcast plan: every machine is sent all factors, and the driver gets them."""
        sent, chunks = broadcast_bytes(shape, rank), shape.ratings / chunk_reports
        return {
            **self._alike(rates, shape, rank),
            "workers": rates.sending * sent,
            "network": 2 * sent / self.network,
            "scheduling": self._scheduling(
                rates, rates.query, 2 * min(chunks, _PARTITIONS_PER_CORE * self.machines * self.cores)
            ),
        }

    def joined(self, rates: Rates, shape: WorldShape, rank: int, sent: float, chunk_reports: int) -> dict[str, float]:
        """Foresee an iteration of the joined plan: nearly all rows that are sent come from another machine."""
        elsewhere = 1 - 1 / self.machines
        return {
            **self._alike(rates, shape, rank),
            "workers": rates.exchange * sent / (self.machines * self.cores),
            "network": elsewhere * sent / (self.machines * self.network),
            "scheduling": self._scheduling(rates, rates.job, 2 * _TASKS_A_CHUNK * shape.ratings / chunk_reports),
        }

    def _scheduling(self, rates: Rates, job: float, tasks: float) -> float:
        """Tasks begin one after the other, and then have their own time each, side by side."""
        return _JOBS * job + tasks * (rates.dispatch + rates.task / (self.machines * self.cores))

    def _alike(self, rates: Rates, shape: WorldShape, rank: int) -> dict[str, float]:
        cores = self.machines * self.cores
        return {
            "arithmetic": rates.arithmetic * Flops.of(shape, rank).total() / cores,
            "reading": rates.reading * 2 * REPORT * shape.ratings / cores,
        }


def shape_of(world: dict[str, Any]) -> WorldShape:
    """Return the shape of a world that was measured."""
    return WorldShape(world["people"], world["items"], world["ratings"])


def _busy(record: dict[str, Any], world: dict[str, Any]) -> float:
    """Return how many cores have something to do: at most one a chunk."""
    return float(min(record["threads"], *world["engines"]["broadcast"]["chunks"]))
