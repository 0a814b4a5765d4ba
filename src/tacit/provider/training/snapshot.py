"""The snapshot: the reports that a run trains on, kept until it ends so that it can be taken up again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import RunError
from tacit.tables import read_metadata, read_table, write_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from tacit.learning.reports import Part
    from tacit.privacy.policy import Policy

_KEY = "tacit.snapshot"  # the ids of the policies, in the order that the column counts them in


def write_snapshot(path: Path, parts: Sequence[Part]) -> None:
    """Write the reports of all parts, each with the number of its part's policy."""
    users, items, symbols, policies = zip(*parts, strict=True)
    columns = {
        "user": np.concatenate(users).astype(np.int64),
        "item": np.concatenate(items),
        "symbol": np.concatenate(symbols).astype(np.int16),
        "policy": np.repeat(np.arange(len(parts)), [len(part) for part in users]).astype(np.int16),
    }
    write_columns(path, columns, {_KEY: json.dumps([policy.id for policy in policies])})


def read_snapshot(path: Path, policies: Iterable[Policy]) -> list[Part]:
    """Read the parts again, in their order."""
    known = {policy.id: policy for policy in policies}
    listed = json.loads(read_metadata(path, _KEY) or "[]")
    if not listed or not known.keys() >= set(listed):
        raise RunError(f"{path} names policies that the store does not have; start another run")
    columns = read_table(path, ["user", "item", "symbol", "policy"], repetitive=["item"])
    policy_of = columns.pop("policy").whole_numbers()
    users, symbols = columns.pop("user").whole_numbers(), columns.pop("symbol").whole_numbers()
    items = columns.pop("item").ids()
    parts: list[Part] = []
    for number, name in enumerate(listed):
        rows = np.flatnonzero(policy_of == number)
        parts.append((users[rows], items.take(rows).decoded(), symbols[rows], known[name]))
    return parts
