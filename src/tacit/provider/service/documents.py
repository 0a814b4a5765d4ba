"""What crosses the wire beside reports, as OpenAPI describes it. Reading is strict: nothing is guessed or ignored."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Path, Query
from pydantic import BaseModel, ConfigDict, Field

from tacit.privacy.report import LARGEST_REVISION, LONGEST_ITEM, MOST_REPORTS
from tacit.privacy.weights import MOST_SYMBOLS
from tacit.provider.store.store import LONGEST_TITLE

MOST_LISTED = 10_000
MOST_RECOMMENDED = 1000

ItemId = Annotated[str, Field(min_length=1, max_length=LONGEST_ITEM)]
ItemPath = Annotated[str, Path(min_length=1, max_length=LONGEST_ITEM)]
Symbol = Annotated[int, Field(ge=0, lt=MOST_SYMBOLS)]
PolicyId = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
HowMany = Annotated[int, Query(ge=1, le=MOST_RECOMMENDED)]
RunId = Annotated[int, Path(ge=1, lt=2**31)]


class Document(BaseModel):
    """Anything that is read or written as JSON."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ItemDocument(Document):
    """An item of the catalogue."""

    item: ItemId
    title: Annotated[str, Field(max_length=LONGEST_TITLE)]


class ItemsToPut(Document):
    """Items to add, or whose titles to change."""

    items: Annotated[list[ItemDocument], Field(min_length=1, max_length=MOST_REPORTS)]


class ItemsPut(Document):
    """How many items were new, and how many got another title."""

    added: int
    changed: int


class ItemList(Document):
    """Items in order of entry; `next` is what to ask for as `after` to go on."""

    items: list[ItemDocument]
    next: int | None
    total: int


class Rejection(Document):
    """A report that was not stored, and why."""

    index: int
    code: Literal["unknown-item", "unknown-symbol", "too-many-reports"]


class ReportsTaken(Document):
    """What became of a batch; every report is counted once."""

    accepted: int
    duplicates: int
    rejected: list[Rejection]


class StoredReportDocument(Document):
    """A report as it is kept: all that is known of a rating."""

    policy: str
    item: str
    symbol: int
    revision: Annotated[int, Field(ge=0, le=LARGEST_REVISION)]


class DeviceDocument(Document):
    """Everything that is stored about a device; `epsilon` is the pure sum it spent, as a decimal."""

    reports: list[StoredReportDocument]
    epsilon: str


class RunToStart(Document):
    """Which model to train, and its options."""

    model: Annotated[str, Field(max_length=40)] = "channel-mf"
    options: Annotated[dict[str, int | float | bool | str], Field(max_length=40)] = Field(default_factory=dict)


class RunDocument(BaseModel):
    """A training run."""

    model_config = ConfigDict(extra="allow")

    id: int
    state: Literal["queued", "running", "succeeded", "failed"]
    model: str
    options: dict[str, Any]
    seed: int
    hour: str
    iterations: int
    of_iterations: int | None
    trace: dict[str, list[float | None]]
    error: str | None
    quality: dict[str, Any] | None
    published: bool


class RunList(Document):
    """Training runs, the newest first."""

    runs: list[RunDocument]


class SaidSymbol(Document):
    """One symbol about an item: never a rating."""

    item: ItemId
    symbol: Symbol


class Session(Document):
    """What to recommend from, carried by the request itself; nothing of it is stored."""

    policy: PolicyId
    symbols: Annotated[list[SaidSymbol], Field(max_length=MOST_REPORTS)] = Field(default_factory=list)
    n: Annotated[int, Field(ge=1, le=MOST_RECOMMENDED)] = 10


class ScoredItem(Document):
    """An item of a list; without a score where there is nothing but popularity to go by."""

    item: str
    score: float | None
    rank: int


class Recommended(Document):
    """A list, and what it goes by: the reports of whoever asks, or what is popular."""

    items: list[ScoredItem]
    fallback: bool
    reason: Literal["reports", "cold-start"]
    run: int | None


class SimilarItems(Document):
    """Items most like another, best first."""

    items: list[ScoredItem]


class Health(Document):
    """The service is there."""

    status: Literal["ok"]
