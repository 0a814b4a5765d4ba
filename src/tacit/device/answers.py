"""What a provider answers, read as what it should be or refused: it may be hostile."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tacit.errors import InvalidInputError, ProviderError
from tacit.privacy.canonical import read_json
from tacit.privacy.documents import is_number
from tacit.privacy.exact import parse_canonical_decimal
from tacit.privacy.report import Report, check_item

if TYPE_CHECKING:
    from collections.abc import Sequence
    from decimal import Decimal

    from tacit.device.exchange import Answer

LARGEST_PAGE = 16 * 2**20
LARGEST_STORE = 64 * 2**20

_LARGEST_PROBLEM = 2**16
_CODE = re.compile(r"[a-z][a-z-]{0,39}")
_LONGEST_DETAIL = 200
_LONGEST_TITLE = 1000
_HIDDEN = "..."


@dataclass(frozen=True)
class Rejection:
    """A report that the provider did not keep, and its word for why."""

    item: str
    code: str


@dataclass(frozen=True)
class Sent:
    """How the provider took what was sent."""

    accepted: int = 0
    duplicates: int = 0
    """It had these already."""
    rejected: tuple[Rejection, ...] = ()
    """They stay to be sent, and may do better once the provider knows the items."""
    unsendable: int = 0
    """Said under a policy that the provider does not take, or no longer."""

    def and_then(self, other: Sent) -> Sent:
        """Add what was sent afterwards."""
        return Sent(
            self.accepted + other.accepted,
            self.duplicates + other.duplicates,
            self.rejected + other.rejected,
            self.unsendable + other.unsendable,
        )


@dataclass(frozen=True)
class ListedItem:
    """An item of the provider's catalogue."""

    item: str
    title: str


@dataclass(frozen=True)
class Recommendation:
    """An item of a list that the provider made."""

    item: str
    score: float | None
    """None where there is nothing but popularity to go by."""
    rank: int


@dataclass(frozen=True)
class Recommendations:
    """A list that the provider made, from nothing but reports."""

    items: tuple[Recommendation, ...]
    fallback: bool
    """Whether it is what everybody gets."""
    reason: str
    """`reports` or `cold-start`."""
    run: int | None
    """The training run behind it."""


@dataclass(frozen=True)
class Stored:
    """Everything the provider says it keeps about this device."""

    reports: tuple[Report, ...]
    epsilon: Decimal
    """The pure sum of what they cost."""


def document_of(answer: Answer) -> dict[str, Any]:
    """Read the JSON object of an answer."""
    try:
        document = read_json(answer.body)
    except ValueError as error:
        raise ProviderError(f"the provider's answer cannot be read: {error}", status=answer.status) from error
    if not isinstance(document, dict):
        raise _unusable("is no JSON object")
    return document


def problem_of(answer: Answer, token: str | None) -> ProviderError:
    """Return the error that an answer tells of; what the provider says is shown as one short line, never the token."""
    try:
        found = document_of(answer) if len(answer.body) <= _LARGEST_PROBLEM else {}
    except ProviderError:
        found = {}
    code, detail = found.get("code"), found.get("detail")
    known = code if isinstance(code, str) and _CODE.fullmatch(code) else "unusable"
    detail = _one_line(detail, token)[:_LONGEST_DETAIL] if isinstance(detail, str) else ""
    said = f", {known}: {detail}" if detail else f", {known}"
    return ProviderError(f"the provider answers {answer.status}{said}", code=known, detail=detail, status=answer.status)


def sent_of(answer: Answer, reports: Sequence[Report]) -> tuple[Sent, list[Report]]:
    """Read how a batch was taken; return that, and the reports the provider now has."""
    document = document_of(answer)
    rejected = {_count(row, "index"): _word(row, "code") for row in _rows(document, "rejected")}
    accepted, duplicates = _count(document, "accepted"), _count(document, "duplicates")
    complete = accepted + duplicates + len(rejected) == len(reports) and len(rejected) == len(document["rejected"])
    if not complete or any(index >= len(reports) for index in rejected):
        raise _unusable(f"does not account for the {len(reports)} reports sent")
    kept = [report for index, report in enumerate(reports) if index not in rejected]
    refused = tuple(Rejection(reports[index].item, code) for index, code in sorted(rejected.items()))
    return Sent(accepted, duplicates, refused), kept


def page_of(answer: Answer) -> tuple[list[ListedItem], str | int | None]:
    """Read a page of the catalogue, and the key that the next one starts after."""
    document = document_of(answer)
    items = [ListedItem(_item(row), _one_line(_text(row, "title", _LONGEST_TITLE))) for row in _rows(document, "items")]
    after = document.get("next")
    return items, None if after is None else _count(document, "next") if type(after) is int else _text(document, "next")


def recommendations_of(answer: Answer) -> Recommendations:
    """Read a list of recommendations."""
    document = document_of(answer)
    items = [Recommendation(_item(row), _score(row), _count(row, "rank")) for row in _rows(document, "items")]
    fallback, run = document.get("fallback"), document.get("run")
    if not isinstance(fallback, bool):
        raise _unusable("does not say whether it is a fallback")
    return Recommendations(
        tuple(items), fallback, _word(document, "reason"), None if run is None else _count(document, "run")
    )


def stored_of(answer: Answer) -> Stored:
    """Read what is stored."""
    document = document_of(answer)
    try:
        reports = tuple(
            Report(_text(row, "policy"), _item(row), _count(row, "symbol"), _count(row, "revision"))
            for row in _rows(document, "reports")
        )
        return Stored(reports, parse_canonical_decimal(_text(document, "epsilon")))
    except InvalidInputError as error:
        raise _unusable(f"is of no reports ({error})") from error


def _rows(document: dict[str, Any], name: str) -> list[dict[str, Any]]:
    rows = document.get(name)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise _unusable(f"has no list of {name}")
    return rows


def _count(row: dict[str, Any], name: str) -> int:
    value = row.get(name)
    if type(value) is not int or not 0 <= value < 2**63:
        raise _unusable(f"has no whole number {name}")
    return value


def _score(row: dict[str, Any]) -> float | None:
    score = row.get("score")
    if score is not None and not is_number(score):
        raise _unusable("has a score that is no finite number")
    return None if score is None else float(score)


def _word(row: dict[str, Any], name: str) -> str:
    word = _text(row, name)
    if not _CODE.fullmatch(word):
        raise _unusable(f"has no {name} of small letters")
    return word


def _text(row: dict[str, Any], name: str, longest: int = _LONGEST_DETAIL) -> str:
    value = row.get(name)
    if not isinstance(value, str) or len(value) > longest:
        raise _unusable(f"has no text {name} of at most {longest} characters")
    return value


def _item(row: dict[str, Any]) -> str:
    try:
        check_item(row.get("item"))
    except InvalidInputError as error:
        raise _unusable("names an item that is none") from error
    return str(row["item"])


def _one_line(text: str, token: str | None = None) -> str:
    """Return a stranger's text without what a terminal would obey, and without the token."""
    shown = text if token is None else re.sub(token, _HIDDEN, text, flags=re.IGNORECASE)
    return "".join(letter if letter.isprintable() else " " for letter in shown).strip()


def _unusable(what: str) -> ProviderError:
    return ProviderError(f"the provider's answer {what}; refused")
