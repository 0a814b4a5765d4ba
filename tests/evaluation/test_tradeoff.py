from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tacit.errors import MechanismError
from tacit.evaluation.curves import STYLES, spread_apart
from tacit.evaluation.figures import render
from tacit.evaluation.fold import FoldResult
from tacit.evaluation.metrics import Metrics
from tacit.evaluation.rows import Row
from tacit.evaluation.setting import DEVICE, PROVIDER
from tacit.evaluation.tradeoff import Tradeoff, TradeoffPlan
from tacit.evaluation.tradeoff_advice import advice, close_from, heard_from, standard_error
from tacit.evaluation.tradeoff_figures import error_of, pattern_figure, tradeoff_figure, user_level_figure
from tacit.evaluation.tradeoff_tables import control_rows, largest_deviation, place_rows, winner_rows
from tacit.evaluation.user_level import UserLevel
from tacit.privacy.mechanisms import MECHANISMS

if TYPE_CHECKING:
    from tacit.evaluation.setting import Setting

PLAN = TradeoffPlan(("tailored", "duchi"), ("3", "0.1", "1"))
# RMSE by mechanism and epsilon at the device; the provider's is 0.1 more.
ERRORS = {
    "tailored": {"0.1": 0.949, "1": 0.92, "3": 0.905},
    "duchi": {"0.1": 0.96, "1": 0.94, "3": 0.93},
}


def row_of(setting: Setting) -> Row:
    """Invent a row of two folds, the second worse by a hundredth."""
    if setting.epsilon is None:
        error = {"global-mean": 1.1}.get(setting.model, 0.9)
        error = 0.95 if setting.options.to_document().get("reports") is False else error
    else:
        blind = setting.options.to_document()["pattern"] is False
        error = ERRORS[setting.mechanism][setting.epsilon] + 0.1 * blind
    error += 0.1 * (setting.at == PROVIDER and setting.epsilon is not None)
    noise = 0.001 if setting.epsilon == "0.1" else 0.0
    results = tuple(
        FoldResult(Metrics(error + change, *[0.5] * 11, users=9), 50, 50, 1.0, 9) for change in (0.0, 0.01 + noise)
    )
    return Row(setting, "invented", "0" * 64, "1:5:1", 3.4, results)


MADE = Tradeoff(PLAN, tuple(row_of(setting) for setting in PLAN.settings()))


def level(mechanism: str, epsilon: float, deviation: float, total: float = 10.0) -> UserLevel:
    return UserLevel(mechanism, 65, total, epsilon, deviation)


def test_the_plan_has_every_curve_and_every_control_once() -> None:
    settings = TradeoffPlan().settings()
    assert len(settings) == len(set(settings)) == 8 * 7 * 2 + 2 * 7 + 4
    described = [(one.mechanism, one.model, one.at, one.options.to_document()) for one in settings[-18:]]
    assert {name for name, _, at, options in described[:14] if at == DEVICE and not options["pattern"]} == {
        "bounded-laplace",
        "tailored",
    }
    assert [(name, model, at) for name, model, at, _ in described[14:]] == [
        ("none", "channel-mf", "provider"),
        ("none", "channel-mf", "device"),
        ("none", "global-mean", "provider"),
        ("none", "channel-mf", "device"),
    ]
    assert [options["reports"] for *_, model, _, options in [described[15], described[17]] if model] == [True, False]


def test_a_control_without_the_pattern_is_always_there() -> None:
    assert list(TradeoffPlan(("hybrid", "duchi")).blind_curves(DEVICE)) == ["hybrid"]
    assert TradeoffPlan().blind_curves(PROVIDER) == {}


@pytest.mark.parametrize("name", ["laplace", "none", "pg-mf", "gauss"])
def test_what_is_no_channel_is_refused(name: str) -> None:
    with pytest.raises(MechanismError, match=rf"'{name}' is no channel; choose among {', '.join(MECHANISMS)}"):
        TradeoffPlan((name,))


def test_curves_are_by_rising_epsilon_whatever_the_order_asked_for() -> None:
    assert [row.setting.epsilon for row in MADE.curves(DEVICE)["duchi"]] == ["0.1", "1", "3"]
    assert place_rows(MADE, PROVIDER)[0] == ["tailored", "1.0545", "1.0250", "1.0100"]
    assert [line[0] for line in place_rows(MADE, DEVICE)] == ["tailored", "duchi", "tailored, pattern off"]
    assert [line[1:] for line in control_rows(MADE)] == [
        ["provider", "1.1050"],
        ["device", "0.9550"],
        ["provider", "0.9050"],
        ["device", "0.9050"],
    ]
    assert largest_deviation(MADE) == pytest.approx(0.011 / 2**0.5)


def test_advice_is_read_off_the_figures() -> None:
    assert close_from(MADE) == {"tailored": "3", "duchi": None}
    assert heard_from(MADE, DEVICE) == {"tailored": "1", "duchi": "1"}
    assert heard_from(MADE, PROVIDER) == {"tailored": "0.1", "duchi": "0.1"}
    close, device, provider = advice(MADE)
    assert close.startswith(
        "On the device, RMSE is within 1 % of the non-private 0.9050 from epsilon 3 on with tailored"
    )
    assert close.endswith(", and at no epsilon tried with duchi.")
    assert device.endswith("alone (0.9550) by more than 2 standard errors from epsilon 1 on with tailored and duchi.")
    assert provider.endswith("(1.1050) by more than 2 standard errors from epsilon 0.1 on with tailored and duchi.")


def test_the_standard_error_is_pooled_and_corrected() -> None:
    found = standard_error([np.array([0.0, 0.2]), np.array([1.0, 1.0])])
    assert found == pytest.approx((0.01 * 1.5) ** 0.5)


def test_every_curve_of_a_picture_has_a_style_that_grey_can_tell_apart() -> None:
    blind = ("bounded-laplace-blind", "tailored-blind", "other-blind")
    styles = [STYLES[name] for name in (*MECHANISMS, *blind, "unheard", "baseline")]
    assert len({(style.dashes, style.marker) for style in styles}) == len(styles)


def test_pictures_name_every_curve() -> None:
    levels = [level(name, epsilon, 9 / epsilon) for name in PLAN.mechanisms for epsilon in (0.2, 0.5)]
    for figure, names in (
        (tradeoff_figure(MADE), [*PLAN.mechanisms, "constant", "no report", "non-private"]),
        (pattern_figure(MADE), ["tailored, pattern off", "no report"]),
        (user_level_figure(levels, MADE), ["noise deviation of one report", "delta = 1e-6", "interpolated"]),
    ):
        picture = render(figure, "svg").decode()
        assert [name for name in names if name not in picture] == []
    assert render(tradeoff_figure(MADE), "png").startswith(b"\x89PNG")


def test_levels_outside_what_was_measured_are_drawn_without_errors() -> None:
    low = [level("duchi", 0.01, 90.0, total) for total in (2.0, 5.0)]
    assert error_of(low[0], MADE, DEVICE) is None
    assert "interpolated" not in render(user_level_figure(low, MADE), "svg").decode()


def test_winners_have_the_least_noise() -> None:
    levels = [level("duchi", 1.0, 6.0), level("tailored", 1.0, 4.0)]
    expected = ["65", "10", "tailored", "1", "4", "duchi", "6", "1.0250", "0.9250"]
    assert winner_rows(levels, MADE) == [expected]
    assert winner_rows(levels[:1], MADE)[0][5:7] == ["-", "-"]


def test_labels_stay_within_the_panel() -> None:
    assert spread_apart([-0.1, 0.0, 0.02], 0.1, least=0.0) == pytest.approx([0.0, 0.1, 0.2])
