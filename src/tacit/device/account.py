"""A device's account at one provider: its token, and what need not be sent, in a file of its own.

The token is drawn on the device and is all that the provider knows it by. Whoever reads the file can speak for the
device, so that nobody else may read it.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tacit.errors import DeviceError, FileError
from tacit.files import read_bytes, reason_of, written_atomically
from tacit.privacy.canonical import read_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from tacit.privacy.report import Report

FORMAT = "tacit-account/1"
TOKEN_BYTES = 16

_TOKEN = re.compile(r"[0-9a-f]{32}")
_FIELDS = {"format", "provider", "token", "acknowledged", "withdrawn"}
_LARGEST = 64 * 2**20
_OTHERS = 0o077


@dataclass(frozen=True)
class Account:
    """What a device keeps about its provider; items are there with the revision that was meant."""

    provider: str
    token: str | None = field(default=None, repr=False)  # nothing that is printed or logged shows it
    acknowledged: Mapping[str, int] = field(default_factory=dict)
    """The provider has said that it keeps these."""
    withdrawn: Mapping[str, int] = field(default_factory=dict)
    """The person has had these deleted; they are sent again only if the person says them again."""

    def with_token(self) -> Account:
        """Return the account with a token: the one it has, or a new one of 128 random bits."""
        return self if self.token is not None else replace(self, token=secrets.token_hex(TOKEN_BYTES))

    def lacks(self, report: Report) -> bool:
        """Tell whether a report is still to be sent."""
        return report.revision not in {self.acknowledged.get(report.item), self.withdrawn.get(report.item)}

    def acknowledging(self, reports: Iterable[Report]) -> Account:
        """Return the account after the provider confirmed some reports."""
        return replace(self, acknowledged={**self.acknowledged, **{one.item: one.revision for one in reports}})

    def withdrawing(self, revisions: Mapping[str, int]) -> Account:
        """Return the account after all was deleted: no token, and nothing said so far is to be sent."""
        return replace(self, token=None, acknowledged={}, withdrawn=revisions)

    def saying_again(self, item: str) -> Account:
        """Return the account after the person rated an item, perhaps one that was deleted."""
        return replace(self, withdrawn={name: kept for name, kept in self.withdrawn.items() if name != item})


def load_account(path: Path, provider: str) -> Account:
    """Read the account at a provider; a new one if there is no file yet."""
    if not os.path.lexists(path):
        return Account(provider)
    _refuse_open_doors(path)
    account = _account_of(path, read_bytes(path, limit=_LARGEST))
    if account.provider != provider:
        shown = account.provider[:80]
        raise DeviceError(
            f"{path} is the account at {shown}, not at {provider}, which must not see its token; use another file"
        )
    return account


def save_account(path: Path, account: Account) -> None:
    """Write the account through to the disk, for nobody else to read."""
    fields = {name: getattr(account, name) for name in sorted(_FIELDS - {"format"})}
    content = json.dumps({"format": FORMAT, **fields}, separators=(",", ":")).encode()
    with written_atomically(path) as temporary, open(temporary, "xb", opener=_private) as file:
        file.write(content)
    _sync_folder(path)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _sync_folder(path: Path) -> None:
    """Make sure that the name survives a power cut: without its token a device could not have its reports deleted."""
    try:
        descriptor = os.open(path.resolve().parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise FileError(f"the folder of {path} cannot be written through: {reason_of(error)}") from error


def _refuse_open_doors(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise FileError(f"cannot read {path}: {reason_of(error)}; check the path") from error
    if mode & _OTHERS:
        raise DeviceError(
            f"{path} holds a token and has mode {mode & 0o777:o}, so that others may use it; chmod 600 it"
        )


def _account_of(path: Path, content: bytes) -> Account:
    try:
        document = read_json(content)
    except ValueError as error:
        raise DeviceError(f"{path} cannot be read ({error}); restore the file") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT or set(document) != _FIELDS:
        raise DeviceError(f"{path} is not an account of the format {FORMAT}; name another file, or update tacit")
    token = document["token"]
    good = isinstance(document["provider"], str) and (token is None or _is_token(token))
    if not good or not all(_are_revisions(document[name]) for name in ("acknowledged", "withdrawn")):
        raise DeviceError(f"{path} holds a token or revisions that are none; restore the file")
    return Account(document["provider"], token, document["acknowledged"], document["withdrawn"])


def _is_token(value: Any) -> bool:  # noqa: ANN401 - parsed JSON
    return isinstance(value, str) and _TOKEN.fullmatch(value) is not None


def _are_revisions(value: Any) -> bool:  # noqa: ANN401 - parsed JSON
    return isinstance(value, dict) and all(type(revision) is int for revision in value.values())
