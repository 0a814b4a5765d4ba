"""What the operator sees: sums over everybody, never one device."""

from __future__ import annotations

import time
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tacit.privacy.exact import decimal_text
from tacit.provider.store.writing import ACCEPTED, DELETED, DUPLICATE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from decimal import Decimal

    from tacit.provider.service.state import Service

_HOURS_SHOWN = 168
_SECONDS_PER_HOUR = 3600
_FRESH_SECONDS = 5.0
_FRESH_SECONDS_OF_SUMS = 60.0
_BINS = 20
_RUNS_SHOWN = 20

_NOT_REJECTED = {ACCEPTED, DUPLICATE, DELETED}

# What a training process takes before it has read a report, and for each: benchmarks/results/sizing.json.
_BYTES_TO_BEGIN = 210e6
_BYTES_PER_REPORT = 80
_MUCH_OF_SQLITE = 20_000_000


def stats_of(service: Service) -> dict[str, Any]:
    """Return the whole document; what reads every report is found at most once a minute."""
    return service.kept("stats", _FRESH_SECONDS, lambda: _made(service))


def _made(service: Service) -> dict[str, Any]:
    store = service.store
    sums = service.kept("sums", _FRESH_SECONDS_OF_SUMS, lambda: (store.reports_by_policy(), store.epsilon_spent()))
    by_policy, epsilon = sums
    since = int(time.time()) // _SECONDS_PER_HOUR - _HOURS_SHOWN + 1
    tallies = store.tallies(since=since)
    counts = {name: store.count(name) for name in ("reports", "devices", "items")}
    return {
        **counts,
        "policies": [
            {
                "id": policy.id,
                "mechanism": policy.mechanism,
                "epsilon": decimal_text(policy.epsilon),
                "reports": by_policy.get(policy.id, 0),
            }
            for _, policy in service.policies().values()
        ],
        "hours": _hours(tallies),
        "rejections": _rejections(tallies),
        "epsilon": _histogram(epsilon),
        "runs": [run.to_document() for run in service.runs.newest(_RUNS_SHOWN)],
        "sizing": _sizing(service, counts),
    }


def _hours(tallies: list[tuple[int, str, int]]) -> list[dict[str, Any]]:
    by_hour: dict[int, Counter[str]] = {}
    for hour, code, count in tallies:
        if code == DELETED:
            continue
        name = {ACCEPTED: "accepted", DUPLICATE: "duplicates"}.get(code, "rejected")
        by_hour.setdefault(hour, Counter())[name] += count
    return [
        {"hour": _hour_text(hour), **{name: sums[name] for name in ("accepted", "duplicates", "rejected")}}
        for hour, sums in sorted(by_hour.items())
    ]


def _hour_text(hour: int) -> str:
    return datetime.fromtimestamp(hour * _SECONDS_PER_HOUR, UTC).strftime("%Y-%m-%dT%H:00Z")


def _rejections(tallies: list[tuple[int, str, int]]) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for _, code, count in tallies:
        if code not in _NOT_REJECTED:
            sums[code] += count
    return dict(sorted(sums.items()))


def _histogram(devices_by_epsilon: Mapping[Decimal, int]) -> list[dict[str, Any]]:
    """Put devices into bins of equal width by what they spent."""
    if not devices_by_epsilon:
        return []
    width = max(devices_by_epsilon) / _BINS
    bins = [0] * _BINS
    for spent, count in devices_by_epsilon.items():
        bins[min(int(spent / width), _BINS - 1)] += count
    return [
        {"from": decimal_text(width * at), "to": decimal_text(width * (at + 1)), "devices": count}
        for at, count in enumerate(bins)
    ]


def _sizing(service: Service, counts: Mapping[str, int]) -> dict[str, Any]:
    size, published = service.store.size(), service.trainer.published
    memory = _memory_to_train(service, counts["reports"])
    return {
        "database_bytes": size,
        "bytes_per_report": size / counts["reports"] if counts["reports"] else None,
        "model_bytes": 0 if published is None else len(published.items_gzip),
        "training_memory_bytes": memory,
        "advice": _advice(service, counts, memory),
    }


def _memory_to_train(service: Service, reports: int) -> int:
    """Return what the last run took at its peak, or else an estimate."""
    measured = [run.memory for run in service.runs.succeeded() if run.memory]
    return int(measured[0] if measured else _BYTES_TO_BEGIN + _BYTES_PER_REPORT * reports)


def _advice(service: Service, counts: Mapping[str, int], memory: int) -> list[str]:
    advice = [f"training takes about {memory / 1e6:,.0f} MB beside the service"]
    if service.store.database.is_sqlite and counts["reports"] > _MUCH_OF_SQLITE:
        advice.append(f"{counts['reports']:,} reports are many for SQLite; move to PostgreSQL")
    if service.collector.waiting > service.collector.groups:
        advice.append("batches wait: the disk or the processor is too slow for what comes in")
    if counts["devices"] and counts["reports"] / counts["devices"] < 5:  # noqa: PLR2004 - fewer say little of a taste
        advice.append("devices sent fewer than 5 reports on average: recommendations will be little but popularity")
    return advice
