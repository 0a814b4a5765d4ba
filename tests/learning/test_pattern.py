"""The pattern's embedding, against a dense singular value decomposition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.learning import ReportMatrix
from tacit.learning.local_engine import LocalEngine
from tacit.learning.pattern import _Scaled, embed_pattern, no_pattern, popularity
from tacit.privacy.item_beliefs import ItemPattern
from tacit.privacy.scale import RatingScale

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.learning.pattern import Pattern

STARS = RatingScale.parse("1:5:1")


def rated(seed: int, people: int = 30, things: int = 22) -> tuple[NDArray[Any], NDArray[Any]]:
    """Who rated what: everybody and everything has its own eagerness, and there are two kinds of both."""
    rng = np.random.default_rng(seed)
    eager = np.add.outer(rng.standard_normal(people), rng.standard_normal(things))
    alike = np.equal.outer(np.arange(people) % 2, np.arange(things) % 2)
    chosen = rng.random((people, things)) < 1 / (1 + np.exp(1.2 - eager - 1.5 * alike))
    chosen[rng.permutation(people)[:things], np.arange(things)] = True
    chosen[np.arange(people), rng.integers(0, things, people)] = True
    users, items = np.nonzero(chosen)
    return users, items


def matrix_of(users: Any, items: Any) -> ReportMatrix:
    return ReportMatrix.of_values(users, items, np.ones(len(users)), STARS)


def embedded(matrix: ReportMatrix, dimensions: int = 6, *, seed: int = 0, threads: int = 1) -> Pattern:
    return embed_pattern(LocalEngine(matrix, threads), dimensions, np.random.default_rng(seed))


def dense(matrix: ReportMatrix) -> NDArray[Any]:
    """The scaled matrix written out, in the order of the report matrix."""
    chosen = np.zeros(matrix.shape)
    chosen[np.repeat(np.arange(matrix.shape[0]), matrix.by_user.counts()), matrix.by_user.columns] = 1
    people, things = np.maximum(chosen.sum(axis=1), 1), np.maximum(chosen.sum(axis=0), 1)
    return np.asarray(chosen * people[:, None] ** -0.25 * things[None, :] ** -0.4)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("dimensions", [1, 5, 48])
def test_the_embedding_is_that_of_a_dense_decomposition(seed: int, dimensions: int) -> None:
    matrix = matrix_of(*rated(seed))
    left, singular, right = np.linalg.svd(dense(matrix), full_matrices=False)
    wanted = min(dimensions, min(matrix.shape) - 2)
    vectors, found = _Scaled(LocalEngine(matrix, 1)).leading(wanted + 1, np.random.default_rng(9))
    np.testing.assert_allclose(found, singular[: wanted + 1], rtol=1e-4)
    overlap = np.linalg.svd(right[: wanted + 1] @ vectors, compute_uv=False)
    np.testing.assert_allclose(overlap, 1, atol=1e-3)  # the same subspace

    pattern = embedded(matrix, dimensions)
    assert pattern.dimensions == wanted
    chosen = slice(1, wanted + 1)
    for rows, full, counts in (
        (pattern.items, right[chosen].T * singular[chosen] ** 1.5, matrix.by_item.counts()),
        (pattern.users, left[:, chosen] * singular[chosen] ** 1.5, matrix.by_user.counts()),
    ):
        expected = full / np.sqrt(np.average((full**2).sum(axis=1), weights=counts))
        np.testing.assert_allclose(rows @ rows.T, expected @ expected.T, atol=2e-3 * np.abs(expected).max() ** 2)
    both = (left[:, chosen] * singular[chosen] ** 3) @ right[chosen]  # users and items have their signs together
    product = pattern.users.astype(np.float64) @ pattern.items.T
    np.testing.assert_allclose(product / np.linalg.norm(product), both / np.linalg.norm(both), atol=1e-3)


def item_pattern(pattern: Pattern) -> ItemPattern:
    traits = np.hstack([pattern.item_popularity, pattern.items]).astype(np.float32)
    places = pattern.dimensions
    return ItemPattern(
        traits,
        np.ones(places + 2, dtype=np.float32),
        pattern.items,
        pattern.shares.astype(np.float32),
        pattern.place_scale.astype(np.float32),
    )


@pytest.mark.parametrize("dimensions", [1, 5, 48])
@pytest.mark.parametrize("seed", range(3))
def test_chances_are_popularity_and_the_rows_own_part_of_the_decomposition(seed: int, dimensions: int) -> None:
    matrix = matrix_of(*rated(seed))
    published = item_pattern(embedded(matrix, dimensions))
    wide, reports = dense(matrix), matrix.by_item.counts()
    left, singular, right = np.linalg.svd(wide, full_matrices=False)
    kept = slice(1, 1 + min(dimensions, min(matrix.shape) - 2))
    for user in range(matrix.shape[0]):
        found = published.chances_of(matrix.by_user.part(user, user + 1).columns)
        count = int(matrix.by_user.counts()[user])
        by_popularity = count * reports / reports.sum()
        part = (left[user, kept] * singular[kept]) @ right[kept] * count**0.25 * reports**0.4
        np.testing.assert_allclose(found, np.clip(by_popularity + part, 0.01 * by_popularity, 1), atol=2e-3)


@pytest.mark.parametrize("seed", range(3))
def test_what_a_person_rated_is_more_likely_than_what_they_did_not(seed: int) -> None:
    """An item is left out of a person's row, and told from items that the person did not rate."""
    matrix = matrix_of(*rated(seed, 200, 40))
    published, reports = item_pattern(embedded(matrix, 8)), matrix.by_item.counts()
    higher, more_popular = [], []
    for user in range(0, 200, 4):
        columns = matrix.by_user.part(user, user + 1).columns
        others = np.setdiff1d(np.arange(matrix.shape[1]), columns)
        for held in columns[:: max(1, len(columns) // 4)]:
            chances = published.chances_of(np.setdiff1d(columns, held))
            higher.append(np.mean(chances[held] > chances[others]) if len(others) else 0.5)
            more_popular.append(np.mean(reports[held] > reports[others]) if len(others) else 0.5)
    assert np.mean(higher) > np.mean(more_popular) + 0.03


@pytest.mark.parametrize("seed", range(3))
def test_a_users_place_follows_from_the_items_rated(seed: int) -> None:
    matrix = matrix_of(*rated(seed))
    pattern = embedded(matrix)
    published = item_pattern(pattern)
    for user in range(matrix.shape[0]):
        place = published.place_of(matrix.by_user.part(user, user + 1).columns)
        np.testing.assert_allclose(place, pattern.users[user], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_the_average_report_has_rows_of_length_one(seed: int) -> None:
    matrix = matrix_of(*rated(seed))
    pattern = embedded(matrix)
    for rows, counts in ((pattern.users, matrix.by_user.counts()), (pattern.items, matrix.by_item.counts())):
        assert np.average((rows.astype(np.float64) ** 2).sum(axis=1), weights=counts) == pytest.approx(1, rel=1e-5)


@given(st.integers(0, 2**32 - 1))
def test_other_names_give_the_same_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    users, items = rated(seed, 14, 12)
    new_users, new_items = rng.permutation(14), rng.permutation(12)
    first, second = matrix_of(users, items), matrix_of(new_users[users], new_items[items])
    one, other = embedded(first, 48), embedded(second, 48, seed=1)
    assert one.dimensions == other.dimensions
    find_users, find_items = (
        second.users.find(new_users[first.users.ids]),
        second.items.find(new_items[first.items.ids]),
    )
    # Signs, and turns among equal singular values, are free: products are not.
    for before, after in (
        (one.users @ one.users.T, (other.users @ other.users.T)[np.ix_(find_users, find_users)]),
        (one.items @ one.items.T, (other.items @ other.items.T)[np.ix_(find_items, find_items)]),
        (one.users @ one.items.T, (other.users @ other.items.T)[np.ix_(find_users, find_items)]),
    ):
        np.testing.assert_allclose(after, before, atol=5e-3 * np.abs(before).max())
    np.testing.assert_allclose(other.user_popularity[find_users], one.user_popularity, atol=1e-9)
    np.testing.assert_allclose(other.shares[find_items], one.shares)


def test_the_number_of_threads_changes_no_bit() -> None:
    matrix = matrix_of(*rated(7, 300, 200))
    one = embedded(matrix, 20)
    for threads in (2, 3, 5):
        other = embedded(matrix, 20, threads=threads)
        for name in PARTS:
            assert (getattr(one, name) == getattr(other, name)).all(), (threads, name)


PARTS = ("user_popularity", "item_popularity", "users", "items", "shares", "place_scale")


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (2, 3), (3, 3), (5, 5), (60, 40)])
def test_where_everybody_rated_everything_there_is_no_pattern(shape: tuple[int, int]) -> None:
    matrix = matrix_of(*np.indices(shape).reshape(2, -1))
    for pattern in (embedded(matrix, 48), no_pattern(matrix)):
        assert pattern.dimensions == 0
        assert pattern.user_popularity.shape == pattern.users.shape == (shape[0], 0)
        assert pattern.item_popularity.shape == pattern.items.shape == (shape[1], 0)


def test_what_a_pattern_has_no_room_for_is_left_out() -> None:
    users = np.repeat(np.arange(8), 3)
    items = np.concatenate([np.arange(3) + 3 * (user % 2) for user in range(8)])  # two kinds: one direction
    pattern = embedded(matrix_of(users, items), 48)
    assert pattern.dimensions == 1
    sides = np.sign(pattern.users[:, 0])
    assert len(set(sides)) == 2
    assert np.isfinite(pattern.place_scale).all()


def test_those_without_a_report_are_nowhere_in_particular() -> None:
    users, items = rated(1)
    catalogue: dict[str, Any] = {"catalogue_users": range(33), "catalogue_items": range(25)}
    matrix = ReportMatrix.of_values(users, items, np.ones(len(users)), STARS, **catalogue)
    pattern, without = embedded(matrix), embedded(matrix_of(users, items))
    np.testing.assert_array_equal(pattern.users[30:], 0)
    np.testing.assert_array_equal(pattern.items[22:], 0)
    np.testing.assert_allclose(pattern.users[:30] @ pattern.items[:22].T, without.users @ without.items.T, atol=1e-3)


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=30).filter(any))
def test_popularity_is_standardised_over_reports(counts: list[int]) -> None:
    numbers = np.array(counts)
    found = popularity(numbers)
    assert np.isfinite(found).all()
    known = numbers > 0
    assert np.abs(found[:, 0]).max() <= 6  # nobody is farther out than that
    if np.abs(found[:, 0]).max() == 6:
        return
    if len(set(numbers[known])) > 1:
        means = np.average(found, weights=numbers, axis=0)
        np.testing.assert_allclose(means, 0, atol=1e-6 * np.abs(found).max())
        order = np.argsort(numbers, kind="stable")
        assert (np.diff(found[order, 0]) >= 0).all()
        assert (found[~known] == found[known][np.argmin(numbers[known])]).all()
    else:
        assert (found[:, 0] == 0).all()


@pytest.mark.parametrize("count", range(1, 60))
def test_equal_counts_are_equally_popular(count: int) -> None:
    """Whatever the rounding of their mean, and with somebody who reported nothing beside them."""
    found = popularity(np.array([count] * 7 + [0]))
    assert (found == [0, -1]).all()
