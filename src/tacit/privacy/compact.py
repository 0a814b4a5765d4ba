"""The compact form of a batch: two or three bytes a report instead of sixty.

    bytes        content
    4            "tcr" and the version, 1
    32           the policy's id
    1            flags: 1 = items are whole numbers, 2 = revisions follow
    varint       number of reports
    per report   the item: a varint, or a varint length and UTF-8 text
    per report   the revision, a varint (only with flag 2)
    the rest     the symbols, packed most significant bit first with as many bits
                 each as the policy's largest symbol needs; the last byte ends in zeros

A varint is base 128, least significant group first, at most 9 bytes, no longer
than needed. Each batch has exactly one encoding, and its length says nothing of
the symbols.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tacit.errors import ReportError
from tacit.privacy.report import LARGEST_BATCH, MOST_REPORTS, Report, check_batch, one_policy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tacit.privacy.policy import Policy

_MAGIC = b"tcr\x01"
_HEAD = len(_MAGIC) + 32
_WHOLE_NUMBER_ITEMS = 1
_WITH_REVISIONS = 2
_LONGEST_VARINT = 9
_CONTINUES = 0x80


def encode_compact(reports: Sequence[Report], policy: Policy) -> bytes:
    """Write a batch of reports under one policy in the compact form."""
    check_batch(reports, {policy.id: policy})
    numeric = all(_is_number(report.item) for report in reports)
    revised = any(report.revision for report in reports)
    parts = [
        _MAGIC,
        bytes.fromhex(one_policy(reports)),
        bytes([_WHOLE_NUMBER_ITEMS * numeric + _WITH_REVISIONS * revised]),
        _varint(len(reports)),
        *(_varint(int(report.item)) if numeric else _text(report.item) for report in reports),
        *(_varint(report.revision) for report in reports if revised),
        _pack([report.symbol for report in reports], policy.channel.bits),
    ]
    return b"".join(parts)


def decode_compact(batch: bytes, policies: Mapping[str, Policy]) -> list[Report]:
    """Read a compact batch strictly: anything but the one valid encoding is refused."""
    if len(batch) > LARGEST_BATCH:
        raise ReportError(f"a batch of {len(batch)} bytes is over the limit of {LARGEST_BATCH}; send fewer reports")
    policy_id = policy_of_compact(batch)
    reader = _Reader(batch, _HEAD)
    if policy_id not in policies:
        raise ReportError(f"policy {policy_id} is not one of those in use; fetch the current policy")
    flags, count = reader.take(1)[0], reader.varint()
    if flags & ~(_WHOLE_NUMBER_ITEMS | _WITH_REVISIONS) or not 1 <= count <= MOST_REPORTS:
        raise ReportError(f"flags {flags} or count {count} (limit {MOST_REPORTS}) of the batch are not valid")
    numeric = bool(flags & _WHOLE_NUMBER_ITEMS)
    items = [str(reader.varint()) if numeric else reader.text() for _ in range(count)]
    revisions = [reader.varint() if flags & _WITH_REVISIONS else 0 for _ in range(count)]
    symbols = reader.symbols(count, policies[policy_id].channel.bits)
    reports = [Report(policy_id, *fields) for fields in zip(items, symbols, revisions, strict=True)]
    if encode_compact(reports, policies[policy_id]) != batch:
        raise ReportError("the batch is not written in the one valid way")
    return reports


def policy_of_compact(batch: bytes) -> str:
    """Return the id of the policy that a compact batch names."""
    reader = _Reader(batch)
    if reader.take(len(_MAGIC)) != _MAGIC:
        raise ReportError("the batch is not in the compact form, version 1")
    return reader.take(_HEAD - len(_MAGIC)).hex()


@dataclass
class _Reader:
    """A position in a batch; reading past its end is an error."""

    batch: bytes
    position: int = 0

    def take(self, count: int) -> bytes:
        part = self.batch[self.position : self.position + count]
        if len(part) < count:
            raise ReportError(f"the batch ends early, after {len(self.batch)} bytes")
        self.position += count
        return part

    def varint(self) -> int:
        number = 0
        for group in range(_LONGEST_VARINT):
            byte = self.take(1)[0]
            number |= (byte & ~_CONTINUES) << (7 * group)
            if byte < _CONTINUES:
                return number
        raise ReportError(f"a number in the batch is longer than {_LONGEST_VARINT} bytes")

    def text(self) -> str:
        try:
            return self.take(self.varint()).decode()
        except UnicodeDecodeError as error:
            raise ReportError("an item in the batch is not UTF-8 text") from error

    def symbols(self, count: int, bits: int) -> list[int]:
        packed = self.take((count * bits + 7) // 8)
        padding = 8 * len(packed) - count * bits
        stream = int.from_bytes(packed) >> padding
        return [stream >> (bits * index) & (2**bits - 1) for index in reversed(range(count))]


def _is_number(item: str) -> bool:
    return item.isascii() and item.isdigit() and (item == "0" or item[0] != "0") and int(item) < 2**63


def _varint(number: int) -> bytes:
    groups = bytearray()
    while number >= _CONTINUES:
        groups.append(number & ~_CONTINUES & 0xFF | _CONTINUES)
        number >>= 7
    return bytes([*groups, number])


def _text(item: str) -> bytes:
    encoded = item.encode()
    return _varint(len(encoded)) + encoded


def _pack(symbols: Sequence[int], bits: int) -> bytes:
    stream = 0
    for symbol in symbols:
        stream = stream << bits | symbol
    total = bits * len(symbols)
    padding = -total % 8
    return (stream << padding).to_bytes((total + padding) // 8)
