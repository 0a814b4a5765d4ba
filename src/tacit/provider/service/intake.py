"""Reading a batch of reports off the wire: its structure strictly, its content report by report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tacit.errors import ReportError
from tacit.privacy.canonical import read_json
from tacit.privacy.compact import decode_compact, policy_of_compact
from tacit.privacy.report import FORMAT, LARGEST_REVISION, LONGEST_ITEM, MOST_REPORTS
from tacit.privacy.weights import MOST_SYMBOLS
from tacit.provider.service.problems import Problem
from tacit.provider.store import Batch
from tacit.provider.store.writing import Said

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tacit.privacy.policy import Policy

JSON = "application/json"
COMPACT = "application/vnd.tacit.reports"

_FIELDS = {"format", "policy", "reports"}
_REPORT_FIELDS = {"item", "symbol", "revision"}


def batch_of(body: bytes, media_type: str, token_hash: bytes, known: Mapping[str, tuple[int, Policy]]) -> Batch:
    """Read a batch that may have come from anywhere, or refuse it whole with a problem.

    A report on an item that is not listed, or with a symbol that its policy does not have, does not spoil the others.
    """
    if media_type == JSON:
        policy_id, said = _of_json(body)
    elif media_type == COMPACT:
        policy_id, said = _of_compact(body, {name: policy for name, (_, policy) in known.items()})
    else:
        raise Problem("unsupported-media-type", f"send reports as {JSON} or {COMPACT}")
    if policy_id not in known:
        raise Problem("unknown-policy", "the policy of the batch is not in use; fetch /v1/policy")
    key, policy = known[policy_id]
    return Batch(token_hash, key, policy.channel.weights.symbols, said)


def _of_compact(body: bytes, policies: Mapping[str, Policy]) -> tuple[str, list[Said]]:
    try:
        policy_id = policy_of_compact(body)
        if policy_id not in policies:
            return policy_id, []
        reports = decode_compact(body, policies)
    except ReportError as error:
        raise Problem("malformed", str(error)) from error
    return policy_id, [Said(report.item, report.symbol, report.revision) for report in reports]


def _of_json(body: bytes) -> tuple[str, list[Said]]:
    try:
        document = read_json(body)
    except ValueError as error:
        raise Problem("malformed", f"the batch is not usable: {error}") from error
    if not isinstance(document, dict) or set(document) != _FIELDS or document["format"] != FORMAT:
        raise Problem("malformed", f"a batch has the fields format ({FORMAT}), policy and reports, and no others")
    policy, rows = document["policy"], document["reports"]
    if not isinstance(policy, str) or not isinstance(rows, list) or not 1 <= len(rows) <= MOST_REPORTS:
        raise Problem("malformed", f"a batch names one policy and holds a list of 1 to {MOST_REPORTS} reports")
    return policy, [_said(index, row) for index, row in enumerate(rows)]


def _said(index: int, row: Any) -> Said:  # noqa: ANN401 - parsed JSON
    if not isinstance(row, dict) or set(row) != _REPORT_FIELDS:
        raise Problem("malformed", f"report {index}: it has the fields item, symbol and revision, and no others")
    item = row["item"]
    if not isinstance(item, str) or not 1 <= len(item) <= LONGEST_ITEM:
        raise Problem("malformed", f"report {index}: item is not text of 1 to {LONGEST_ITEM} characters")
    symbol, revision = _whole(row["symbol"], MOST_SYMBOLS - 1), _whole(row["revision"], LARGEST_REVISION)
    if symbol is None or revision is None:
        raise Problem("malformed", f"report {index}: symbol or revision is not a whole number in range")
    return Said(item, symbol, revision)


def _whole(number: object, most: int) -> int | None:
    """Read a whole number from 0 on; 3.0 is one, too, as JSON Schema has it."""
    if type(number) is float and number.is_integer():
        number = int(number)
    return number if type(number) is int and 0 <= number <= most else None
