"""JSON without ambiguity: one way to write a document, and no two ways to read one."""

from __future__ import annotations

import json
from typing import Any


def canonical_json(document: object) -> bytes:
    """Write JSON as RFC 8785 does, for documents that hold no numbers."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode()


def read_json(document: str | bytes) -> Any:  # noqa: ANN401 - whatever the document holds
    """Read JSON in UTF-8 whose objects name no field twice; anything else is a ValueError."""
    try:
        text = document if isinstance(document, str) else document.decode("utf-8")
        return json.loads(text, object_pairs_hook=_unique_fields)
    except UnicodeDecodeError as error:
        raise ValueError("it is not UTF-8 text") from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except json.JSONDecodeError as error:
        raise ValueError("it is not a complete JSON document") from error


def _unique_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("it names a field twice")
    return fields
