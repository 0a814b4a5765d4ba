"""PG-MF keeps its privacy promise, counts real bytes, and learns where there is something to learn from."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import EpsilonError, InvalidInputError, RatingError, ReportError
from tacit.evaluation.pg_mf import PgMfOptions, PgMfRun, _Provider, run_pg_mf
from tacit.evaluation.pg_mf_devices import DeviceRatings, Devices
from tacit.evaluation.pg_mf_wire import (
    LARGEST_FACTOR,
    AnswerFormat,
    Answers,
    Broadcast,
    RandomSign,
    Traffic,
    decode_broadcast,
    encode_broadcast,
)
from tacit.privacy.scale import RatingScale
from tacit.tables import read_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

STARS = RatingScale.parse("1:5:1")
NO_NOISE = 1e6

in_unit = st.floats(-1, 1)
epsilons = st.floats(1e-4, 10)


def device_ratings(triples: Sequence[tuple[int, int, float]], shape: tuple[int, int]) -> DeviceRatings:
    users, items, ratings = zip(*triples, strict=True)
    codes = np.array([users, items], dtype=np.int32)
    return DeviceRatings(STARS, codes[0], codes[1], np.array(ratings, dtype=np.float32), shape)


def low_rank_world(people: int, items: int, seed: int) -> DeviceRatings:
    """People of opposite tastes about items of two kinds, so that no person's mean says anything."""
    rng = np.random.default_rng(seed)
    liking = 1.6 * np.outer(rng.choice([-1, 1], people), rng.choice([-1, 1], items))
    ratings = np.clip(np.rint(3 + liking + 0.5 * rng.standard_normal(liking.shape)), 1, 5)
    users, columns = np.nonzero(rng.random(liking.shape) < 0.7)
    return DeviceRatings(
        STARS,
        users.astype(np.int32),
        columns.astype(np.int32),
        ratings[users, columns].astype(np.float32),
        liking.shape,
    )


def held_out(ratings: DeviceRatings, seed: int) -> tuple[DeviceRatings, NDArray[np.int64]]:
    """Return the ratings without a random tenth, and which those are."""
    order = np.random.default_rng(seed).permutation(len(ratings.ratings))
    test, train = np.split(order, [len(order) // 10])
    kept = {name: getattr(ratings, name)[train] for name in ("users", "items", "ratings")}
    return dataclasses.replace(ratings, **kept), test


def rmse(predicted: NDArray[Any] | float, truth: NDArray[np.float32]) -> float:
    return float(np.sqrt(np.mean((predicted - truth) ** 2.0)))


def held_out_error(run: PgMfRun, ratings: DeviceRatings, test: NDArray[np.int64]) -> float:
    return rmse(run.predict(ratings.users[test], ratings.items[test]), ratings.ratings[test])


def published_chance(x: Fraction, odds: Fraction) -> Fraction:
    """The chance of plus as published, with odds for e^e."""
    return (x * (odds - 1) + odds + 1) / (2 * (odds + 1))


class TestRandomSign:
    @given(st.fractions(-1, 1), st.fractions(-1, 1), st.fractions(Fraction(1001, 1000), 10**6))
    def test_published_law_never_exceeds_its_odds(self, x: Fraction, other: Fraction, odds: Fraction) -> None:
        plus, other_plus = published_chance(x, odds), published_chance(other, odds)
        assert plus <= odds * other_plus
        assert 1 - plus <= odds * (1 - other_plus)

    @given(st.fractions(Fraction(1001, 1000), 10**6))
    def test_published_law_attains_its_odds(self, odds: Fraction) -> None:
        one = Fraction(1)
        assert published_chance(one, odds) == odds * published_chance(-one, odds)

    @given(in_unit, epsilons)
    def test_chance_is_the_published_one(self, x: float, epsilon: float) -> None:
        expected = published_chance(Fraction(x), Fraction(math.exp(epsilon)))
        assert RandomSign(epsilon).chance_of_plus(np.array([x]))[0] == pytest.approx(float(expected), rel=1e-12)

    @given(in_unit, in_unit, epsilons)
    def test_loss_is_at_most_epsilon(self, x: float, other: float, epsilon: float) -> None:
        plus, other_plus = RandomSign(epsilon).chance_of_plus(np.array([x, other]))
        loss = max(abs(math.log(plus / other_plus)), abs(math.log((1 - plus) / (1 - other_plus))))
        assert loss <= epsilon * (1 + 1e-9) + 1e-11

    @given(in_unit, epsilons, st.integers(1, 10_000))
    def test_estimate_is_unbiased(self, x: float, epsilon: float, cells: int) -> None:
        sign = RandomSign(epsilon)
        plus, size = float(sign.chance_of_plus(np.array([x]))[0]), sign.magnitude(cells)
        assert plus * size - (1 - plus) * size == pytest.approx(cells * x, abs=1e-12 * size)

    def test_clips_what_is_outside(self) -> None:
        sign = RandomSign(1.0)
        assert (
            sign.chance_of_plus(np.array([-7.0, 7.0])).tolist() == sign.chance_of_plus(np.array([-1.0, 1.0])).tolist()
        )

    def test_without_noise_follows_the_sign(self) -> None:
        drawn = RandomSign(NO_NOISE).draw(np.repeat([-1.0, 1.0], 1000), np.random.default_rng(0))
        assert drawn.tolist() == [False] * 1000 + [True] * 1000

    def test_draws_by_its_chance(self) -> None:
        sign, count = RandomSign(0.7), 200_000
        chance = float(sign.chance_of_plus(np.array([0.4]))[0])
        share = sign.draw(np.full(count, 0.4), np.random.default_rng(1)).mean()
        assert abs(share - chance) < 5 * math.sqrt(0.25 / count)

    def test_noise_of_an_average_is_as_computed(self) -> None:
        sign, cells, devices, repeats = RandomSign(0.5), 12, 300, 2000
        rng = np.random.default_rng(2)
        signs = np.where(sign.draw(np.zeros(devices * repeats), rng), 1, -1).reshape(repeats, devices)
        in_cell = rng.integers(cells, size=signs.shape) == 0
        averages = np.sum(signs * in_cell, axis=1) * sign.magnitude(cells) / devices
        assert averages.var() == pytest.approx(sign.noise_variance(cells, devices), rel=0.15)


class TestBroadcast:
    @given(st.integers(1, 30), st.integers(1, 5), st.integers(1, 65535), st.integers(0, 2**64 - 1))
    def test_survives_the_wire(self, items: int, rank: int, rows: int, seed: int) -> None:
        factors = np.random.default_rng(seed).normal(size=(items, rank)).astype(np.float32)
        message = encode_broadcast(Broadcast(factors, rows, seed))
        heard = decode_broadcast(message)
        assert len(message) == 20 + 4 * items * rank
        assert (heard.projected_rows, heard.projection_seed) == (rows, seed)
        assert heard.item_factors.tobytes() == factors.tobytes()

    @pytest.mark.parametrize("cut", [0, 3, 19, 20, 43])
    def test_cut_message_is_refused(self, cut: int) -> None:
        message = encode_broadcast(Broadcast(np.ones((2, 3), np.float32), 5, 1))
        with pytest.raises(InvalidInputError, match="fetch it again"):
            decode_broadcast(message[:cut])

    @pytest.mark.parametrize(
        ("place", "bytes_there", "complaint"),
        [
            (0, b"PGV2", "does not begin"),
            (4, b"\x03", "takes 56 bytes, not 44"),
            (10, b"\x00\x00", "0 projected rows"),
            (20, np.float32("nan").tobytes(), "not a number from -1000 to 1000"),
            (40, np.float32("inf").tobytes(), "not a number from -1000 to 1000"),
            (24, np.float32(-1001).tobytes(), "not a number from -1000 to 1000"),
            (44, b"\x00", "takes 44 bytes, not 45"),
        ],
    )
    def test_malformed_message_is_refused(self, place: int, bytes_there: bytes, complaint: str) -> None:
        message = encode_broadcast(Broadcast(np.ones((2, 3), np.float32), 5, 1))
        with pytest.raises(InvalidInputError, match=complaint):
            decode_broadcast(message[:place] + bytes_there + message[place + len(bytes_there) :])

    @given(st.binary(max_size=64))
    def test_noise_is_refused_or_read(self, message: bytes) -> None:
        with pytest.raises(InvalidInputError):
            decode_broadcast(message)

    def test_broadcast_of_no_items_is_refused(self) -> None:
        with pytest.raises(InvalidInputError, match="0 items"):
            decode_broadcast(encode_broadcast(Broadcast(np.ones((1, 3), np.float32), 5, 1))[:4] + bytes(4) + bytes(12))

    def test_projection_is_public_and_of_the_published_law(self) -> None:
        message = encode_broadcast(Broadcast(np.ones((2000, 1), np.float32), 50, 9))
        mine, theirs = decode_broadcast(message).projection(), decode_broadcast(message).projection()
        assert np.array_equal(mine, theirs)
        assert mine.shape == (50, 2000)
        assert mine.var() == pytest.approx(1 / 50, rel=0.03)
        assert abs(mine.mean()) < 5 * math.sqrt(1 / 50 / mine.size)


@st.composite
def formats_and_answers(draw: st.DrawFn) -> tuple[AnswerFormat, Answers]:
    answer_format = AnswerFormat(draw(st.integers(1, 65535)), draw(st.integers(1, 1000)))
    cells = st.tuples(st.integers(0, answer_format.projected_rows - 1), st.integers(0, answer_format.rank - 1))
    drawn = draw(st.lists(st.tuples(cells, st.booleans()), min_size=1, max_size=20))
    rows, factors = (np.array([cell[part] for cell, _ in drawn], dtype=np.int64) for part in (0, 1))
    return answer_format, Answers(rows, factors, np.array([plus for _, plus in drawn]))


class TestAnswerFormat:
    @given(formats_and_answers())
    def test_survives_the_wire(self, example: tuple[AnswerFormat, Answers]) -> None:
        answer_format, answers = example
        messages = answer_format.encode(answers)
        heard = answer_format.decode(messages)
        assert messages.shape == (len(answers.rows), answer_format.size)
        assert all(np.array_equal(getattr(heard, name), getattr(answers, name)) for name in ("rows", "factors", "plus"))

    @pytest.mark.parametrize(
        ("rows", "rank", "size"), [(1, 1, 1), (64, 2, 1), (43, 3, 2), (50, 3, 2), (16384, 2, 2), (16385, 2, 3)]
    )
    def test_takes_no_more_bytes_than_the_numbers_need(self, rows: int, rank: int, size: int) -> None:
        answer_format = AnswerFormat(rows, rank)
        last = Answers(np.array([rows - 1]), np.array([rank - 1]), np.array([True]))
        assert answer_format.size == size
        assert int.from_bytes(answer_format.encode(last).tobytes(), "little") == 2 * rows * rank - 1

    def test_answer_beyond_the_last_cell_is_refused(self) -> None:
        messages = np.array([[5], [12]], dtype=np.uint8)
        with pytest.raises(ReportError, match=r"answer 12 \(number 2\) is over 11"):
            AnswerFormat(2, 3).decode(messages)

    @pytest.mark.parametrize(
        "messages", [np.zeros((4, 2), np.uint8), np.zeros(4, np.uint8), np.zeros((4, 1)), np.zeros((4, 0), np.uint8)]
    )
    def test_answer_of_another_size_is_refused(self, messages: NDArray[Any]) -> None:
        with pytest.raises(ReportError, match="not 1 bytes each"):
            AnswerFormat(2, 3).decode(messages)

    @pytest.mark.parametrize(("row", "factor"), [(2, 0), (-1, 0), (0, 3), (0, -1)])
    def test_cell_that_does_not_exist_is_not_written(self, row: int, factor: int) -> None:
        with pytest.raises(ReportError, match=f"row {row}, factor {factor} is not a cell of 2 rows x 3 factors"):
            AnswerFormat(2, 3).encode(Answers(np.array([row]), np.array([factor]), np.array([True])))


class TestDevices:
    def test_answer_is_the_textbook_gradient(self) -> None:
        """Against full matrices, one device at a time, with the same draws."""
        ratings = low_rank_world(12, 9, seed=3)
        factors = np.random.default_rng(4).normal(size=(9, 2)).astype(np.float32)
        broadcast, sign = Broadcast(factors, 4, 77), RandomSign(2.0)
        devices = Devices.holding(ratings, 0.5)
        heard = devices.hear(encode_broadcast(broadcast))
        answers = broadcast.answer_format().decode(devices.answer(heard, sign, np.random.default_rng(5)))

        rng = np.random.default_rng(5)
        rows, columns, uniforms = rng.integers(4, size=12), rng.integers(2, size=12), rng.random(12)
        for user in range(12):
            own = ratings.users == user
            rated, centred = factors[ratings.items[own]].astype(float), (ratings.ratings[own] - 3) / 2
            vector = np.linalg.solve(rated.T @ rated + 0.5 * np.eye(2), rated.T @ centred)
            gradient = np.zeros((9, 2))
            gradient[ratings.items[own]] = -2 * np.outer(centred - rated @ vector, vector)
            x = np.clip((broadcast.projection() @ gradient)[rows[user], columns[user]], -1, 1)
            chance = (x * (math.exp(2) - 1) + math.exp(2) + 1) / (2 * (math.exp(2) + 1))
            assert np.allclose(heard.vectors[user], vector)
            assert answers.plus[user] == (uniforms[user] < chance)
        assert np.array_equal(answers.rows, rows)
        assert np.array_equal(answers.factors, columns)

    def test_what_a_device_says_depends_on_its_own_ratings_only(self) -> None:
        ratings = low_rank_world(6, 8, seed=0)
        others = ratings.users != 0
        changed = dataclasses.replace(
            ratings, ratings=np.where(others, np.float32(6) - ratings.ratings, ratings.ratings)
        )
        message = encode_broadcast(Broadcast(np.random.default_rng(1).normal(size=(8, 2)).astype(np.float32), 3, 5))
        said = []
        for world in (ratings, changed):
            devices = Devices.holding(world, 1.0)
            heard = devices.hear(message)
            said.append((heard.vectors[0], devices.answer(heard, RandomSign(1.0), np.random.default_rng(2))[0]))
        assert np.array_equal(said[0][0], said[1][0])
        assert np.array_equal(said[0][1], said[1][1])

    @pytest.mark.parametrize(
        ("changes", "error", "complaint"),
        [
            ({"users": np.array([0, 2], np.int32)}, InvalidInputError, "user 2 is not one of 2"),
            ({"items": np.array([0, -1], np.int32)}, InvalidInputError, "item -1 is not one of 3"),
            ({"items": np.array([0.0, 1.0])}, InvalidInputError, "item codes are float64"),
            ({"ratings": np.array([1, 6], np.float32)}, RatingError, "rating 6 is outside 1 to 5"),
            ({"ratings": np.array([1, np.nan], np.float32)}, RatingError, "rating nan is outside"),
            ({"ratings": np.ones(3, np.float32)}, InvalidInputError, "do not match"),
            ({name: np.array([], np.int32) for name in ("users", "items", "ratings")}, InvalidInputError, "at least 1"),
        ],
    )
    def test_unusable_ratings_are_refused(
        self, changes: dict[str, Any], error: type[Exception], complaint: str
    ) -> None:
        with pytest.raises(error, match=complaint):
            dataclasses.replace(device_ratings([(0, 0, 1), (1, 2, 5)], (2, 3)), **changes)


class TestProvider:
    def test_average_estimates_the_projected_gradient(self) -> None:
        """Many devices of one taste: the step is their common gradient, as far as the projection keeps it."""
        people, items, options = 400_000, 6, PgMfOptions(rank=2, stabilisation=0)
        sign = RandomSign(1.0)
        provider = _Provider.starting((people, items), sign, options, np.random.default_rng(0))
        projection = decode_broadcast(provider.message()).projection().astype(float)
        cells = np.clip(projection @ np.random.default_rng(1).normal(0, 0.3, (items, 2)), -1, 1)
        rng = np.random.default_rng(2)
        rows, factors = rng.integers(len(cells), size=people), rng.integers(2, size=people)
        answers = Answers(rows, factors, sign.draw(cells[rows, factors], rng))
        stepped = provider.step(AnswerFormat(len(cells), 2).encode(answers), 1.0)
        noise = math.sqrt(sign.noise_variance(cells.size, people))
        assert np.all(np.abs(projection @ (provider.factors - stepped.factors) - cells) < 5 * noise)

    def test_answers_of_another_shape_are_refused(self) -> None:
        provider = _Provider.starting((2, 10), RandomSign(1.0), PgMfOptions(), np.random.default_rng(0))
        with pytest.raises(ReportError, match="over 29"):
            provider.step(np.array([[3], [30]], np.uint8), 1.0)


class TestRunPgMf:
    def test_same_seed_same_run(self) -> None:
        ratings = low_rank_world(40, 12, seed=0)
        first, again, other = (run_pg_mf(ratings, 1.0, rng=np.random.default_rng(seed)) for seed in (7, 7, 8))
        assert first.item_factors.tobytes() == again.item_factors.tobytes()
        assert first.user_vectors.tobytes() == again.user_vectors.tobytes()
        assert first.training_rmse == again.training_rmse
        assert first.item_factors.tobytes() != other.item_factors.tobytes()

    @given(st.integers(1, 9), st.integers(1, 12), st.integers(1, 4), st.integers(1, 5), st.integers(1, 300))
    def test_bytes_counted_are_those_of_the_messages(
        self, people: int, items: int, rank: int, rounds: int, rows: int
    ) -> None:
        options = PgMfOptions(rank=rank, rounds=rounds, projected_rows=rows)
        run = run_pg_mf(
            device_ratings([(0, 0, 4)], (people, items)), 1.0, options=options, rng=np.random.default_rng(0)
        )
        rows_used = min(rows, max(1, items // 2))
        down = len(encode_broadcast(Broadcast(run.item_factors, rows_used, 0)))
        answers = Answers(np.zeros(1, np.int64), np.zeros(1, np.int64), np.ones(1, np.bool_))
        up = len(AnswerFormat(rows_used, rank).encode(answers)[0].tobytes())
        assert run.traffic == Traffic(people, (down,) * (rounds + 1), (up,) * rounds)
        assert run.traffic.per_round == (down, up)
        assert run.traffic.per_user == (down * (rounds + 1), up * rounds)
        assert run.traffic.total == people * (down * (rounds + 1) + up * rounds)

    @pytest.mark.parametrize(
        "ratings",
        [
            pytest.param(device_ratings([(0, 0, 5)], (1, 1)), id="one user, one item, one rating"),
            pytest.param(device_ratings([(0, item, 1 + item % 5) for item in range(9)], (1, 9)), id="one user"),
            pytest.param(device_ratings([(0, 3, 2)], (5, 9)), id="one rating, unrated items, silent users"),
            pytest.param(device_ratings([(0, i, 3) for i in range(9)] + [(1, 0, 5)], (2, 9)), id="rated everything"),
            pytest.param(device_ratings([(0, 0, 1), (0, 0, 5)], (1, 2)), id="the same item twice"),
        ],
    )
    @pytest.mark.parametrize("epsilon", [0.001, 1.0, NO_NOISE])
    def test_edge_cases_stay_on_the_scale(self, ratings: DeviceRatings, epsilon: float) -> None:
        run = run_pg_mf(ratings, epsilon, options=PgMfOptions(stabilisation=0), rng=np.random.default_rng(0))
        users, items = np.indices(ratings.shape, dtype=np.int32).reshape(2, -1)
        predicted = run.predict(users, items)
        assert len(run.training_rmse) == 11
        assert np.all((predicted >= 1) & (predicted <= 5))

    def test_constant_ratings_are_predicted(self) -> None:
        ratings = low_rank_world(30, 40, seed=0)
        constant = dataclasses.replace(ratings, ratings=np.full_like(ratings.ratings, 4))
        run = run_pg_mf(constant, 1.0, rng=np.random.default_rng(0))
        assert rmse(run.predict(ratings.users, ratings.items), constant.ratings) < 0.15

    def test_a_person_without_ratings_gets_the_middle(self) -> None:
        run = run_pg_mf(device_ratings([(0, 0, 5)], (2, 3)), 1.0, rng=np.random.default_rng(0))
        assert run.predict(np.array([1, 1], np.int32), np.array([0, 2], np.int32)).tolist() == [3, 3]

    @pytest.mark.parametrize(("user", "item", "complaint"), [(2, 0, "user 2"), (0, 3, "item 3"), (0, -1, "item -1")])
    def test_unknown_users_and_items_are_refused(self, user: int, item: int, complaint: str) -> None:
        run = run_pg_mf(device_ratings([(0, 0, 5)], (2, 3)), 1.0, rng=np.random.default_rng(0))
        with pytest.raises(InvalidInputError, match=f"{complaint} is not one of"):
            run.predict(np.array([user], np.int32), np.array([item], np.int32))

    def test_predictions_are_the_devices_own(self) -> None:
        """The last trace entry is the error of `predict` on the training ratings, but for clipping."""
        ratings = low_rank_world(40, 12, seed=0)
        run = run_pg_mf(ratings, 1.0, rng=np.random.default_rng(0))
        error = rmse(run.predict(ratings.users, ratings.items), ratings.ratings)
        assert error == pytest.approx(run.training_rmse[-1], abs=0.02)

    def test_without_noise_it_learns(self) -> None:
        ratings = low_rank_world(4000, 30, seed=1)
        train, test = held_out(ratings, seed=2)
        options = PgMfOptions(rank=2, rounds=150, projected_rows=15, step_size=2.0)
        run = run_pg_mf(train, NO_NOISE, options=options, rng=np.random.default_rng(3))
        constant = rmse(float(train.ratings.mean()), ratings.ratings[test])
        assert held_out_error(run, ratings, test) < 0.85 * constant
        assert run.training_rmse[-1] < 0.85 * run.training_rmse[0]

    def test_the_stabilising_factor_holds_the_start(self) -> None:
        ratings = low_rank_world(200, 30, seed=1)
        moved = {}
        for stabilisation in (0.0, 1.0):
            options = PgMfOptions(stabilisation=stabilisation, start_spread=0)
            run = run_pg_mf(ratings, 0.1, options=options, rng=np.random.default_rng(3))
            moved[stabilisation] = float(np.abs(run.item_factors - [1, 0, 0]).max())
        assert moved[0.0] > 10
        assert moved[1.0] < 0.1

    @pytest.mark.parametrize("epsilon", [0, -1, 0.0009, math.inf, math.nan])
    def test_bad_epsilon_is_refused(self, epsilon: float) -> None:
        with pytest.raises(EpsilonError, match=r"at least 0\.001"):
            run_pg_mf(device_ratings([(0, 0, 5)], (1, 1)), epsilon, rng=np.random.default_rng(0))

    def test_runaway_factors_are_held_where_devices_accept_them(self) -> None:
        options = PgMfOptions(step_size=1e6, stabilisation=0)
        run = run_pg_mf(low_rank_world(20, 30, seed=0), 0.001, options=options, rng=np.random.default_rng(0))
        assert np.abs(run.item_factors).max() == LARGEST_FACTOR
        assert np.all(np.isfinite(run.user_vectors))


class TestPgMfOptions:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("rank", 0),
            ("rank", 2.5),
            ("rank", 1001),
            ("rounds", 0),
            ("rounds", 10_001),
            ("projected_rows", 0),
            ("projected_rows", 65_536),
            ("step_size", -1.0),
            ("step_size", math.inf),
            ("step_decay", -0.1),
            ("stabilisation", math.nan),
            ("regularisation", 0.0),
            ("start_spread", -1.0),
            ("start_level", math.inf),
        ],
    )
    def test_out_of_range_is_refused(self, name: str, value: float) -> None:
        with pytest.raises(InvalidInputError, match=f"{name} {value} is out of range; choose a"):
            PgMfOptions(**{name: value})  # type: ignore[arg-type]


def test_movielens(data_file: Callable[[str], Path]) -> None:
    """At this size the noise leaves the start: below a constant's error, close to the people's own means."""
    users, items, ratings = read_columns(data_file("ml-100k.parquet"), ["user", "item", "rating"])
    people, films = users.ids(), items.ids()
    shape = (len(people.distinct), len(films.distinct))
    whole = DeviceRatings(STARS, people.codes, films.codes, ratings.numbers().astype(np.float32), shape)
    train, test = held_out(whole, seed=0)
    run = run_pg_mf(train, 1.0, rng=np.random.default_rng(0))
    assert run.traffic.per_round == (20 + 4 * 3 * 1682, 2)
    assert held_out_error(run, whole, test) < 0.95 * rmse(float(train.ratings.mean()), whole.ratings[test])
