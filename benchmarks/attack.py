"""Attacks on what is published: what it tells of one rating, which epsilon bounds, and of the rest, which it does not.

Exactly, on small worlds and on one of 100,000 ratings; by sampling; and what patterns and other ratings give away.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit import RatingScale
from tacit.errors import DataSetError
from tacit.evaluation.datasets import load_data_set
from tacit.evaluation.item_model_attack import (
    Target,
    exact_loss_of_publication,
    hard_targets,
    item_model_publication,
)
from tacit.evaluation.revelations import attack_raters, guess_ratings
from tacit.evaluation.sampled_attack import auc_of_reports, sampled_loss
from tacit.learning import ChannelMfOptions, MfAlsOptions, MogMfOptions
from tacit.privacy.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from tacit.evaluation.ratings import RatingData
    from tacit.learning import Options

RESULTS = Path(__file__).parent / "results" / "attack.json"
DATA = Path(__file__).parents[2] / "shared" / "data"

STARS = RatingScale.parse("1:5:1")
MODELS: tuple[Options, ...] = (ChannelMfOptions(), MogMfOptions(), MfAlsOptions())
MECHANISMS = ("bounded-laplace", "randomized-response", "tailored")
EPSILONS = ("0.1", "1", "5")
DATA_SETS = ("world", "ml-100k")
BANDS = ((1, 1), (2, 4), (5, 9), (10, 19), (20, 49), (50, 99), (100, 10**6))
MANY_SYMBOLS = 10

Rows = list[dict[str, Any]]


def words_for(target: Target) -> NDArray[np.uint64]:
    """Draw what the other devices drew."""
    return np.random.default_rng(1).integers(0, 2**64, len(target.users), dtype=np.uint64)


def exact() -> Iterator[dict[str, Any]]:
    """Try every word in every hard world, with every model."""
    for mechanism, epsilon in itertools.product(MECHANISMS, EPSILONS):
        policy = Policy.make(mechanism, STARS, epsilon)
        ratings = None if policy.channel.weights.symbols < MANY_SYMBOLS else (0, STARS.size - 1)
        targets = hard_targets(policy, np.random.default_rng(0)).values()
        found = [
            exact_loss_of_publication(
                target, item_model_publication(target, options), words_for(target), ratings=ratings
            )
            for target, options in itertools.product(targets, MODELS)
        ]
        yield {
            "mechanism": mechanism,
            "epsilon": epsilon,
            "attacks": len(found),
            "within": sum(one.within(policy.channel.worst_ratio) for one in found),
            "loss_of_report": policy.channel.exact_loss,
            "largest_loss": max(one.loss for one in found),
            "smallest_loss": min(one.loss for one in found),
        }


def changes() -> Iterator[dict[str, Any]]:
    """Change one rating several times and publish after each."""
    policy = Policy.make("randomized-response", RatingScale.parse("1:3:1"), "1")
    target = hard_targets(policy, np.random.default_rng(0))["one rating"]
    publish = item_model_publication(target, MODELS[0])
    for count in (1, 2, 3):
        found = exact_loss_of_publication(target, publish, words_for(target), changes=count, ratings=(0, 2))
        limit = policy.channel.worst_ratio**count
        yield {"changes": count, "loss": found.loss, "sequences": found.publications, "within": found.within(limit)}


def in_a_large_world() -> Iterator[dict[str, Any]]:
    """Attack the report on the most popular item of 100,000 ratings."""
    data, policy = load_data_set("world"), Policy.make("randomized-response", STARS, "1")
    popular = int(np.argmax(np.bincount(data.items.codes)))
    index = int(np.flatnonzero(data.items.codes == popular)[0])
    target = Target(policy, data.users.codes, data.items.codes, data.ranks, index)
    publish = item_model_publication(target, MODELS[0])
    found = exact_loss_of_publication(target, publish, words_for(target), ratings=(0, STARS.size - 1))
    reports = int((data.items.codes == popular).sum())
    yield {"reports_on_item": reports, "loss": found.loss, "publications": found.publications}


def sampled(trials: int) -> Iterator[dict[str, Any]]:
    """Train an attack on some publications and measure it on others."""
    policy = Policy.make("randomized-response", STARS, "1")
    targets = hard_targets(policy, np.random.default_rng(0))
    for world, options, known in itertools.product(("an item of its own", "an ordinary world"), MODELS, (False, True)):
        target, rng = targets[world], np.random.default_rng(2)
        found = sampled_loss(
            target,
            options,
            rng,
            trials=20 * trials if known else trials,
            words=words_for(target) if known else None,
        )
        row = {"world": world, "model": options.model, "epsilon": 1, "other_reports_known": known, **asdict(found)}
        yield {**row, "auc_of_report": auc_of_reports(policy.channel)}


def raters(data: RatingData, rounds: int) -> Iterator[dict[str, Any]]:
    """Tell who rated an item, by how many did."""
    counts = np.bincount(data.items.codes)
    for dimensions in (48, 16):
        options = ChannelMfOptions(rank=0, reports=False, iterations=1, dimensions=dimensions)
        for found in attack_raters(data, options, BANDS, np.random.default_rng(1), rounds=rounds):
            kept = counts >= found.reports[0]
            yield {
                "data": data.name,
                "dimensions": dimensions,
                **asdict(found),
                "items_with_so_many_or_more": float(kept.mean()),
                "ratings_of_these": float(counts[kept].sum() / len(data)),
            }


def guesses(data: RatingData) -> Iterator[dict[str, Any]]:
    """Guess ratings from what is published and from what else is known of a person."""
    for epsilon in (None, "0.1", "1", "3"):
        policy = None if epsilon is None else Policy.make("bounded-laplace", data.scale, epsilon)
        found = guess_ratings(data, policy, ChannelMfOptions(), np.random.default_rng(0))
        for name, error in found.errors.items():
            yield {"data": data.name, "epsilon": epsilon, "knows": name, "rmse": error, "auc": found.aucs[name]}


def kept_rows(rows: Iterator[dict[str, Any]]) -> Rows:
    """Print rows as they come, and keep them."""
    kept = []
    for row in rows:
        rounded = {name: round(value, 4) if isinstance(value, float) else value for name, value in row.items()}
        print("  ".join(f"{name}={value}" for name, value in rounded.items()), flush=True)
        kept.append(rounded)
    return kept


def on_data_sets(attack: Callable[[RatingData], Iterator[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    """Run an attack on all data sets that are there."""
    for name in DATA_SETS:
        try:
            data = load_data_set(name, DATA)
        except DataSetError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
        else:
            yield from attack(data)


def holds(record: dict[str, Rows]) -> bool:
    """Tell whether nothing went beyond what it is bounded by."""
    exactly = [row["within"] == row["attacks"] for row in record.get("exact", [])]
    exactly += [row["within"] for row in record.get("changes", [])]
    return all(exactly) and all(row["lower_bound"] <= row["epsilon"] for row in record.get("sampled", []))


def main() -> int:
    """Attack, print and keep the figures; fail if anything goes beyond epsilon."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trials", type=int, default=400, help="of the sampled attack, for either world")
    parser.add_argument("--rounds", type=int, default=10, help="of the attack on raters")
    parser.add_argument("parts", nargs="*", help="what to run, by default all: the other figures stay as they are")
    chosen = parser.parse_args()
    attacks: dict[str, Callable[[], Iterator[dict[str, Any]]]] = {
        "exact": exact,
        "changes": changes,
        "large_world": in_a_large_world,
        "sampled": lambda: sampled(chosen.trials),
        "raters": lambda: on_data_sets(lambda data: raters(data, chosen.rounds)),
        "guesses": lambda: on_data_sets(guesses),
    }
    record: dict[str, Rows] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    for part in chosen.parts or attacks:
        record[part] = kept_rows(attacks[part]())
        RESULTS.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 0 if holds(record) else 1


if __name__ == "__main__":
    sys.exit(main())
