"""Many devices with batches that are all different, and the check that each is stored whole, once, or not at all."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from sqlalchemy import select

from tacit.provider.store import Item, schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.provider.store import ReportStore

    Numbers = TypeVar("Numbers", int, NDArray[np.int64])

ITEMS = 5000
REPORTS_PER_BATCH = 10
BATCHES_PER_DEVICE = 5

# So many devices send in turn: the next batch of the same one comes so many requests later.
_DEVICES_AT_ONCE = 1000
_STEP = 37  # from the first item of one device to the first of the next


@dataclass(frozen=True, slots=True)
class Check:
    """What the database holds of what was sent."""

    acknowledged: int
    lost: int
    """Batches that were acknowledged and are not there whole."""
    partial: int
    """Batches of which a part is there."""
    unasked: int
    """Batches that are there and were not acknowledged, which may happen when a server is killed."""
    foreign: int
    """Reports that nobody sent."""


def items() -> list[Item]:
    """Return the items that are reported on."""
    return [Item(str(number), f"Title {number}") for number in range(ITEMS)]


def token(device: int) -> str:
    """Return a device's token; real ones are drawn, these are counted."""
    return f"{device:032x}"


def device_and_batch(number: int) -> tuple[int, int]:
    """Say which batch of which device a request carries."""
    block, at = divmod(number, _DEVICES_AT_ONCE * BATCHES_PER_DEVICE)
    return block * _DEVICES_AT_ONCE + at % _DEVICES_AT_ONCE, at // _DEVICES_AT_ONCE


def request(number: int, policy: str) -> bytes:
    """Return a whole HTTP request with one batch."""
    device, batch = device_and_batch(number)
    first = device * _STEP + batch * REPORTS_PER_BATCH
    rows = ",".join(
        f'{{"item":"{at % ITEMS}","symbol":{_symbol(device, at % ITEMS)},"revision":0}}'
        for at in range(first, first + REPORTS_PER_BATCH)
    )
    body = f'{{"format":"tacit-reports/1","policy":"{policy}","reports":[{rows}]}}'
    return (
        f"POST /v1/reports HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token(device)}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    ).encode()


def check(store: ReportStore, acknowledged: NDArray[np.bool_]) -> Check:
    """Compare the database with which of the requests, in their order, were acknowledged."""
    batches = np.array([device_and_batch(number) for number in range(len(acknowledged))]).reshape(-1, 2)
    count = int(batches[:, 0].max(initial=0)) + 1
    devices, listed, symbols = _stored(store, count)
    places = (listed - devices * _STEP) % ITEMS
    ours = (devices >= 0) & (places < BATCHES_PER_DEVICE * REPORTS_PER_BATCH) & (symbols == _symbol(devices, listed))
    found = np.zeros((count, BATCHES_PER_DEVICE), dtype=np.int64)
    np.add.at(found, (devices[ours], places[ours] // REPORTS_PER_BATCH), 1)
    held = found[batches[:, 0], batches[:, 1]]
    whole = held == REPORTS_PER_BATCH
    return Check(
        acknowledged=int(acknowledged.sum()),
        lost=int((acknowledged & ~whole).sum()),
        partial=int(((held > 0) & ~whole).sum()),
        unasked=int((whole & ~acknowledged).sum()),
        foreign=int(len(devices) - held.sum()),
    )


def _stored(store: ReportStore, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the device, item and symbol of every report, in the numbers of this module; the table has each once."""
    reports = schema.reports
    numbers = {hashlib.sha256(token(device).encode()).digest(): device for device in range(count)}
    wanted = select(reports.c.device, reports.c.item, reports.c.symbol, reports.c.revision)
    with store.database.reading() as connection:
        rows = np.array([tuple(row) for row in connection.execute(wanted)], dtype=np.int64).reshape(-1, 4)
        by_key = {key: numbers.get(bytes(hashed), -1) for key, hashed in connection.execute(select(schema.devices))}
        names = {key: int(name) for key, name, _ in connection.execute(select(schema.items))}
    devices = np.array([by_key[key] for key in rows[:, 0].tolist()], dtype=np.int64)
    devices[rows[:, 3] != 0] = -1
    return devices, np.array([names[key] for key in rows[:, 1].tolist()], dtype=np.int64), rows[:, 2]


def _symbol(device: Numbers, item: Numbers) -> Numbers:
    return (device + item) % 5
