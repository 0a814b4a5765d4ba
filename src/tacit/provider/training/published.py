"""The published model: what the service answers from until the next one is there."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tacit.learning import ItemModel, Model
from tacit.learning.model_files import ITEMS, KIND
from tacit.privacy.array_folders import read_fields
from tacit.privacy.documents import scale_document
from tacit.privacy.item_wire import encode_items

if TYPE_CHECKING:
    from pathlib import Path

    from tacit.provider.store.runs import Run


@dataclass(frozen=True, eq=False, slots=True)
class PublishedModel:
    """A model, its public part as devices fetch it, and what is said about both."""

    run: int
    """The number of the run it came from."""
    model: Model
    items: bytes
    """The item model on the wire."""
    items_gzip: bytes
    """The same, compressed."""
    items_etag: str
    """The SHA-256 of the item model on the wire, in hexadecimal digits."""
    document: dict[str, Any]
    """What is said about it."""

    @classmethod
    def load(cls, folder: Path, run: Run) -> PublishedModel:
        """Read the folder of a run's model, or refuse one that is damaged."""
        model = Model.load(folder)
        public = ItemModel.load(folder / ITEMS)
        items = encode_items(public)
        document = {
            "run": run.id,
            "model": model.name,
            "scale": scale_document(model.scale),
            "policies": list(model.provenance.policies),
            "items": len(model.items),
            "published_items": len(public.items),
            "reports": model.reports,
            "least_reports": read_fields(folder, KIND).count("least_reports"),
            "quality": run.quality,
            "bytes": len(items),
        }
        digest = hashlib.sha256(items).hexdigest()
        return cls(run.id, model, items, gzip.compress(items, mtime=0), digest, document)
