"""Reports as they come in: who said which symbol about what, every row checked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import InvalidInputError, ReportError
from tacit.privacy.report import POLICY_KEY
from tacit.privacy.vocabulary import as_ids
from tacit.tables import Column, Ids, column_of, columns_of, metadata_of, read_metadata, read_table, release_memory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import ArrayLike, NDArray

    from tacit.privacy.policy import Policy
    from tacit.privacy.scale import RatingScale
    from tacit.privacy.vocabulary import IdList

    RowPolicies = NDArray[np.int16] | int
    Part = tuple[IdList, IdList, ArrayLike, Policy]  # users, items and symbols of reports under one policy

# What errors call reports that come from no file.
LABEL = "reports"

MOST_CODES = 2**16

_COLUMNS = ("user", "item", "symbol")
_SHOWN_ID = 12
_BLOCK = 1 << 20


@dataclass(frozen=True, eq=False)
class Alphabet:
    """The symbols of one or more policies side by side: a code is its policy's offset plus the symbol."""

    policies: tuple[Policy, ...]

    @classmethod
    def of(cls, policies: Iterable[Policy]) -> Alphabet:
        """Join policies on one scale, in order of their ids so that it does not matter how they were listed."""
        known = {policy.id: policy for policy in policies}
        if not known:
            raise ReportError("no policy was given; give the policy the reports were made under")
        made = cls(tuple(known[name] for name in sorted(known)))
        for policy in made.policies:
            if policy.scale != made.scale:
                ids = f"{made.policies[0].id[:_SHOWN_ID]} and {policy.id[:_SHOWN_ID]}"
                scales = f"{made.scale} and {policy.scale}"
                raise ReportError(f"policies {ids} are on the scales {scales}; use reports on one scale")
        if made.size > MOST_CODES:
            raise ReportError(f"the policies have {made.size} symbols, the limit is {MOST_CODES}; use fewer policies")
        return made

    @property
    def scale(self) -> RatingScale:
        """The scale all policies share."""
        return self.policies[0].scale

    @cached_property
    def sizes(self) -> NDArray[np.int32]:
        """How many symbols each policy has."""
        return np.array([policy.channel.weights.symbols for policy in self.policies], dtype=np.int32)

    @property
    def size(self) -> int:
        """How many codes there are."""
        return int(self.sizes.sum())

    @cached_property
    def symbol_values(self) -> NDArray[np.float32]:
        """What each code stands for."""
        return np.concatenate([policy.channel.symbol_values for policy in self.policies]).astype(np.float32)

    def find(self, policy_id: str) -> int:
        """Return the index of a policy, -1 if it was not given."""
        return next((index for index, policy in enumerate(self.policies) if policy.id == policy_id), -1)

    def encode(self, symbols: NDArray[np.int64], of_policy: RowPolicies, label: str) -> NDArray[Any]:
        """Return the codes of symbols, or refuse the first one that its policy does not have."""
        bad = (symbols < 0) | (symbols >= self.sizes[of_policy])
        if bad.any():
            row = int(np.argmax(bad))
            policy = self.policies[of_policy if isinstance(of_policy, int) else of_policy[row]]
            raise ReportError(
                f"{label} row {row + 1}: symbol {symbols[row]} is not one of 0 to {policy.channel.weights.symbols - 1} "
                f"of policy {policy.id[:_SHOWN_ID]}; is it the policy the report was made under?"
            )
        code_type = code_type_of(self.size)
        codes = symbols.astype(code_type)
        np.add(codes, (np.cumsum(self.sizes) - self.sizes).astype(code_type)[of_policy], out=codes)
        return codes

    def without_unused(self, codes: NDArray[Any]) -> tuple[Alphabet, NDArray[Any]]:
        """Leave out the policies that no report was made under."""
        owner = np.repeat(np.arange(len(self.policies)), self.sizes)
        used = np.bincount(owner, tally(codes, self.size)) > 0
        if used.all():
            return self, codes
        kept = Alphabet(tuple(policy for policy, keep in zip(self.policies, used, strict=True) if keep))
        renumbered = (np.cumsum(used[owner]) - 1).astype(code_type_of(kept.size))
        return kept, renumbered[codes]


@dataclass(frozen=True, eq=False)
class Reports:
    """Reports from one source, in its order; `values` are codes of an alphabet, or plain numbers."""

    label: str
    users: Ids
    items: Ids
    values: NDArray[Any]


def reports_of_file(path: str | Path, alphabet: Alphabet) -> Reports:
    """Read a CSV or Parquet file of reports."""
    columns = read_table(path, _COLUMNS, optional=["policy"], repetitive=["user", "item", "policy"])
    return _reports_of_columns(columns, read_metadata(path, POLICY_KEY), alphabet, str(path))


def reports_of_arrow(table: Any, alphabet: Alphabet, label: str = LABEL) -> Reports:  # noqa: ANN401 - Arrow is untyped
    """Take reports from an Arrow table, with columns as in files."""
    columns = columns_of(table, _COLUMNS, optional=["policy"], label=label)
    return _reports_of_columns(columns, metadata_of(table.schema, POLICY_KEY), alphabet, label)


def reports_of_parts(parts: Sequence[Part], alphabet: Alphabet) -> list[Reports]:
    """Take reports from arrays, each part under its own policy of an alphabet."""
    labels = [LABEL] if len(parts) == 1 else [f"{LABEL} of part {number + 1}" for number in range(len(parts))]
    return [_reports_of_part(part, alphabet, label) for part, label in zip(parts, labels, strict=True)]


def reports_of_values(users: IdList, items: IdList, values: ArrayLike) -> Reports:
    """Take plain numbers from arrays; they must be finite, but may lie off the scale."""
    said = np.asarray(values)
    _check_lengths(users, items, said, "values")
    if said.dtype.kind not in "fiu":
        raise ReportError(f"values are an array of {said.dtype}; give plain numbers")
    with np.errstate(over="ignore"):
        numbers = said.astype(np.float32)
    finite = np.isfinite(numbers)
    if not finite.all():
        row = int(np.argmin(finite))
        raise ReportError(f"{LABEL} row {row + 1}: value {said[row]} is not finite in single precision; correct it")
    return Reports(LABEL, _ids_of(users, "user"), _ids_of(items, "item"), numbers)


def checked_ids(ids: IdList, name: str) -> NDArray[Any]:
    """Return ids as an array of integers or of text, or refuse them."""
    try:
        return as_ids(ids, name)
    except InvalidInputError as error:
        raise ReportError(f"{LABEL}: {error}") from error


def tally(codes: NDArray[Any], size: int) -> NDArray[np.int64]:
    """Count the codes below `size`."""
    counts = np.zeros(size, dtype=np.int64)
    for block in blocks(len(codes)):
        counts += np.bincount(codes[block], minlength=size)
    return counts


def blocks(length: int) -> Iterator[slice]:
    """Cut a long array: NumPy widens what it counts or looks up to 64 bits, a copy too large to make at once."""
    return (slice(start, start + _BLOCK) for start in range(0, length, _BLOCK))


def code_type_of(size: int) -> type[np.uint8 | np.uint16]:
    """Return the narrowest type for that many codes."""
    return np.uint8 if size <= 2**8 else np.uint16


def _reports_of_part(part: Part, alphabet: Alphabet, label: str) -> Reports:
    users, items, symbols, policy = part
    said = np.asarray(symbols)
    _check_lengths(users, items, said, "symbols")
    numbers = column_of(said, "symbol", label=label).whole_numbers()
    codes = alphabet.encode(numbers, alphabet.find(policy.id), label)
    return Reports(label, _ids_of(users, "user"), _ids_of(items, "item"), codes)


def _reports_of_columns(columns: dict[str, Column], stated: str | None, alphabet: Alphabet, label: str) -> Reports:
    # The largest columns first, each taken out and its memory given back as soon as it is read.
    users = columns.pop("user").ids()
    release_memory()
    items = columns.pop("item").ids()
    release_memory()
    of_policy = _row_policies(columns.pop("policy", None), stated, alphabet, label)
    codes = alphabet.encode(columns.pop("symbol").whole_numbers(), of_policy, label)
    release_memory()
    return Reports(label, users, items, codes)


def _row_policies(column: Column | None, stated: str | None, alphabet: Alphabet, label: str) -> RowPolicies:
    """Return the index of every row's policy: from its column, or one for all rows from the metadata."""
    if column is None:
        if stated is None:
            raise ReportError(
                f"{label} has neither a column 'policy' nor the metadata {POLICY_KEY!r}; add the policy's id"
            )
        found = alphabet.find(stated)
        if found < 0:
            raise ReportError(f"{label}: policy {stated[:_SHOWN_ID]!r} of all its rows was not given; give it too")
        return found
    ids = column.ids()
    of_row = np.array([alphabet.find(str(policy)) for policy in ids.distinct], dtype=np.int16)[ids.codes]
    if of_row.min() < 0:
        row = int(np.argmin(of_row))
        shown = str(ids.distinct[ids.codes[row]])[:_SHOWN_ID]
        raise ReportError(f"{label} row {row + 1}: policy {shown!r} was not given; give it too")
    return of_row


def _check_lengths(users: IdList, items: IdList, said: NDArray[Any], name: str) -> None:
    if said.ndim != 1 or not len(users) == len(items) == len(said):
        shape = len(said) if said.ndim == 1 else f"an array of shape {said.shape} of"
        raise ReportError(f"{len(users)} users, {len(items)} items and {shape} {name}; a report has one of each")
    if not len(said):
        raise ReportError("there are no reports; give at least one")


def _ids_of(ids: IdList, name: str) -> Ids:
    read = column_of(checked_ids(ids, name), name, label=LABEL).ids()
    release_memory()
    return read
