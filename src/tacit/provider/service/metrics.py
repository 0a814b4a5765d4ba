"""What Prometheus can ask for; nothing in it names a device or an item."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# They would tell to the millisecond when something happened first, such as a device's deletion.
disable_created_metrics()  # type: ignore[no-untyped-call] # the library says nothing of its types

_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)


class Metrics:
    """The counters of one service."""

    def __init__(self) -> None:
        """Start from zero."""
        self.registry = registry = CollectorRegistry()
        by_route = ["method", "route", "status"]
        self.requests = Counter("tacit_requests", "Requests answered.", by_route, registry=registry)
        self.seconds = Histogram(
            "tacit_request_seconds", "Time to answer.", ["route"], buckets=_SECONDS, registry=registry
        )
        self.reports = Counter("tacit_reports", "Reports by what became of them.", ["outcome"], registry=registry)
        self.problems = Counter("tacit_problems", "Requests refused, by code.", ["code"], registry=registry)
        self.waiting = Gauge("tacit_batches_waiting", "Batches that wait to be stored.", registry=registry)
        self.groups = Gauge("tacit_groups_stored", "Groups of batches stored, a transaction each.", registry=registry)
        self.run = Gauge("tacit_published_run", "The run whose model is published; 0: none.", registry=registry)

    def text(self) -> bytes:
        """Write everything as Prometheus reads it."""
        return generate_latest(self.registry)
