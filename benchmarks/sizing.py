"""What a report takes: bytes in the SQLite file, and memory while the service trains, at two sizes.

Devices report on 100 items each, drawn by popularity. The difference between the two sizes is what each report takes,
its device's share included; the rest is what the programs take themselves.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np

from collect import OURS, Bench, write_items
from load import traffic
from load.servers import Server, peak_of_children, server
from peers.processes import RESULTS, machine
from tacit import RatingScale
from tacit.privacy.policy import Policy
from tacit.provider.store import Batch, ReportStore
from tacit.provider.store.writing import GroupWriter, Said

DEVICES = (2_500, 10_000)
REPORTS_PER_DEVICE = 100
SKEW = 0.7
_ADMIN = "an-operator-who-measures"
_GROUP = 100


def fill(address: str, devices: int) -> dict[str, Any]:
    """Store reports, and say what they take."""
    store, rng = ReportStore.open(address), np.random.default_rng(0)
    policy = Policy.make("bounded-laplace", RatingScale.parse("1:5:1"), "1")
    key, symbols = store.adopt(policy), policy.channel.weights.symbols
    store.put_items(traffic.items())
    empty, writer = store.size(), GroupWriter(store.database, REPORTS_PER_DEVICE)
    chances = np.arange(1, traffic.ITEMS + 1) ** -SKEW
    chances /= chances.sum()

    def batch(device: int) -> Batch:
        chosen = rng.choice(traffic.ITEMS, REPORTS_PER_DEVICE, replace=False, p=chances).tolist()
        drawn = rng.integers(0, symbols, REPORTS_PER_DEVICE).tolist()
        said = [Said(str(item), symbol, 0) for item, symbol in zip(chosen, drawn, strict=True)]
        return Batch(hashlib.sha256(traffic.token(device).encode()).digest(), key, symbols, said)

    for first in range(0, devices, _GROUP):
        writer.store([batch(device) for device in range(first, first + _GROUP)])
    reports, size = store.count("reports"), store.size()
    store.close()
    return {"reports": reports, "bytes_per_report": round((size - empty) / reports, 1)}


def train(running: Server) -> dict[str, Any]:
    """Train once, and return how long it took and the most memory its process held."""
    run, peak = _asked(running, "", {}), 0
    while run["state"] in {"queued", "running"}:
        peak = max(peak, peak_of_children(running.process.pid))
        time.sleep(0.05)
        run = _asked(running, f"/{run['id']}")
    if run["state"] != "succeeded":
        raise RuntimeError(f"the training failed: {run['error']}")
    return {"training_seconds": run["seconds"], "training_peak_bytes": peak, "service_rss_mib": running.rss_mib()}


def _asked(running: Server, path: str, document: object = None) -> dict[str, Any]:
    body = None if document is None else json.dumps(document).encode()
    headers = {"Authorization": f"Bearer {_ADMIN}", "Content-Type": "application/json"}
    address = f"http://127.0.0.1:{running.port}/v1/training-runs{path}"
    with urllib.request.urlopen(urllib.request.Request(address, body, headers), timeout=60) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def measure(devices: int) -> dict[str, Any]:
    """Fill a new database, and train on it."""
    with tempfile.TemporaryDirectory(prefix="tacit-sizing-") as name:
        folder = Path(name)
        write_items(folder / "items.csv")
        address = f"sqlite:///{folder / 'x.db'}"
        stored = fill(address, devices)
        os.environ["TACIT_ADMIN_TOKEN"] = _ADMIN
        with server(Bench(folder, 0, None).command(OURS, address, folder), folder / "log") as running:
            return {"devices": devices, **stored, **train(running)}


def main() -> None:
    """Measure, print and keep the figures."""
    rows = [measure(devices) for devices in DEVICES]
    small, large = rows
    more = large["reports"] - small["reports"]
    each = (large["training_peak_bytes"] - small["training_peak_bytes"]) / more
    for row in rows:
        print(row)
    print(f"{each:.0f} bytes of memory for each report while training")
    record = {"machine": machine(), "items": traffic.ITEMS, "sizes": rows, "training_bytes_per_report": round(each, 1)}
    (RESULTS / "sizing.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
