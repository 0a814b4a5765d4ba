"""Sends batches over a number of connections, each waiting for its answer: `python -m load.generator ...`.

A process of its own, so that the server is not slowed down by who measures it. It prints one line of JSON and writes
which of the requests were acknowledged.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import resource
import time
from array import array
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import uvloop

from load import traffic

_HEAD_END = b"\r\n\r\n"
_LENGTH = b"content-length: "
_ALL_ACCEPTED = b'{"accepted":%d,' % traffic.REPORTS_PER_BATCH
_SECONDS_TO_FINISH = 30.0


@dataclass
class Run:
    """What is sent, until when, and what came back."""

    begin: float
    """What is asked after this counts."""
    end: float
    """What is answered before this counts; nothing is asked afterwards."""
    policy: str
    path: str | None = None
    """What to fetch instead of sending reports."""
    status: int = 200
    sent: int = 0
    open: int = 0
    errors: int = 0
    acknowledged: bytearray = field(default_factory=bytearray)
    seconds: array[float] = field(default_factory=lambda: array("d"))
    done: asyncio.Event = field(default_factory=asyncio.Event)

    def next_request(self) -> tuple[int, bytes]:
        """Return the next request and its number."""
        number = self.sent
        self.sent += 1
        self.acknowledged.append(0)
        if self.path is not None:
            return number, f"GET {self.path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
        return number, traffic.request(number, self.policy)

    def answered(self, number: int, began: float, head: bytes, body: bytes) -> None:
        """Take note of an answer."""
        is_good = int(head[9:12]) == self.status
        if is_good and self.path is None and self.status == 200:  # noqa: PLR2004 - OK
            is_good = body.startswith(_ALL_ACCEPTED)
            self.acknowledged[number] = is_good
        now = time.perf_counter()
        if not is_good:
            self.errors += 1
        elif began >= self.begin and now <= self.end:
            self.seconds.append(now - began)


class Connection(asyncio.Protocol):
    """One connection: a request, its answer, the next request."""

    def __init__(self, run: Run) -> None:
        """Take part in a run."""
        self._run = run
        self._heard = b""
        self._number, self._began = -1, 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = transport
        self._run.open += 1
        self._ask()

    def data_received(self, data: bytes) -> None:
        """Wait until an answer is complete, then ask again."""
        self._heard += data
        head, found, body = self._heard.partition(_HEAD_END)
        if not found or len(body) < _length(head):
            return
        self._heard = b""
        self._run.answered(self._number, self._began, head, body)
        if time.perf_counter() < self._run.end:
            self._ask()
        else:
            self._number = -1
            self._transport.close()

    def connection_lost(self, _: Exception | None) -> None:
        """Count a request that was never answered."""
        self._run.errors += self._number >= 0
        self._run.open -= 1
        if not self._run.open:
            self._run.done.set()

    def _ask(self) -> None:
        self._number, content = self._run.next_request()
        self._began = time.perf_counter()
        self._transport.write(content)  # type: ignore[attr-defined] # TCP


def _length(head: bytes) -> int:
    lower = head.lower()
    at = lower.index(_LENGTH) + len(_LENGTH)
    return int(lower[at:].partition(b"\r\n")[0])


async def send(run: Run, port: int, connections: int) -> None:
    """Keep a number of connections busy until the end."""
    loop = asyncio.get_running_loop()
    for _ in range(connections):
        await loop.create_connection(lambda: Connection(run), "127.0.0.1", port)
    await asyncio.wait_for(run.done.wait(), run.end - time.perf_counter() + _SECONDS_TO_FINISH)


def summary(run: Run, seconds: float) -> dict[str, float]:
    """Return the figures of a run."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    found = np.array(run.seconds) * 1000
    p50, p99 = np.percentile(found, [50, 99]) if len(found) else (np.nan, np.nan)
    return {
        "requests_per_second": round(len(found) / seconds, 1),
        "p50_ms": round(float(p50), 2),
        "p99_ms": round(float(p99), 2),
        "worst_ms": round(float(found.max(initial=0)), 1),
        "errors": run.errors,
        "generator_cores": round((used.ru_utime + used.ru_stime) / seconds, 2),
    }


def main() -> None:
    """Send, and say what came back."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--connections", type=int, required=True)
    parser.add_argument("--warm-up", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--policy", default="")
    parser.add_argument("--path")
    parser.add_argument("--status", type=int, default=200)
    parser.add_argument("--acknowledged", type=Path, required=True)
    chosen = parser.parse_args()
    gc.disable()  # nothing here is circular, and a pause would be measured as the server's
    begin = time.perf_counter() + chosen.warm_up
    run = Run(begin, begin + chosen.seconds, chosen.policy, chosen.path, chosen.status)
    uvloop.run(send(run, chosen.port, chosen.connections))
    np.save(chosen.acknowledged, np.frombuffer(bytes(run.acknowledged), dtype=np.bool_))
    print(json.dumps(summary(run, chosen.seconds)))


if __name__ == "__main__":
    main()
