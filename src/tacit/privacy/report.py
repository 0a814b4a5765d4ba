"""The report: the only thing that crosses the wire."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tacit.errors import ReportError
from tacit.privacy.canonical import read_json
from tacit.privacy.weights import MOST_SYMBOLS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tacit.privacy.policy import Policy

FORMAT = "tacit-reports/1"

# Where a Parquet file of reports names, and carries, the policy it was made under.
POLICY_KEY = "tacit.policy"
POLICY_DOCUMENT_KEY = "tacit.policy.document"

MOST_REPORTS = 1000
LARGEST_BATCH = 2**19
LONGEST_ITEM = 200
LARGEST_REVISION = 2**31 - 1

_POLICY_ID = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Report:
    """One perturbed rating: a symbol about an item, under a policy.

    `revision` counts how often the person changed the rating of this item.
    """

    policy: str
    item: str
    symbol: int
    revision: int = 0

    def __post_init__(self) -> None:
        """Refuse what no device would say."""
        if not _POLICY_ID.fullmatch(str(self.policy)):
            raise ReportError(f"policy {str(self.policy)[:70]!r} is not a policy id of 64 hex digits")
        check_item(self.item)
        if not _is_count(self.symbol, MOST_SYMBOLS - 1) or not _is_count(self.revision, LARGEST_REVISION):
            raise ReportError(f"symbol {self.symbol!r} or revision {self.revision!r} is not a whole number in range")


def _is_count(number: object, most: int) -> bool:
    return type(number) is int and 0 <= number <= most


def check_item(item: object) -> None:
    """Refuse an item id that is empty, too long or not plain text."""
    text = isinstance(item, str) and item.isprintable()
    if not text or not 1 <= len(str(item).encode()) <= LONGEST_ITEM:
        shown = str(item)[:40]
        raise ReportError(f"item {shown!r} is not 1 to {LONGEST_ITEM} bytes of printable text; use a shorter id")


def encode_json(reports: Sequence[Report]) -> bytes:
    """Write a batch of reports under one policy as JSON."""
    policy = one_policy(reports)
    rows = [{"item": report.item, "symbol": report.symbol, "revision": report.revision} for report in reports]
    document = {"format": FORMAT, "policy": policy, "reports": rows}
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def decode_json(batch: bytes, policies: Mapping[str, Policy]) -> list[Report]:
    """Read a JSON batch strictly; every symbol must be one its policy can send."""
    if len(batch) > LARGEST_BATCH:
        raise ReportError(f"a batch of {len(batch)} bytes is over the limit of {LARGEST_BATCH}; send fewer reports")
    try:
        document = read_json(batch)
    except ValueError as error:
        raise ReportError(f"the batch is not usable: {error}") from error
    if not isinstance(document, dict) or set(document) != {"format", "policy", "reports"}:
        raise ReportError("a batch has exactly the fields format, policy and reports")
    if document["format"] != FORMAT or not isinstance(document["reports"], list):
        raise ReportError(f"the batch is not of the format {FORMAT}")
    reports = [_report_of(document["policy"], row) for row in document["reports"]]
    check_batch(reports, policies)
    return reports


def one_policy(reports: Sequence[Report]) -> str:
    """Return the policy all reports of a batch share."""
    if not 1 <= len(reports) <= MOST_REPORTS:
        raise ReportError(f"a batch holds 1 to {MOST_REPORTS} reports, not {len(reports)}; split it")
    if len({report.policy for report in reports}) > 1:
        raise ReportError("a batch holds reports of one policy; send one batch per policy")
    return reports[0].policy


def check_batch(reports: Sequence[Report], policies: Mapping[str, Policy]) -> None:
    """Refuse a batch whose policy is not known or whose symbols it cannot send."""
    policy = policies.get(one_policy(reports))
    if policy is None:
        raise ReportError(f"policy {reports[0].policy} is not one of those in use; fetch the current policy")
    symbols = policy.channel.weights.symbols
    worst = max(report.symbol for report in reports)
    if worst >= symbols:
        raise ReportError(f"symbol {worst} is not below the policy's {symbols} symbols")


def _report_of(policy: Any, row: Any) -> Report:  # noqa: ANN401 - parsed JSON, checked here and by Report
    if not isinstance(row, dict) or set(row) != {"item", "symbol", "revision"}:
        raise ReportError("a report has exactly the fields item, symbol and revision")
    return Report(policy, row["item"], row["symbol"], row["revision"])
