from __future__ import annotations

import sys
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import ChannelError
from tacit.privacy.mechanisms import build_channel
from tacit.privacy.scale import RatingScale
from tacit.privacy.weights import ROW_TOTAL, WeightTable, operating_system_words, round_to_weights


def reference_draw(table: WeightTable, rank: int, word: int) -> int:
    """The contract in plain integers."""
    return sum(total <= word for total in list(accumulate(table.rows[rank]))[:-1])


@st.composite
def tables(draw: Any) -> WeightTable:
    ranks, symbols = draw(st.integers(2, 6)), draw(st.integers(2, 300))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    # Cuts anywhere in 64 bits, clustered ones too, so that all bits matter.
    spread = draw(st.sampled_from([2**64, 2**20, symbols * 2]))
    rows = []
    for _ in range(ranks):
        cuts = {int(cut) + 1 for cut in rng.integers(0, spread - 1, size=4 * symbols, dtype=np.uint64)}
        cuts = set(sorted(cuts)[: symbols - 1]) | set(
            range(ROW_TOTAL - symbols, ROW_TOTAL - symbols + symbols - 1 - min(len(cuts), symbols - 1))
        )
        edges = [0, *sorted(cuts), ROW_TOTAL]
        rows.append(tuple(high - low for low, high in pairwise(edges)))
    return WeightTable(tuple(rows))


@given(tables(), st.data())
def test_drawing_agrees_with_plain_integers_at_every_threshold(table: WeightTable, data: st.DataObject) -> None:
    rank = data.draw(st.integers(0, table.ranks - 1))
    sums = list(accumulate(table.rows[rank]))[:-1]
    words = [word for total in sums for word in (total - 1, total, total + 1) if word < ROW_TOTAL]
    words += [0, ROW_TOTAL - 1, *data.draw(st.lists(st.integers(0, ROW_TOTAL - 1), max_size=20))]
    drawn = table.draw(np.full(len(words), rank, dtype=np.uint16), np.array(words, dtype=np.uint64))
    assert drawn.tolist() == [reference_draw(table, rank, word) for word in words]


@pytest.mark.parametrize("symbols", [2, 255, 256, 257, 4096])
def test_drawing_is_exact_for_any_number_of_symbols(symbols: int) -> None:
    table = round_to_weights(np.random.default_rng(symbols).random((2, symbols)) + 0.1)
    words = operating_system_words(2000)
    ranks = np.arange(2000, dtype=np.uint16) % 2
    assert table.draw(ranks, words).tolist() == [
        reference_draw(table, r, w) for r, w in zip(ranks.tolist(), words.tolist(), strict=True)
    ]


def test_blocks_join_without_a_seam() -> None:
    channel = build_channel("bounded-laplace", RatingScale.parse("1:5:1"), 1)
    ranks = np.random.default_rng(0).integers(0, 5, 50_000).astype(np.uint16)
    words = operating_system_words(50_000)
    whole = channel.draw(ranks, words)
    parts = [channel.draw(ranks[start : start + 997], words[start : start + 997]) for start in range(0, 50_000, 997)]
    assert whole.tolist() == np.concatenate(parts).tolist()
    assert channel.draw(ranks[:0], words[:0]).size == 0


def test_the_steps_of_a_draw_depend_neither_on_the_rating_nor_on_the_word() -> None:
    table = build_channel("bounded-laplace", RatingScale.parse("1:5:1"), 1).weights

    def steps(rank: int, word: int) -> list[str]:
        seen: list[str] = []
        ranks, words = np.full(3, rank, dtype=np.uint16), np.full(3, word, dtype=np.uint64)

        def watch(_frame: object, event: str, argument: object) -> None:
            seen.append(f"{event} {getattr(argument, '__name__', '')}")

        sys.setprofile(watch)
        try:
            table.draw(ranks, words)
        finally:
            sys.setprofile(None)
        return seen

    table.draw(np.zeros(1, dtype=np.uint16), np.zeros(1, dtype=np.uint64))
    expected = steps(0, 0)
    assert len(expected) > 3
    assert all(steps(rank, word) == expected for rank in range(5) for word in (0, 2**63, 2**64 - 1))


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ([[2**63, 2**63]], "at least 2 ranks"),
        ([[2**64], [2**64]], "at least 2 ranks and 2 symbols"),
        ([[2**64, 0], [2**63, 2**63]], "weight 0"),
        ([[2**64 + 1, -1], [2**63, 2**63]], "weight -1"),
        ([[2**63, 2**63 + 1], [2**63, 2**63]], "sums to"),
        ([[2**63, 2**63], [2**64]], "1 weights"),
        ([[1] * 5000] * 2, "limit of 4096 symbols"),
        ([[1] * 600] * 600, "entries"),
        ([], "at least 2"),
    ],
)
def test_what_is_not_a_table_is_refused(rows: list[list[int]], complaint: str) -> None:
    with pytest.raises(ChannelError, match=complaint):
        WeightTable(tuple(tuple(row) for row in rows))


@given(st.integers(2, 20), st.integers(2, 100), st.integers(0, 2**32))
def test_rounding_keeps_rows_exact_and_close(ranks: int, symbols: int, seed: int) -> None:
    wanted = np.random.default_rng(seed).dirichlet(np.full(symbols, 0.3), size=ranks) + 1e-12
    table = round_to_weights(wanted)
    assert np.abs(table.probabilities - wanted / wanted.sum(axis=1, keepdims=True)).max() < symbols * 2.0**-51


def test_the_operating_systems_words_are_fresh_and_use_all_bits() -> None:
    first, second = operating_system_words(1000), operating_system_words(1000)
    assert not np.array_equal(first, second)
    assert int(np.bitwise_or.reduce(first)) == 2**64 - 1
    assert int(np.bitwise_and.reduce(first)) == 0
