"""What the page on epsilon and accuracy shows: channels on 1:5:1, and the errors measured by `accuracy.py`.

Nothing is measured here. Channels are computed; errors are copied from `results/accuracy.json`, seed 0, as they are.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit import RatingScale
from tacit.privacy.mechanisms import MECHANISMS, build_channel
from tacit.privacy.prior import Prior

if TYPE_CHECKING:
    from tacit.privacy.channel import Channel

    Row = dict[str, Any]

ROOT = Path(__file__).resolve().parents[1]
MEASURED = ROOT / "benchmarks" / "results" / "accuracy.json"
PAGE_DATA = ROOT / "browser" / "pages" / "tradeoff.json"
MOST_BYTES = 200_000

SCALE = RatingScale.parse("1:5:1")
EPSILONS = (
    *("0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.8", "1", "1.25", "1.5"),
    *("1.75", "2", "2.5", "3", "3.5", "4", "5", "6", "8", "10"),
)
DATA_NAMES = {
    "ml-100k": "MovieLens 100K",
    "ml-1m": "MovieLens 1M",
    "ml-latest-small": "MovieLens latest-small",
    "jester-1-part-1": "Jester 1, part 1",
    "libimseti-top2000": "Libimseti, 2,000 raters",
}


@dataclass(frozen=True, slots=True)
class Curve:
    """Rows of the record that belong together: one line of the chart."""

    label: str
    mechanism: str
    model: str
    at: str

    def of(self, rows: list[Row]) -> Row:
        """Return the curve's points; one of a single setting is a level line."""
        own = [row for row in rows if (row["mechanism"], row["model"], row["at"]) == self._key]
        points = sorted(
            ([_number(row["epsilon"]), row["rmse"], row["rmse_sd"]] for row in own), key=lambda p: p[0] or 0
        )
        return {"label": self.label, "mechanism": self.mechanism, "at": self.at, "points": points}

    @property
    def _key(self) -> tuple[str, str, str]:
        return self.mechanism, self.model, self.at


CURVES = (
    Curve("bounded Laplace, on the device", "bounded-laplace", "channel-mf", "device"),
    Curve("bounded Laplace, at the provider", "bounded-laplace", "channel-mf", "provider"),
    Curve("bounded Laplace, the paper's mixture (rank 1)", "bounded-laplace", "mog-mf, rank 1", "provider"),
    Curve("tailored, on the device", "tailored", "channel-mf", "device"),
    Curve("tailored, at the provider", "tailored", "channel-mf", "provider"),
    Curve(
        "clamped Laplace, least squares (rank 1)", "clamped-laplace", "mf-als, rank 1, regularisation 0.0", "provider"
    ),
)
# Settings that no epsilon changes: without noise, without reports, one constant for everybody.
LEVELS = (
    Curve("no noise, on the device", "none", "channel-mf", "device"),
    Curve("reports not read, on the device", "bounded-laplace", "channel-mf, no reports", "device"),
    Curve("the mean for everybody", "none", "global-mean", "provider"),
)


def channels() -> dict[str, list[Row]]:
    """Return every mechanism's channel at every epsilon of the grid."""
    prior = Prior.generic(SCALE)
    return {
        name: [_channel_document(build_channel(name, SCALE, epsilon, prior), prior) for epsilon in EPSILONS]
        for name in MECHANISMS
    }


def measured() -> list[Row]:
    """Return the record's errors by data set, as curves and level lines."""
    rows = [row for row in json.loads(MEASURED.read_text(encoding="utf-8"))["rows"] if row["seed"] == 0]
    return [_data_document(data, [row for row in rows if row["data"] == data]) for data in DATA_NAMES]


def _channel_document(channel: Channel, prior: Prior) -> Row:
    joint = prior.probabilities[:, None] * channel.likelihood
    return {
        "loss": _short(channel.exact_loss),
        "values": [_short(value) for value in channel.symbol_values],
        "rows": [[_short(chance) for chance in row] for row in channel.likelihood],
        "right": _short(joint.max(axis=0).sum()),
        "noise": _short(channel.calibrate(prior).noise_deviation),
    }


def _data_document(data: str, rows: list[Row]) -> Row:
    return {
        "name": DATA_NAMES[data],
        "folds": rows[0]["folds"],
        "curves": [curve.of(rows) for curve in CURVES],
        "levels": [level.of(rows) for level in LEVELS],
    }


def _number(epsilon: str | None) -> float | None:
    return None if epsilon is None else float(epsilon)


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def main() -> int:
    """Write the page's data."""
    prior = Prior.generic(SCALE)
    document = {
        "source": "benchmarks/results/accuracy.json",
        "scale": str(SCALE),
        "ratings": SCALE.ratings.tolist(),
        "prior": [_short(chance) for chance in prior.probabilities],
        "epsilons": list(EPSILONS),
        "channels": channels(),
        "measured": measured(),
    }
    text = json.dumps(document, separators=(",", ":")) + "\n"
    if len(text) > MOST_BYTES:
        print(f"{len(text)} bytes are more than the page's {MOST_BYTES}; take fewer epsilons", file=sys.stderr)
        return 1
    PAGE_DATA.write_text(text, encoding="utf-8")
    print(f"wrote {PAGE_DATA.relative_to(ROOT)}: {len(text):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
