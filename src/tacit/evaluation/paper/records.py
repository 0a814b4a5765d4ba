"""The results of folds as a table: computed once, then read by everything that judges or draws."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tacit.errors import TableError
from tacit.evaluation.rows import MEASURES
from tacit.evaluation.setting import PROVIDER, Setting
from tacit.tables import read_table, write_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from tacit.evaluation.fold import FoldResult
    from tacit.learning import Options

_TEXTS = ("data", "scale", "mechanism", "epsilon", "model", "options", "at", "data_sha256")
_WHOLE = ("seed", "folds", "fold", "n_train", "n_test", "users")
_NUMBERS = (*MEASURES, "fit_seconds", "threshold")
_DECIMALS = 6
_NO_EPSILON = "-"


class Place(NamedTuple):
    """One fold of one seed: what is compared in pairs."""

    seed: int
    fold: int


class Which(NamedTuple):
    """A setting on data, whatever the seed."""

    data: str
    scale: str
    mechanism: str
    epsilon: str
    options: str
    at: str


@dataclass(frozen=True, slots=True)
class FoldTable:
    """All results, by setting and place."""

    rows: list[dict[str, Any]]
    results: dict[Which, dict[Place, dict[str, Any]]] = field(init=False)

    def __post_init__(self) -> None:
        """Sort the rows by what they belong to."""
        results: dict[Which, dict[Place, dict[str, Any]]] = {}
        for row in self.rows:
            data, scale, mechanism, epsilon = (row[name] for name in ("data", "scale", "mechanism", "epsilon"))
            which = Which(data, scale, mechanism, epsilon, f"{row['model']} {row['options']}", row["at"])
            results.setdefault(which, {})[Place(row["seed"], row["fold"])] = row
        object.__setattr__(self, "results", results)

    def of(  # noqa: PLR0913 - what names a setting
        self, data: str, scale: str, mechanism: str, epsilon: str | None, options: Options, *, at: str = PROVIDER
    ) -> dict[Place, dict[str, Any]]:
        """Return the results of a setting by place; empty if it was not computed."""
        text = f"{options.model} {options_text(options)}"
        return self.results.get(Which(data, scale, mechanism, epsilon or _NO_EPSILON, text, at), {})

    def scales(self, data: str) -> list[str]:
        """Return the scales that data were studied on, the first one first."""
        return list(dict.fromkeys(row["scale"] for row in self.rows if row["data"] == data))

    def epsilons(self, data: str, mechanism: str) -> list[str]:
        """Return the epsilons of a mechanism on data, rising."""
        found = {row["epsilon"] for row in self.rows if (row["data"], row["mechanism"]) == (data, mechanism)}
        return sorted(found - {_NO_EPSILON}, key=float)

    def save(self, path: Path) -> None:
        """Write the table."""
        columns = {name: [row[name] for row in self.rows] for name in (*_TEXTS, *_WHOLE, *_NUMBERS)}
        write_columns(path, columns, {})

    @classmethod
    def load(cls, path: Path) -> FoldTable:
        """Read what `save` wrote."""
        columns = read_table(path, (*_TEXTS, *_WHOLE, *_NUMBERS))
        values = {name: columns[name].texts() for name in _TEXTS}
        values |= {name: columns[name].whole_numbers().tolist() for name in _WHOLE}
        values |= {name: columns[name].numbers().tolist() for name in _NUMBERS}
        return cls([dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)])

    def summary(self) -> list[dict[str, Any]]:
        """Return one row for every setting and seed: means and standard deviations over folds."""
        groups: dict[tuple[Which, int], list[dict[str, Any]]] = {}
        for which, places in self.results.items():
            for place, row in places.items():
                groups.setdefault((which, place.seed), []).append(row)
        return [_summed(rows) for rows in groups.values()]


def record(setting: Setting, fold: int, result: FoldResult, about: Mapping[str, Any]) -> dict[str, Any]:
    """Write the result of a fold as a row; `about` names the data, scale, threshold and checksum."""
    return {
        **about,
        "mechanism": setting.mechanism,
        "epsilon": setting.epsilon or _NO_EPSILON,
        "model": setting.model,
        "options": options_text(setting.options),
        "at": setting.at,
        "seed": setting.seed,
        "folds": setting.folds,
        "fold": fold,
        **{name: _rounded(value) for name, value in result.to_document().items() if name != "iterations"},
    }


def _rounded(value: Any) -> Any:  # noqa: ANN401 - a measure or a count
    return round(value, _DECIMALS) if isinstance(value, float) else value


def options_text(options: Options) -> str:
    """Write options as one line of JSON."""
    return json.dumps(options.to_document(), sort_keys=True)


def save_csv(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows that all have the same fields."""
    listed = list(rows)
    if not listed:
        raise TableError(f"there are no rows to write to {path}; compute some")
    write_columns(path, {name: [row[name] for row in listed] for name in listed[0]}, {})


def _summed(rows: list[dict[str, Any]]) -> dict[str, Any]:
    shared = {name: rows[0][name] for name in (*_TEXTS[:-1], "seed", "folds")}
    measures = {name: [row[name] for row in rows] for name in MEASURES}
    return {
        **shared,
        "folds_run": len(rows),
        **{name: _rounded(float(np.mean(values))) for name, values in measures.items()},
        **{
            f"{name}_sd": _rounded(float(np.std(values, ddof=1))) if len(values) > 1 else 0.0
            for name, values in measures.items()
        },
        "fit_seconds": round(float(np.mean([row["fit_seconds"] for row in rows])), 3),
        "threshold": rows[0]["threshold"],
        "data_sha256": rows[0]["data_sha256"],
    }
