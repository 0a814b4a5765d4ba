"""The device: perturbs a rating once, remembers what it said, and never spends past its cap."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Self

from tacit.device.history import EXACT, History, add_exactly, parse_cap
from tacit.device.ledger import Ledger, LedgerEntry, entry_record
from tacit.device.ranking import PersonalRanking, rank_items
from tacit.device.ratings import by_item, item_name, on_scale
from tacit.errors import (
    BudgetError,
    ConsentError,
    DeviceError,
    RatingChangedError,
)
from tacit.privacy.accounting import Totals, total_loss
from tacit.privacy.exact import decimal_text
from tacit.privacy.policy import Policy
from tacit.privacy.report import Report
from tacit.privacy.weights import operating_system_words

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

    from tacit.device.ratings import RatingsByItem
    from tacit.privacy.item_model import ItemModel


@dataclass(frozen=True)
class Quote:
    """What saying some ratings would cost, before anything is said or spent."""

    policy: str
    ratings: Mapping[str, Decimal]
    new: tuple[str, ...]
    charge: Decimal
    total_after: Decimal
    lifetime_epsilon: Decimal
    change: bool

    @property
    def within_cap(self) -> bool:
        """Whether the lifetime cap allows it."""
        return self.total_after <= self.lifetime_epsilon


class Device:
    """One person's device.

    It draws from the operating system's generator and nothing else: no argument
    lets a seeded one in.

    >>> import tempfile, pathlib
    >>> from tacit.privacy.scale import RatingScale
    >>> policy = Policy.make("bounded-laplace", RatingScale.parse("1:5:1"), "1")
    >>> folder = tempfile.TemporaryDirectory()
    >>> with Device(pathlib.Path(folder.name) / "ledger", lifetime_epsilon=50) as device:
    ...     device.consent(policy)
    ...     first = device.rate("film-1", 4)
    ...     again = device.rate("film-1", 4)
    ...     first == again, device.epsilon_spent
    (True, Decimal('1'))
    >>> folder.cleanup()
    """

    def __init__(self, ledger: str | Path, *, lifetime_epsilon: str | float | Decimal | None = None) -> None:
        """Open the device kept in a ledger file, or make a new one with a lifetime cap."""
        self._lock = threading.RLock()
        self._ledger = Ledger(ledger)
        try:
            self._history = History()
            for record in self._ledger.records:
                self._history.replay(record)
            self._settle_cap(lifetime_epsilon)
        except BaseException:
            self._ledger.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the ledger."""
        self._ledger.close()

    @property
    def policy(self) -> Policy | None:
        """The policy consented to, or None."""
        return self._history.policy

    @property
    def lifetime_epsilon(self) -> Decimal:
        """The most this device will ever spend, as a pure sum."""
        return self._history.cap

    @property
    def epsilon_spent(self) -> Decimal:
        """The pure sum spent so far."""
        return self._history.spent

    def consent(self, policy: Policy) -> None:
        """Agree to report under a policy, after verifying it again from its integers."""
        verified = Policy.from_json(policy.to_json())
        with self._lock:
            if self.policy != verified:
                self._record({"kind": "consent", "policy": verified.to_json().decode()})

    def withdraw(self) -> None:
        """Take the consent back: nothing more is said, not even again."""
        with self._lock:
            if self.policy is not None:
                self._record({"kind": "withdraw"})

    def change_cap(self, lifetime_epsilon: str | float | Decimal) -> None:
        """Set another lifetime cap; what is spent stays spent."""
        with self._lock:
            self._record({"kind": "cap", "epsilon": decimal_text(parse_cap(lifetime_epsilon))})

    def quote(self, ratings: RatingsByItem, *, change: bool = False) -> Quote:
        """Say what these ratings would cost; nothing is said or spent.

        A rating said before costs nothing. One that differs from before is
        refused, or with `change` charged in full as a new revision.
        """
        with self._lock:
            policy = self._consented()
            # In order of item: the order a person gave their ratings in may tell them.
            wanted = {name: on_scale(policy.scale, rating) for name, rating in sorted(by_item(ratings).items())}
            new = tuple(item for item, rating in wanted.items() if not self._was_said(item, rating, change=change))
            charge = EXACT.multiply(policy.epsilon, Decimal(len(new)))
            after = add_exactly(self.epsilon_spent, charge)
            return Quote(policy.id, wanted, new, charge, after, self.lifetime_epsilon, change)

    def spend(self, quote: Quote) -> list[Report]:
        """Say the quoted ratings: draw and charge the new ones, repeat what was said of the others."""
        with self._lock:
            fresh = self.quote(quote.ratings, change=quote.change)
            if fresh != quote:
                raise DeviceError("the ledger or the policy has changed since this quote; ask for a new one")
            if not fresh.within_cap:
                raise BudgetError(
                    f"{len(fresh.new)} new ratings would bring the total to {fresh.total_after}, over the lifetime "
                    f"cap of {self.lifetime_epsilon}; rate fewer, or raise the cap knowingly with change_cap"
                )
            self._record(*(entry_record(entry) for entry in self._drawn(self._consented(), fresh)))
            return [self._report(item) for item in fresh.ratings]

    def rate(self, item: str | int, rating: float | Decimal, *, change: bool = False) -> Report:
        """Say one rating: perturbed once, remembered, charged."""
        with self._lock:
            return self.spend(self.quote({item_name(item): rating}, change=change))[0]

    def reports(self) -> list[Report]:
        """Return the latest report on every item, in order of item, for sending again."""
        self._consented()
        return [self._report(item) for item in sorted(self._history.said)]

    def true_ratings(self) -> dict[str, float]:
        """Return the person's own ratings, for ranking on this device."""
        return {item: float(entry.rating) for item, entry in self._history.said.items()}

    def rank_items(self, items: ItemModel) -> PersonalRanking:
        """Rank published items by the person's own true ratings; nothing is said or spent, and no consent needed."""
        with self._lock:
            for scale in self._history.scales():
                if scale != items.scale:
                    raise DeviceError(
                        f"these items were learned from ratings on the scale {items.scale}, but this device rates on "
                        f"{scale}; fetch an item model for that one"
                    )
            return rank_items(items, self.true_ratings())

    def totals(self, *, delta: float = 1e-6) -> Totals:
        """Return what was spent, as a pure sum and as an (epsilon, delta) total."""
        return total_loss(self._history.reports_per_policy(), delta=delta)

    def export(self) -> dict[str, Any]:
        """Return the account for the person to keep or show: everything said and spent, no true rating."""
        return self._history.export()

    def _settle_cap(self, lifetime_epsilon: str | float | Decimal | None) -> None:
        if lifetime_epsilon is None:
            if not self._history.has_cap:
                raise DeviceError("a new device needs a lifetime cap; give lifetime_epsilon, such as 50")
        elif not self._history.has_cap:
            self.change_cap(lifetime_epsilon)
        elif parse_cap(lifetime_epsilon) != self.lifetime_epsilon:
            raise DeviceError(
                f"this device has the lifetime cap {self.lifetime_epsilon}, not {lifetime_epsilon}; "
                "leave it out, or call change_cap"
            )

    def _consented(self) -> Policy:
        if self.policy is None:
            raise ConsentError("no consent was given; show the person the policy, then call consent(policy)")
        return self.policy

    def _was_said(self, item: str, rating: Decimal, *, change: bool) -> bool:
        said = self._history.said.get(item)
        if said is None:
            return False
        if Decimal(said.rating) == rating:
            return True
        if not change:
            raise RatingChangedError(
                f"item {item} was rated differently before; a change is a new report at full charge and is "
                "visible as a change: pass change=True if that is meant"
            )
        return False

    def _drawn(self, policy: Policy, quote: Quote) -> list[LedgerEntry]:
        ratings = [quote.ratings[item] for item in quote.new]
        ranks = policy.scale.ranks_of([float(rating) for rating in ratings])
        symbols = policy.channel.draw(ranks, operating_system_words(len(ranks)))
        epsilon = decimal_text(policy.epsilon)
        return [
            LedgerEntry(item, decimal_text(rating), policy.id, int(symbol), self._next_revision(item), epsilon)
            for item, rating, symbol in zip(quote.new, ratings, symbols, strict=True)
        ]

    def _next_revision(self, item: str) -> int:
        said = self._history.said.get(item)
        return 0 if said is None else said.revision + 1

    def _report(self, item: str) -> Report:
        entry = self._history.said[item]
        return Report(entry.policy, entry.item, entry.symbol, entry.revision)

    def _record(self, *records: dict[str, Any]) -> None:
        """Make records durable first, true second."""
        if records:
            self._ledger.append(*records)
        for record in records:
            self._history.replay(record)
