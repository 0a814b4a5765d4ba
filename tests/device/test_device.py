from __future__ import annotations

import inspect
import json
import threading
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.device import Device, Quote
from tacit.errors import (
    BudgetError,
    ConsentError,
    DeviceError,
    EpsilonError,
    LedgerError,
    PrivacyClaimError,
    RatingChangedError,
    RatingError,
    ReportError,
)
from tacit.privacy.policy import Policy, PolicyClaim
from tacit.privacy.scale import RatingScale

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STARS = RatingScale.parse("1:5:1")


@pytest.fixture
def device(tmp_path: Path, policy: Policy) -> Iterator[Device]:
    with Device(tmp_path / "ledger", lifetime_epsilon=10) as device:
        device.consent(policy)
        yield device


def test_nothing_is_said_before_consent_or_after_its_withdrawal(tmp_path: Path, policy: Policy) -> None:
    with Device(tmp_path / "ledger", lifetime_epsilon=10) as device:
        for attempt in (lambda: device.rate("a", 3), lambda: device.quote({"a": 3})):
            with pytest.raises(ConsentError, match="consent"):
                attempt()
        device.consent(policy)
        device.rate("a", 3)
        device.withdraw()
        with pytest.raises(ConsentError):
            device.rate("a", 3)
        assert device.epsilon_spent == 1


def test_the_same_rating_again_is_the_same_report_at_no_charge_also_after_a_restart(
    tmp_path: Path, policy: Policy
) -> None:
    with Device(tmp_path / "ledger", lifetime_epsilon=10) as device:
        device.consent(policy)
        first = device.rate("a", 4)
        assert all(device.rate("a", 4.0) == first for _ in range(50))
    with Device(tmp_path / "ledger") as device:
        assert device.policy == policy
        assert device.rate("a", np.float32(4)) == first
        assert device.epsilon_spent == 1


def test_a_changed_rating_is_refused_or_drawn_afresh_at_full_charge_also_when_it_returns(device: Device) -> None:
    first = device.rate("a", 4)
    with pytest.raises(RatingChangedError, match="change=True"):
        device.rate("a", 5)
    assert device.epsilon_spent == 1
    second = device.rate("a", 5, change=True)
    assert (first.revision, second.revision) == (0, 1)
    back = device.rate("a", 4, change=True)
    assert back.revision == 2
    assert device.epsilon_spent == 3
    assert device.rate("a", 4, change=True) == back
    assert device.epsilon_spent == 3


def test_returning_to_an_earlier_rating_is_a_fresh_draw(tmp_path: Path, policy: Policy) -> None:
    with Device(tmp_path / "ledger", lifetime_epsilon=1000) as device:
        device.consent(policy)
        symbols = {device.rate("a", rating, change=True).symbol for _ in range(40) for rating in (4, 5)}
    assert len(symbols) > 20  # 80 draws from 64 symbols; a memo by value would give two


def test_a_quote_spends_nothing_and_says_what_spending_would(device: Device) -> None:
    device.rate("a", 4)
    quote = device.quote({"a": 4, "b": 2, "c": 5})
    assert (quote.charge, quote.total_after, quote.new, quote.within_cap) == (2, 3, ("b", "c"), True)
    assert device.epsilon_spent == 1
    reports = device.spend(quote)
    assert [report.item for report in reports] == ["a", "b", "c"]
    assert device.epsilon_spent == 3


def test_an_outdated_or_forged_quote_is_refused(device: Device, policy: Policy) -> None:
    quote = device.quote({"a": 4})
    device.rate("b", 1)
    with pytest.raises(DeviceError, match="changed since"):
        device.spend(quote)
    forged = Quote(policy.id, {"z": Decimal(1)}, (), Decimal(0), Decimal(0), Decimal(10**6), change=False)
    with pytest.raises(DeviceError, match="changed since"):
        device.spend(forged)
    quote = device.quote({"a": 4})
    device.consent(Policy.make("duchi", STARS, "1"))
    with pytest.raises(DeviceError, match="changed since"):
        device.spend(quote)
    assert device.epsilon_spent == 1


def test_a_quote_that_lies_about_itself_gets_nothing_past_the_cap(device: Device) -> None:
    class Liar(Quote):
        within_cap = True  # type: ignore[assignment]

        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]

    lie = Liar("", {str(item): Decimal(3) for item in range(11)}, (), Decimal(0), Decimal(0), Decimal(0), change=False)
    with pytest.raises(DeviceError):
        device.spend(lie)
    assert device.epsilon_spent == 0


def test_the_order_in_which_ratings_were_given_does_not_come_out(device: Device) -> None:
    reports = device.spend(device.quote({"m9": 5, "m2": 4, "m5": 3, "m1": 1}))
    assert [report.item for report in reports] == ["m1", "m2", "m5", "m9"]
    device.rate("m3", 2)
    assert [report.item for report in device.reports()] == ["m1", "m2", "m3", "m5", "m9"]


def test_after_withdrawal_nothing_is_sent_again(device: Device) -> None:
    device.rate("a", 4)
    device.withdraw()
    with pytest.raises(ConsentError):
        device.reports()
    assert len(device.export()["entries"]) == 1


def test_the_lifetime_cap_is_never_crossed_and_a_batch_is_all_or_nothing(device: Device) -> None:
    device.spend(device.quote({str(item): 3 for item in range(9)}))
    with pytest.raises(BudgetError, match="lifetime cap of 10"):
        device.spend(device.quote({"x": 1, "y": 2}))
    assert device.epsilon_spent == 9
    device.rate("x", 1)
    with pytest.raises(BudgetError):
        device.rate("y", 2)
    assert device.rate("x", 1).item == "x"
    assert device.epsilon_spent == 10
    device.change_cap(11)
    device.rate("y", 2)
    assert device.epsilon_spent == 11


def test_the_cap_compares_exactly_where_floats_would_fail(tmp_path: Path) -> None:
    with Device(tmp_path / "ledger", lifetime_epsilon="0.3") as device:
        device.consent(Policy.make("duchi", STARS, "0.1"))
        for item in range(3):
            device.rate(item, 3)
        with pytest.raises(BudgetError):
            device.rate(3, 3)
        assert device.epsilon_spent == Decimal("0.3")


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5), st.booleans()), max_size=30), st.integers(1, 9))
@settings(max_examples=25)
def test_any_sequence_of_ratings_keeps_sum_and_cap(
    tmp_path_factory: Any, steps: list[tuple[int, int, bool]], cap: int
) -> None:
    path = tmp_path_factory.mktemp("device") / "ledger"
    policy = Policy.make("duchi", STARS, "0.7")
    with Device(path, lifetime_epsilon=cap) as device:
        device.consent(policy)
        for item, rating, change in steps:
            try:
                device.rate(item, rating, change=change)
            except DeviceError:
                continue
            assert device.true_ratings()[str(item)] == rating
        spent, reports = device.epsilon_spent, device.reports()
        assert spent == Decimal("0.7") * len(device.export()["entries"]) <= cap
    with Device(path) as device:
        assert (device.epsilon_spent, device.reports()) == (spent, reports)


@pytest.mark.parametrize(
    "rating",
    [5.5, 0, 3.3, float("nan"), float("inf"), "4", None, True, [4], 4j, Decimal("sNaN"), 10**400, Decimal("1e999")],
)
def test_what_is_no_rating_is_refused_and_costs_nothing(device: Device, rating: Any) -> None:
    with pytest.raises(RatingError):
        device.rate("a", rating)
    assert device.epsilon_spent == 0
    assert device.reports() == []


@pytest.mark.parametrize("item", ["", "x" * 300, "a\nb", "\ud800", 2**63, 1.5, None, True])
def test_what_is_no_item_is_refused_and_costs_nothing(device: Device, item: Any) -> None:
    with pytest.raises(ReportError):
        device.rate(item, 3)
    assert device.epsilon_spent == 0


@pytest.mark.parametrize("cap", [0, -1, "nan", "inf", "much"])
def test_a_senseless_cap_is_refused(tmp_path: Path, cap: Any) -> None:
    with pytest.raises(EpsilonError, match="positive"):
        Device(tmp_path / "ledger", lifetime_epsilon=cap)


def test_a_new_device_needs_a_cap_and_an_old_one_keeps_its_own(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="needs a lifetime cap"):
        Device(tmp_path / "ledger")
    Device(tmp_path / "ledger", lifetime_epsilon=5).close()
    Device(tmp_path / "ledger", lifetime_epsilon="5.0").close()
    with pytest.raises(DeviceError, match="change_cap"):
        Device(tmp_path / "ledger", lifetime_epsilon=6)


def test_a_malicious_policy_is_refused_even_when_built_around_the_checks(device: Device, policy: Policy) -> None:
    loose = Policy.make("bounded-laplace", STARS, "5")
    claim = PolicyClaim("bounded-laplace", STARS, Decimal("0.1"), loose.claim.values, loose.claim.weights)
    with pytest.raises(PrivacyClaimError, match="do not use it"):
        device.consent(Policy(claim, policy.channel))
    assert device.policy == policy


def test_a_new_policy_does_not_make_a_device_repeat_itself(device: Device) -> None:
    """Otherwise a provider could average the noise away by publishing one policy after another."""
    first = device.rate("a", 4)
    device.consent(Policy.make("duchi", STARS, "1"))
    assert device.rate("a", 4) == first
    assert device.rate("b", 4).policy != first.policy
    assert device.epsilon_spent == 2


def test_no_seed_reaches_a_device(tmp_path: Path, policy: Policy) -> None:
    parameters = set(inspect.signature(Device).parameters) | set(inspect.signature(Device.rate).parameters)
    assert parameters == {"ledger", "lifetime_epsilon", "self", "item", "rating", "change"}
    runs = []
    for run in range(2):
        np.random.seed(0)  # noqa: NPY002 - the accident this test is about
        with Device(tmp_path / str(run), lifetime_epsilon=100) as device:
            device.consent(policy)
            runs.append([device.rate(item, 3).symbol for item in range(30)])
    assert runs[0] != runs[1]


def test_the_export_holds_the_account_and_no_true_rating(device: Device) -> None:
    for item in range(5):
        device.rate(item, 1 + item)
    exported = device.export()
    assert exported["epsilon_spent"] == "5"
    assert set(exported["entries"][0]) == {"item", "policy", "symbol", "revision", "epsilon"}
    assert "rating" not in json.dumps(exported)


def test_a_closed_device_says_nothing(device: Device) -> None:
    device.close()
    with pytest.raises(LedgerError, match="is closed"):
        device.rate("a", 3)
    device.close()


def test_both_totals_are_shown(device: Device) -> None:
    device.spend(device.quote({str(item): 3 for item in range(10)}))
    totals = device.totals()
    assert totals.pure == 10
    assert totals.approximate < 10


def test_threads_share_one_budget(device: Device) -> None:
    refused = []

    def rate_many(start: int) -> None:
        for item in range(start, start + 5):
            try:
                device.rate(item, 3)
            except BudgetError:
                refused.append(item)

    threads = [threading.Thread(target=rate_many, args=(100 * number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert device.epsilon_spent == 10
    assert len(refused) == 10
