"""Readings of the same reports beside each other: what the scripts that compare them share."""

from __future__ import annotations

import argparse
import json
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peers.processes import RESULTS, progress
from tacit.errors import DataSetError
from tacit.evaluation.datasets import load_data_set

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True, slots=True)
class Comparison:
    """A function that runs one fold, one that sums folds up, and what they are run on."""

    name: str
    run: Callable[..., Any]
    summary: Callable[[list[Any]], dict[str, Any]]
    sets: Sequence[str]
    mechanisms: Sequence[str]
    epsilons: Sequence[str]
    folds: int
    settings: dict[str, Any]

    def main(self, description: str | None) -> int:
        """Compare on all data sets, mechanisms and epsilons, print as it goes, and keep the figures."""
        chosen = self._arguments(description)
        os.environ.setdefault("TACIT_DATA", str(Path(__file__).parents[2] / "shared" / "data"))
        table: dict[str, Any] = {}
        with ProcessPoolExecutor(chosen.jobs) as pool:
            for name in chosen.sets:
                try:
                    data = load_data_set(name)
                except DataSetError as error:
                    progress(str(error))
                    continue
                for mechanism, epsilon in product(self.mechanisms, chosen.epsilons):
                    found = list(pool.map(partial(self.run, data, mechanism, epsilon), range(chosen.folds)))
                    row = table.setdefault(name, {}).setdefault(mechanism, {})[epsilon] = self.summary(found)
                    print(name, mechanism, epsilon, *(f"\n  {key}: {value}" for key, value in row.items()), flush=True)
        record = {"settings": {"folds": chosen.folds, **self.settings}, "results": table}
        chosen.out.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        return 0

    def _arguments(self, description: str | None) -> argparse.Namespace:
        parser = argparse.ArgumentParser(description=description)
        parser.add_argument("--folds", type=int, default=self.folds, help="how many of the ten folds to run")
        parser.add_argument("--jobs", type=int, default=2)
        parser.add_argument("--sets", nargs="+", default=list(self.sets))
        parser.add_argument("--epsilons", nargs="+", default=list(self.epsilons))
        parser.add_argument("--out", type=Path, default=RESULTS / f"{self.name}.json")
        return parser.parse_args()
