"""Poisoning: what fake devices do to an item and to a model, with and without the bound on influence.

All figures are shifts against the same reports without the fakes, fitted from the same start. The attacker knows the
policy and the histogram of ratings; an adaptive one also knows the bound and every honest report.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import linprog

from tacit.errors import DataSetError
from tacit.evaluation.datasets import load_data_set
from tacit.evaluation.fold import scores_of
from tacit.evaluation.splits import folds_of
from tacit.evaluation.tailoring import FIRST_MECHANISM, FIRST_SHARE, draw_reports, policy_of, tailored_policy
from tacit.learning import ChannelMfOptions, MogMfOptions, ReportMatrix, fit
from tacit.learning.reports import Alphabet
from tacit.privacy.mechanisms import TAILORED
from tacit.privacy.prior import Prior
from tacit.provider.training.influence import InfluenceLimits, bounded
from tacit.provider.training.plausibility import Bets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from tacit.evaluation.ratings import RatingData
    from tacit.learning import Model, Options
    from tacit.learning.reports import Part
    from tacit.privacy.policy import Policy

    Longs = NDArray[np.int64]
    Attack = Callable[["Scene"], Part]

RESULTS = Path(__file__).parent / "results" / "poisoning.json"
DATA = Path(__file__).parents[2] / "shared" / "data"
LIMITS = InfluenceLimits(b"benchmarks only!")

SETTINGS: tuple[tuple[str, str, Options], ...] = (
    ("bounded-laplace", "1", ChannelMfOptions()),
    ("randomized-response", "1", ChannelMfOptions()),
    ("tailored", "1", ChannelMfOptions()),
    ("bounded-laplace", "3", ChannelMfOptions()),
    ("bounded-laplace", "1", MogMfOptions()),
)
BANDS = {"popular": (200, 10**6), "middling": (30, 60), "rare": (5, 10)}
SHARES = (0.01, 0.05)
FILLERS = 30
LIST = 10


@dataclass(frozen=True, eq=False)
class Honest:
    """Honest reports, the policy that fakes use too, and what everybody knows of the ratings."""

    data: RatingData
    parts: list[Part]
    policy: Policy
    histogram: NDArray[np.float64]
    popularity: NDArray[np.float64]
    rated: NDArray[np.bool_]

    @classmethod
    def of(cls, data: RatingData, mechanism: str, epsilon: str, seed: int, kept: NDArray[np.bool_]) -> Honest:
        """Let the devices report on the ratings that are kept."""
        rng = np.random.default_rng(seed)
        users, items = data.users.codes[kept].astype(np.int64), data.items.codes[kept].astype(np.int64)
        parts = reports(users, items, data.ranks[kept], (mechanism, epsilon, data), rng)
        rated = np.zeros(data.shape, dtype=np.bool_)
        rated[users, items] = True
        histogram = np.bincount(data.ranks[kept], minlength=data.scale.size) / kept.sum()
        return cls(data, parts, parts[-1][3], histogram, rated.sum(axis=0) / kept.sum(), rated)


def reports(
    users: Longs, items: Longs, ranks: NDArray[np.uint16], how: tuple[str, str, RatingData], rng: np.random.Generator
) -> list[Part]:
    """Perturb ratings; for a tailored policy a tenth of the devices report first, as `evaluation/tailoring.py` does."""
    mechanism, epsilon, data = how
    if mechanism != TAILORED:
        policy = policy_of(mechanism, data.scale, epsilon)
        return [(users, items, draw_reports(policy.channel, ranks, rng), policy)]
    first = rng.random(data.shape[0])[users] < FIRST_SHARE
    start = policy_of(FIRST_MECHANISM, data.scale, epsilon)
    symbols = draw_reports(start.channel, ranks[first], rng)
    policy = tailored_policy(symbols, start.channel)
    rest = draw_reports(policy.channel, ranks[~first], rng)
    return [(users[first], items[first], symbols, start), (users[~first], items[~first], rest, policy)]


@dataclass(frozen=True, eq=False)
class Scene:
    """Honest reports, an item, how many fakes want it pushed or nuked, and their randomness."""

    honest: Honest
    target: int
    fakes: int
    seed: int
    push: bool = True

    def loudness(self) -> NDArray[np.float64]:
        """Return how much each symbol says in the direction wanted."""
        channel = self.honest.policy.channel
        values = channel.calibrate(Prior.of(self.honest.data.scale, self.honest.histogram + 1e-6)).values
        return values if self.push else -values

    @property
    def loudest(self) -> int:
        """The symbol that says most."""
        return int(np.argmax(self.loudness()))

    def alphabet(self) -> Alphabet:
        """Return the symbols of all policies in use."""
        return Alphabet.of(policy for *_, policy in self.honest.parts)

    def bets(self) -> tuple[Bets, slice]:
        """Return the provider's bets, and which of their columns are the fakes' own policy's."""
        alphabet = self.alphabet()
        place = alphabet.find(self.honest.policy.id)
        first = int(alphabet.sizes[:place].sum())
        bets = Bets.on([policy.channel for policy in alphabet.policies])
        return bets, slice(first, first + int(alphabet.sizes[place]))

    @property
    def end(self) -> int:
        """The rank that a fan, or an enemy, of the item gives."""
        return self.honest.data.scale.size - 1 if self.push else 0

    def devices(self) -> Longs:
        """Return keys that no honest device has."""
        return self.honest.data.shape[0] + np.arange(self.fakes)

    def rng(self) -> np.random.Generator:
        """Return the same randomness for every attack on this scene."""
        return np.random.default_rng([self.seed, self.target, self.fakes])

    def drawn(self, ranks: Longs, rng: np.random.Generator) -> NDArray[np.uint16]:
        """Perturb ratings as the protocol says."""
        return draw_reports(self.honest.policy.channel, ranks.astype(np.uint16), rng)

    def fillers(self, count: int, rng: np.random.Generator) -> Longs:
        """Choose other items for each fake, by popularity."""
        chances = self.honest.popularity.copy()
        chances[self.target] = 0
        count = min(count, int((chances > 0).sum()))
        chances /= chances.sum()
        return np.stack([rng.choice(len(chances), count, replace=False, p=chances) for _ in range(self.fakes)])


def fans(scene: Scene) -> Part:
    """Do what honest devices do whose people give the item the end of the scale: no attack on the protocol."""
    said = scene.drawn(np.full(scene.fakes, scene.end), scene.rng())
    return scene.devices(), np.full(scene.fakes, scene.target), said, scene.honest.policy


def one_report(scene: Scene) -> Part:
    """Say the loudest symbol about the item, and nothing else (i)."""
    return scene.devices(), np.full(scene.fakes, scene.target), np.full(scene.fakes, scene.loudest), scene.honest.policy


def hidden(scene: Scene) -> Part:
    """Say it among other items, reported on as honest devices would (ii)."""
    rng = scene.rng()
    fillers = scene.fillers(FILLERS, rng)
    ranks = rng.choice(len(scene.honest.histogram), fillers.size, p=scene.honest.histogram)
    return with_fillers(scene, fillers, np.full(scene.fakes, scene.loudest), scene.drawn(ranks, rng))


def everything(scene: Scene) -> Part:
    """Say it about all items (iii)."""
    items = np.arange(scene.honest.data.shape[1])
    said = np.full(scene.fakes * len(items), scene.loudest)
    return np.repeat(scene.devices(), len(items)), np.tile(items, scene.fakes), said, scene.honest.policy


def adaptive(scene: Scene) -> Part:
    """Say as much about the item as goes unnoticed, every honest report on it being known (iv)."""
    return scene.devices(), np.full(scene.fakes, scene.target), unnoticed_on_item(scene), scene.honest.policy


def adaptive_hidden(scene: Scene) -> Part:
    """Do the same among other items (iv)."""
    rng = scene.rng()
    fillers = scene.fillers(FILLERS, rng)
    ranks = rng.choice(len(scene.honest.histogram), fillers.size, p=scene.honest.histogram)
    return with_fillers(scene, fillers, unnoticed_on_item(scene), scene.drawn(ranks, rng))


def adaptive_many(scene: Scene) -> Part:
    """Report on as many items as are heard, about all of them together as loudly as goes unnoticed (iv)."""
    rng = scene.rng()
    fillers = scene.fillers(LIMITS.most_reports - 1, rng)
    bets, own = scene.bets()
    room = np.full(len(bets), -np.log(LIMITS.device_chance))
    mix = loudest_mix(bets.logs[:, own], scene.loudness(), room, fillers.shape[1] + 1)
    others = np.concatenate([rng.permutation(mix[1:]) for _ in range(scene.fakes)])
    return with_fillers(scene, fillers, np.full(scene.fakes, mix[0]), others)


def unnoticed_on_item(scene: Scene) -> Longs:
    """Choose the symbols of a crowd so that no bet on the item pays too much."""
    bets, own = scene.bets()
    alphabet = scene.alphabet()
    paid = np.zeros(len(bets))
    for _, items, symbols, policy in scene.honest.parts:
        said = np.asarray(symbols)[np.asarray(items) == scene.target].astype(np.int64)
        paid += bets.logs[:, alphabet.encode(said, alphabet.find(policy.id), "honest")].sum(axis=1)
    return loudest_mix(bets.logs[:, own], scene.loudness(), bets.limit(LIMITS.item_chance) - paid, scene.fakes)


def loudest_mix(
    pays: NDArray[np.float64], loudness: NDArray[np.float64], room: NDArray[np.float64], count: int
) -> Longs:
    """Find the symbols that say most together while no bet on them pays more than there is room for, loudest first."""
    ones = np.ones((1, len(loudness)))
    found = linprog(-loudness, A_ub=pays, b_ub=np.maximum(room, 0), A_eq=ones, b_eq=[count])
    mixed = np.asarray(found.x, dtype=np.float64)
    whole = np.floor(mixed + 1e-9).astype(np.int64)
    quietest = np.flatnonzero(mixed > 0)[np.argmin(loudness[mixed > 0])]
    whole[quietest] += count - whole.sum()
    order = np.argsort(-loudness)
    return np.repeat(order, whole[order])


def with_fillers(scene: Scene, fillers: Longs, on_target: NDArray[Any], on_fillers: NDArray[Any]) -> Part:
    """Join reports on the item and on others."""
    devices = np.concatenate([scene.devices(), np.repeat(scene.devices(), fillers.shape[1])])
    items = np.concatenate([np.full(scene.fakes, scene.target), fillers.ravel()])
    return devices, items, np.concatenate([on_target, on_fillers]), scene.honest.policy


ATTACKS: dict[str, Attack] = {
    "fans": fans,
    "one report": one_report,
    "hidden": hidden,
    "everything": everything,
    "adaptive": adaptive,
    "adaptive, hidden": adaptive_hidden,
    "adaptive, many": adaptive_many,
}


def learned(parts: list[Part], options: Options, *, bound: bool) -> tuple[Model, int]:
    """Fit with or without the bound; return also how many reports it left out."""
    found = bounded(parts, LIMITS) if bound else None
    matrix = ReportMatrix.of_parts(found.parts if found else parts)
    return fit(matrix, options, np.random.default_rng(0), threads=1), found.left_out.reports if found else 0


@dataclass(frozen=True)
class Standing:
    """What honest devices are told of an item.

    Its mean predicted rating, its mean score, which the ends of the scale do not cut off, its place among all items by
    that score, and how many of their lists it is on.
    """

    mean: float
    level: float
    place: int
    listed: float

    @classmethod
    def of(cls, model: Model, honest: Honest, target: int) -> Standing:
        """Look an item up in the lists of all honest devices that did not report on it."""
        people, things = honest.data.shape
        rows = scores_of(model, (people + 10**4, things))
        scores = rows.users[:people] @ rows.items.T
        means, own = scores.mean(axis=0), scores[:, target : target + 1]
        better = ((scores > own) & ~honest.rated).sum(axis=1)
        low, high = float(honest.data.scale.low), float(honest.data.scale.high)
        listed = (better < LIST)[~honest.rated[:, target]].mean()
        place = int((means > means[target]).sum()) + 1
        return cls(float(np.clip(own, low, high).mean()), float(means[target]), place, float(listed))


def targeted(data: RatingData, seeds: int) -> Iterator[dict[str, Any]]:
    """Push and nuke items of all kinds."""
    for mechanism, epsilon, options in SETTINGS:
        found: dict[tuple[Any, ...], list[dict[str, float]]] = defaultdict(list)
        for seed in range(seeds):
            honest = Honest.of(data, mechanism, epsilon, seed, np.ones(len(data), dtype=np.bool_))
            for case, row in shifts(honest, options, seed):
                found[case].append(row)
        for (direction, band, share, attack, bound), rows in found.items():
            means = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
            where = {"data": data.name, "mechanism": mechanism, "epsilon": epsilon, "model": options.model}
            yield {
                **where,
                "direction": direction,
                "item": band,
                "fakes": share,
                "attack": attack,
                "bound": bound,
                **means,
            }


def shifts(honest: Honest, options: Options, seed: int) -> Iterator[tuple[tuple[Any, ...], dict[str, float]]]:
    """Measure how far every attack moves an item of each kind."""
    clean = {bound: learned(honest.parts, options, bound=bound)[0] for bound in (False, True)}
    counts, rng = honest.rated.sum(axis=0), np.random.default_rng(seed)
    for band, (least, most) in BANDS.items():
        target = int(rng.choice(np.flatnonzero((counts >= least) & (counts <= most))))
        for (attack, make), push, share in itertools.product(ATTACKS.items(), (True, False), (0.0, *SHARES)):
            if not share and attack not in {"fans", "one report"}:
                continue
            scene = Scene(honest, target, max(1, round(share * honest.data.shape[0])), seed, push)
            part = make(scene)
            for bound in (False, True):
                model, left_out = learned([*honest.parts, part], options, bound=bound)
                before, after = (Standing.of(one, honest, target) for one in (clean[bound], model))
                case = "push" if push else "nuke", band, f"{share:.0%}" if share else "one device", attack, bound
                yield case, {**changes(before, after), "left_out": left_out}


def changes(before: Standing, after: Standing) -> dict[str, float]:
    """Write down how an item stood and stands."""
    return {
        "shift": after.mean - before.mean,
        "score_shift": after.level - before.level,
        "mean_before": before.mean,
        "place_before": before.place,
        "place_after": after.place,
        "listed_before": before.listed,
        "listed_after": after.listed,
    }


def damage(data: RatingData, folds: int) -> Iterator[dict[str, Any]]:
    """Measure the error on true ratings held out: of honest reports alone, and with fakes that report on many items."""
    split = folds_of(len(data), 10, 0)
    for mechanism, epsilon, options in SETTINGS:
        cases: dict[tuple[str, str, bool], list[tuple[float, int]]] = defaultdict(list)
        for fold in range(folds):
            honest = Honest.of(data, mechanism, epsilon, fold, split != fold)
            held = data.users.codes[split == fold], data.items.codes[split == fold], data.ratings[split == fold]
            scenes = [Scene(honest, 0, round(share * data.shape[0]), fold) for share in SHARES]
            attacked = [
                (attack, f"{share:.0%}", [*honest.parts, ATTACKS[attack](scene)])
                for (scene, share), attack in itertools.product(
                    zip(scenes, SHARES, strict=True), ("everything", "adaptive, many")
                )
            ]
            for (attack, share, parts), bound in itertools.product(
                [("none", "0%", honest.parts), *attacked], (False, True)
            ):
                model, left_out = learned(parts, options, bound=bound)
                error = np.sqrt(np.mean((model.predict(held[0], held[1]).ratings - held[2]) ** 2))
                cases[attack, share, bound].append((float(error), left_out))
        for (attack, share, bound), rows in cases.items():
            where = {"data": data.name, "mechanism": mechanism, "epsilon": epsilon, "model": options.model}
            rmse, left_out = np.mean(rows, axis=0).tolist()
            yield {**where, "attack": attack, "fakes": share, "bound": bound, "rmse": rmse, "left_out": left_out}


def kept_rows(rows: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    """Print rows as they come, and keep them."""
    kept = []
    for row in rows:
        rounded = {name: round(value, 4) if isinstance(value, float) else value for name, value in row.items()}
        print("  ".join(f"{name}={value}" for name, value in rounded.items()), flush=True)
        kept.append(rounded)
    return kept


def written(record: dict[str, list[dict[str, Any]]]) -> str:
    """Write a line for each row."""
    lines = {name: ",\n".join(map(json.dumps, rows)) for name, rows in record.items()}
    return "{\n" + ",\n".join(f'"{name}": [\n{rows}\n]' for name, rows in lines.items()) + "\n}\n"


def main() -> int:
    """Attack, print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", default="ml-100k", help="the data set, by name")
    parser.add_argument("--seeds", type=int, default=4, help="draws of reports and items")
    parser.add_argument("--folds", type=int, default=3, help="of ten, for errors on held-out ratings")
    parser.add_argument("parts", nargs="*", help="what to run, targeted or damage; by default both")
    chosen = parser.parse_args()
    try:
        data = load_data_set(chosen.data, DATA)
    except DataSetError as error:
        print(f"nothing was measured: {error}", file=sys.stderr)
        return 0
    studies = {"targeted": lambda: targeted(data, chosen.seeds), "damage": lambda: damage(data, chosen.folds)}
    record = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    for part in chosen.parts or studies:
        others = [row for row in record.get(part, []) if row["data"] != data.name]
        record[part] = others + kept_rows(studies[part]())
        RESULTS.write_text(written(record), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
