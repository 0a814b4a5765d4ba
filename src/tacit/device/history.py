"""A device's history: what the records of its ledger add up to."""

from __future__ import annotations

from collections import Counter
from decimal import Context, Decimal, Inexact
from typing import TYPE_CHECKING, Any

from tacit.device.ledger import LedgerEntry, entry_of
from tacit.errors import EpsilonError, InvalidInputError, LedgerError
from tacit.privacy.exact import decimal_text, parse_canonical_decimal, to_decimal
from tacit.privacy.policy import Policy

if TYPE_CHECKING:
    from tacit.privacy.scale import RatingScale

# Budget sums must be exact: a sum that would need rounding is an error instead.
EXACT = Context(prec=80, traps=[Inexact])

_EXPORTED = ("item", "policy", "symbol", "revision", "epsilon")


def add_exactly(first: Decimal, second: Decimal) -> Decimal:
    """Add two amounts of epsilon without rounding."""
    return EXACT.add(first, second)


def parse_cap(lifetime_epsilon: str | float | Decimal) -> Decimal:
    """Read a lifetime cap."""
    cap = to_decimal(lifetime_epsilon)
    if cap is None or cap <= 0:
        raise EpsilonError(f"lifetime epsilon {lifetime_epsilon} is not a positive number; 50 is a usual cap")
    return cap


class History:
    """Consent, cap, reports and spending, in the order they were recorded."""

    def __init__(self) -> None:
        """Start with nothing agreed, said or spent."""
        self.cap = Decimal(0)
        self.has_cap = False
        self.spent = Decimal(0)
        self.policy: Policy | None = None
        self.policies: dict[str, Policy] = {}
        self.entries: list[LedgerEntry] = []
        self.said: dict[str, LedgerEntry] = {}

    def replay(self, record: dict[str, Any]) -> None:
        """Take one record into account."""
        try:
            self._take(record)
        except (KeyError, TypeError, InvalidInputError) as error:
            raise LedgerError(
                f"the ledger holds a record that this tacit cannot read ({error}); update tacit"
            ) from error

    def _take(self, record: dict[str, Any]) -> None:
        match record.get("kind"):
            case "cap":
                self.cap, self.has_cap = parse_cap(parse_canonical_decimal(record["epsilon"])), True
            case "consent":
                self.policy = Policy.from_json(record["policy"])
                self.policies[self.policy.id] = self.policy
            case "withdraw":
                self.policy = None
            case "report":
                entry = entry_of(record)
                self._check(entry)
                self.spent = add_exactly(self.spent, Decimal(entry.epsilon))
                self.entries.append(entry)
                self.said[entry.item] = entry
            case unknown:
                raise LedgerError(f"the ledger holds a record {unknown!r} that this tacit does not know; update tacit")

    def _check(self, entry: LedgerEntry) -> None:
        """Refuse an entry that its own policy could not have produced at its price."""
        channel = self.policies[entry.policy].channel
        if Decimal(entry.epsilon) != channel.epsilon or entry.symbol >= channel.weights.symbols:
            raise LedgerError(f"the ledger's entry for item {entry.item} does not fit its policy; restore the file")

    def reports_per_policy(self) -> dict[Policy, int]:
        """Count the reports made under each policy."""
        counts = Counter(entry.policy for entry in self.entries)
        return {self.policies[policy]: count for policy, count in counts.items()}

    def scales(self) -> set[RatingScale]:
        """Return the scales of all ratings that count, and of the policy consented to."""
        current = set() if self.policy is None else {self.policy.scale}
        return current | {self.policies[entry.policy].scale for entry in self.said.values()}

    def export(self) -> dict[str, Any]:
        """Return everything said and spent, without the true ratings."""
        return {
            "format": "tacit-ledger-export/1",
            "lifetime_epsilon": decimal_text(self.cap),
            "epsilon_spent": decimal_text(self.spent),
            "entries": [{name: getattr(entry, name) for name in _EXPORTED} for entry in self.entries],
        }
