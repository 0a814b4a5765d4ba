"""Influence: how much one device, or a crowd of fake ones, can say before a model is fitted.

Three bounds, none of which looks at what people seem to like. A device whose symbols no ratings could have led to is
left out. Of every other device at most so many reports are heard, which ones a secret decides. And where the symbols
on an item are beyond what the channel would give if everybody had rated it at the end of the scale, the most extreme
are left out until they are not.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import InvalidInputError
from tacit.learning.cells import cells_of
from tacit.learning.reports import Alphabet, reports_of_parts
from tacit.provider.training.plausibility import Bets, implausible

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.learning.cells import Cells
    from tacit.learning.reports import Part
    from tacit.privacy.vocabulary import Vocabulary

    Chosen = NDArray[np.bool_]
    Words = NDArray[np.uint64]

_KEY_BYTES = 16
_MOST_CHANCE = 0.1


@dataclass(frozen=True, slots=True)
class InfluenceLimits:
    """How much is heard; the same limits and the same reports give the same choice, in whatever order they came."""

    key: bytes = field(repr=False)
    """Decides which reports are heard where not all are: 16 bytes at least that no device knows."""
    most_reports: int = 500
    """How many reports of one device are heard."""
    device_chance: float = 1e-6
    """With what chance, at most, an honest device is left out."""
    item_chance: float = 0.01
    """With what chance, at most, an item that honest devices alone reported on loses some of these reports."""

    def __post_init__(self) -> None:
        """Refuse limits that bound nothing, and a key that can be guessed."""
        if len(self.key) < _KEY_BYTES:
            msg = f"a key of {len(self.key)} bytes can be guessed; give {_KEY_BYTES} random bytes or more"
            raise InvalidInputError(msg)
        if self.most_reports < 1:
            raise InvalidInputError(f"{self.most_reports} reports of a device are none; hear at least 1")
        for chance in (self.device_chance, self.item_chance):
            if not 0 < chance <= _MOST_CHANCE:
                msg = f"a chance of {chance} to leave out the honest is not above 0 and up to {_MOST_CHANCE}"
                raise InvalidInputError(f"{msg}; choose a small one")


@dataclass(frozen=True, slots=True)
class LeftOut:
    """How many devices and reports were not heard, and why."""

    implausible_devices: int = 0
    """Devices whose symbols no ratings explain."""
    reports_of_implausible_devices: int = 0
    busy_devices: int = 0
    """Devices with more reports than are heard."""
    reports_of_busy_devices: int = 0
    """Those beyond the limit."""
    implausible_items: int = 0
    """Items with symbols that no ratings explain."""
    reports_on_implausible_items: int = 0
    """Those left out to bring the rest back to what ratings explain."""

    @property
    def reports(self) -> int:
        """How many reports were left out in all."""
        return self.reports_of_implausible_devices + self.reports_of_busy_devices + self.reports_on_implausible_items

    def to_document(self) -> dict[str, int]:
        """Write the counts as plain values."""
        return asdict(self)


@dataclass(frozen=True, eq=False, slots=True)
class BoundedReports:
    """The reports to fit, and what was left out of them."""

    parts: list[Part]
    left_out: LeftOut


def bounded(parts: list[Part], limits: InfluenceLimits) -> BoundedReports:
    """Choose the reports to fit, so that no device has more influence than the limits allow.

    Parts that lose all their reports are left out as a whole.
    """
    alphabet = Alphabet.of(policy for *_, policy in parts)
    cells = cells_of(reports_of_parts(parts, alphabet))
    bets = Bets.on([policy.channel for policy in alphabet.policies])
    believed = _of_plausible_devices(cells, bets, limits.device_chance)
    heard = believed & _within_count(cells, believed, limits)
    fitted = heard & _on_plausible_items(cells, heard, bets, limits)
    left_out = LeftOut(
        implausible_devices=_distinct(cells.user_of[~believed]),
        reports_of_implausible_devices=int((~believed).sum()),
        busy_devices=_distinct(cells.user_of[believed & ~heard]),
        reports_of_busy_devices=int((believed & ~heard).sum()),
        implausible_items=_distinct(cells.item_of[heard & ~fitted]),
        reports_on_implausible_items=int((heard & ~fitted).sum()),
    )
    return BoundedReports(_chosen(parts, fitted), left_out)


def _of_plausible_devices(cells: Cells, bets: Bets, chance: float) -> Chosen:
    sums = bets.sums(cells.values, cells.user_of, len(cells.users))
    return np.asarray(~implausible(sums, chance)[cells.user_of])


def _within_count(cells: Cells, believed: Chosen, limits: InfluenceLimits) -> Chosen:
    """Hear at most so many reports of each device."""
    counts = np.bincount(cells.user_of[believed], minlength=len(cells.users))
    rows = np.flatnonzero(believed & (counts[cells.user_of] > limits.most_reports))
    rows = rows[np.lexsort((_lots(cells, rows, limits.key), cells.user_of[rows]))]
    heard = np.ones(len(believed), dtype=np.bool_)
    heard[rows[_places(cells.user_of[rows]) >= limits.most_reports]] = False
    return heard


def _on_plausible_items(cells: Cells, heard: Chosen, bets: Bets, limits: InfluenceLimits) -> Chosen:
    """Leave out the reports that pay most until no bet on an item pays more than honest reports would."""
    rows = np.flatnonzero(heard)
    sums = bets.sums(cells.values[rows], cells.item_of[rows], len(cells.items))
    rows = rows[implausible(sums, limits.item_chance)[cells.item_of[rows]]]
    lots, fitted = _lots(cells, rows, limits.key), np.ones(len(heard), dtype=np.bool_)
    for pays in bets.logs:
        order = np.lexsort((lots, -pays[cells.values[rows]], cells.item_of[rows]))
        rows, lots = rows[order], lots[order]
        kept = _remaining(cells.item_of[rows], pays[cells.values[rows]]) <= bets.limit(limits.item_chance)
        fitted[rows[~kept]] = False
        rows, lots = rows[kept], lots[kept]
    return fitted


def _remaining(group: NDArray[np.int32], pays: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return, for rows in order of group, what is left of the group's sum from each row on."""
    from_here = np.cumsum(pays[::-1])[::-1]
    last = np.searchsorted(group, group, side="right")
    return np.asarray(from_here - np.append(from_here, 0.0)[last])


def _places(group: NDArray[np.int32]) -> NDArray[np.int64]:
    """Count the rows of each group, which lie together in rising order, from 0."""
    return np.arange(len(group)) - np.searchsorted(group, group)


def _lots(cells: Cells, rows: NDArray[np.int64], key: bytes) -> Words:
    """Draw a number for each report that follows from device, item and key, and from nothing else.

    The words of devices and items are secret already, so mixing them needs no secret of its own.
    """
    words = _secret_words(cells.users, key, b"device")[cells.user_of[rows]]
    words ^= _secret_words(cells.items, key, b"item")[cells.item_of[rows]]
    for factor in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB):
        words ^= words >> np.uint64(31)
        words *= np.uint64(factor)
    return words ^ (words >> np.uint64(31))


def _secret_words(ids: Vocabulary, key: bytes, purpose: bytes) -> Words:
    secret = hashlib.sha256(purpose + key).digest()
    digests = (hashlib.blake2b(str(name).encode(), key=secret, digest_size=8).digest() for name in ids.ids.tolist())
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def _distinct(codes: NDArray[Any]) -> int:
    return len(np.unique(codes))


def _chosen(parts: list[Part], fitted: Chosen) -> list[Part]:
    """Return the parts with the reports to fit."""
    ends = np.cumsum([len(users) for users, *_ in parts])
    chosen: list[Part] = []
    for (users, items, symbols, policy), kept in zip(parts, np.split(fitted, ends[:-1]), strict=True):
        if kept.any():
            chosen.append((np.asarray(users)[kept], np.asarray(items)[kept], np.asarray(symbols)[kept], policy))
    return chosen
