"""Writes protocol/vectors/ranking.json: run `python tests/protocol/make_ranking.py` after a change of the ranking.

Small worlds, models learned from their reports, and people who rank with their own true ratings.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.device import rank_items
from tacit.evaluation.world import WorldShape, make_world
from tacit.learning import ChannelMfOptions, MfAlsOptions, MogMfOptions, ReportMatrix, fit
from tacit.privacy.item_wire import decode_items, encode_items
from tacit.privacy.policy import Policy
from tacit.privacy.scale import RatingScale

if TYPE_CHECKING:
    from tacit.evaluation.world import World
    from tacit.learning.options import Options

TARGET = Path(__file__).parents[2] / "protocol" / "vectors" / "ranking.json"
DIGITS = 6
LISTED = 10
REASONS = 3

SMALL = WorldShape(people=300, items=60, ratings=5_000)
WIDE = WorldShape(people=900, items=420, ratings=40_000)


@dataclass(frozen=True)
class Case:
    """Who ranks what: a world, what the provider learned from it, and one of its people."""

    name: str
    shape: WorldShape
    options: Options
    scale: str = "1:5:1"
    titles: bool = False
    ratings: int = 12
    unknown: int = 0


CASES = [
    Case("channel-mf with its pattern, whole-number ids", SMALL, ChannelMfOptions(dimensions=8)),
    Case("channel-mf without its pattern, text ids", SMALL, ChannelMfOptions(pattern=False), titles=True),
    Case("mf-als with offsets, no beliefs, half stars", SMALL, MfAlsOptions(offsets=True), scale="0.5:5:0.5"),
    Case(
        "mog-mf, no beliefs, no offsets, text ids", SMALL, MogMfOptions(), "-3:3:1", titles=True, ratings=9, unknown=2
    ),
    Case("no ratings at all", SMALL, ChannelMfOptions(dimensions=6), ratings=0, titles=True),
    Case("more ratings than landmarks", WIDE, ChannelMfOptions(dimensions=12, rank=4), ratings=300),
]


def learned(case: Case, world: World, rng: np.random.Generator) -> bytes:
    """Fit the case's model to reports of the world, and write its public part."""
    policy = Policy.make("bounded-laplace", world.scale, "12")
    words = rng.integers(0, 2**64, len(world.users), dtype=np.uint64)
    symbols = policy.channel.draw(world.scale.ranks_of(world.ratings), words)
    titles = np.array([title.replace("o", "ø") for title in world.titles()], dtype=object)  # not all are ASCII
    ids = titles[world.items] if case.titles else 5 + 7 * world.items
    return encode_items(fit(ReportMatrix.of_symbols(world.users, ids, symbols, policy), case.options, rng).item_model())


def own_ratings(case: Case, items: list[str], scale: RatingScale, rng: np.random.Generator) -> dict[str, float]:
    """Invent a person who rates some of the items, and some that the model does not know."""
    chosen = rng.choice(len(items), case.ratings, replace=False)
    names = [items[index] for index in chosen] + [f"unknown {number}" for number in range(case.unknown)]
    return {name: float(scale.ratings[rng.integers(scale.size)]) for name in names}


def vector(case: Case, seed: int) -> dict[str, Any]:
    """Rank as a device does, with the model as it comes off the wire."""
    rng, scale = np.random.default_rng(seed), RatingScale.parse(case.scale)
    wire = learned(case, make_world(scale, shape=case.shape, seed=seed), rng)
    model = decode_items(wire)
    ratings = own_ratings(case, [str(name) for name in model.items.ids], scale, rng)
    return {"name": case.name, "model": base64.b64encode(wire).decode(), "ratings": ratings, **ranked(wire, ratings)}


def ranked(wire: bytes, ratings: dict[str, float]) -> dict[str, Any]:
    """Return predictions, list and reasons."""
    ranking = rank_items(decode_items(wire), ratings)
    listed = ranking.recommend(LISTED)
    return {
        "predictions": [round(float(rating), DIGITS) for rating in ranking.predictions()],
        "list": [
            {
                "item": str(one.item),
                "score": round(one.score, DIGITS),
                "rank": one.rank,
                "rating": round(one.rating, DIGITS),
            }
            for one in listed
        ],
        "reasons": {
            str(one.item): [
                {"item": str(reason.item), "effect": round(reason.effect, DIGITS)}
                for reason in ranking.explain(one.item, REASONS)
            ]
            for one in listed
        },
    }


def main() -> None:
    cases = [vector(case, seed) for seed, case in enumerate(CASES, 1)]
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    TARGET.write_text(f'{{"cases": [\n{lines}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
