"""Where reports come from: files, folders of files, and stores."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.errors import FileError, InvalidInputError, MissingExtraError, ReportError
from tacit.learning import ReportMatrix, read_reports
from tacit.tables import count_rows, files_of, refuse_secrets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tacit.privacy.policy import Policy
    from tacit.provider.store import ReportStore

SILENT = "the store has no reports; wait until devices have sent some"

_STORES = ("postgresql:", "postgresql+psycopg:", "sqlite:")
_ADDRESSES = ("file", "gs", "hdfs", "s3", "viewfs")  # where Arrow finds files
_SHOWN_ID = 12
_SUBMITTED = "PYSPARK_GATEWAY_PORT"  # in the environment where spark-submit has started Java, and Java us
_NO_STORE = "reading a store needs the serve extra; install tacit[serve]"


@dataclass(frozen=True, slots=True)
class Sources:
    """What to learn from: files and folders of reports, or the address of a store."""

    places: tuple[str, ...]
    policies: tuple[Policy, ...]

    def __post_init__(self) -> None:
        """Refuse what cannot be read together."""
        if self.store is None and any(map(_is_store, self.places)):
            raise InvalidInputError("a store is read by itself; give its address alone, or files and folders")
        for place in self.addresses:
            scheme = place.partition("://")[0]
            if scheme.lower() not in _ADDRESSES:
                raise InvalidInputError(
                    f"addresses that begin with {scheme[:40]!r} are not read; give files, folders, postgresql:// or sqlite:///"
                )
            refuse_secrets(place)
        if self.store is None and not self.policies:
            raise InvalidInputError("files of reports need the policies they were made under; give --policy")

    @property
    def store(self) -> str | None:
        """The address of the store, if it is one."""
        return self.places[0] if len(self.places) == 1 and _is_store(self.places[0]) else None

    @property
    def addresses(self) -> list[str]:
        """The places of files that are addresses, which Arrow reads on a cluster."""
        return [place for place in self.places if "://" in place and not _is_store(place)]

    def reports(self) -> int:
        """Return about how many reports there are."""
        if self.store is not None:
            with opened_store(self.store) as store:
                return store.count("reports")
        return sum(count_rows(file) for place in self.places for file in files_of(place))


def _is_store(place: str) -> bool:
    return place.lower().startswith(_STORES)


def read_matrix(sources: Sources) -> ReportMatrix:
    """Read all reports into memory."""
    if sources.store is None:
        return read_reports(sources.places, sources.policies)
    with opened_store(sources.store) as store:
        parts = store.latest_reports()
    if not parts:
        raise ReportError(SILENT)
    given = {policy.id for policy in sources.policies or [part[3] for part in parts]}
    for *_, policy in parts:
        if policy.id not in given:
            shown = policy.id[:_SHOWN_ID]
            raise ReportError(f"the store has reports of policy {shown!r}, which was not given; give it too, or none")
    return ReportMatrix.of_parts(parts)


def refuse_password(address: str) -> None:
    """Refuse a password in an address where spark-submit would write it down."""
    if _SUBMITTED not in os.environ:
        return
    try:
        from tacit.provider.store import has_password  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise MissingExtraError(_NO_STORE) from error
    if has_password(address):
        msg = "spark-submit writes its command line into Spark's event log, and the address has a password in it"
        raise InvalidInputError(f"{msg}; leave it out, and let a password file have it (~/.pgpass, on all machines)")


@contextmanager
def opened_store(address: str) -> Iterator[ReportStore]:
    """Offer a store that is there."""
    try:
        from tacit.provider.store import ReportStore  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise MissingExtraError(_NO_STORE) from error
    file = re.match(r"sqlite(?:\+\w+)?:///(.+)", address)
    if file and not Path(file[1]).exists():  # opening would make one
        raise FileError(f"there is no database {file[1][:200]}; check the address")
    store = ReportStore.open(address)
    try:
        yield store
    finally:
        store.close()
