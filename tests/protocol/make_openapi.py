"""Writes protocol/openapi.json: run `python tests/protocol/make_openapi.py` after a change to an address."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from tacit.provider.service import AdminToken, create_app
from tacit.provider.store import ReportStore
from tacit.provider.store.runs import RunStore
from tacit.provider.training import Trainer

DOCUMENT = Path(__file__).parents[2] / "protocol" / "openapi.json"


def described() -> dict[str, Any]:
    """Ask a service with nothing in it what it offers."""
    with tempfile.TemporaryDirectory() as folder:
        store = ReportStore.open(f"sqlite:///{folder}/tacit.db")
        trainer = Trainer(store, RunStore(store.database), Path(folder) / "models")
        with TestClient(create_app(store, trainer, AdminToken.of("nobody-asks-for-it"))) as client:
            document: dict[str, Any] = client.get("/openapi.json").raise_for_status().json()
        store.close()
    return document


def written(document: dict[str, Any]) -> str:
    """Write it so that two versions can be compared line by line."""
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(written(described()), encoding="utf-8")
