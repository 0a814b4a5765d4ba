"""The tables that need no learning: noise laws, bytes on the wire, and what the data sets are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.evaluation.pg_mf import PgMfOptions, run_pg_mf
from tacit.evaluation.pg_mf_devices import DeviceRatings
from tacit.privacy.compact import encode_compact
from tacit.privacy.continuous import draw_bounded_laplace, draw_laplace_noise
from tacit.privacy.noise import bounded_laplace_noise_law, compare_noise, goodness_of_fit, laplace_noise_law
from tacit.privacy.policy import Policy
from tacit.privacy.prior import Prior
from tacit.privacy.report import MOST_REPORTS, Report, encode_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tacit.evaluation.ratings import RatingData

NOISE_SAMPLES = 100_000
NOISE_EPSILONS = ("1", "0.1")
_BINS_PER_STEP = 4
_REACH = 2.5  # widths of the scale shown of noise without bounds


def noise_rows(data: RatingData, *, seed: int = 0) -> list[dict[str, Any]]:
    """Draw noise for the ratings of a data set and set the derived law beside it, bin by bin."""
    histogram = Prior.of(data.scale, np.bincount(data.ranks, minlength=data.scale.size))
    rows = []
    for epsilon in NOISE_EPSILONS:
        for mechanism in ("laplace", "bounded-laplace"):
            rng = np.random.default_rng([seed, *f"{mechanism} {epsilon}".encode()])
            rows += _noise_rows(mechanism, epsilon, histogram, rng)
    return rows


def _noise_rows(mechanism: str, epsilon: str, histogram: Prior, rng: np.random.Generator) -> list[dict[str, Any]]:
    scale, number = histogram.scale, float(epsilon)
    bounded = mechanism != "laplace"
    edges = _edges(float(scale.width) * (1 if bounded else _REACH), float(scale.step) / _BINS_PER_STEP, bounded=bounded)
    if bounded:
        ratings = rng.choice(scale.ratings, p=histogram.probabilities, size=NOISE_SAMPLES)
        noise = draw_bounded_laplace(ratings, scale, number, rng) - ratings
        derived = bounded_laplace_noise_law(scale, number, histogram, edges)
    else:
        noise = draw_laplace_noise(NOISE_SAMPLES, scale, number, rng)
        derived = laplace_noise_law(scale, number, edges)
    counts = np.histogram(noise, bins=edges)[0]
    fit = goodness_of_fit(counts, derived)
    # The table that devices really draw from has coarser cells; its law, step by step, is the same.
    table = compare_noise(mechanism, epsilon, histogram, samples=NOISE_SAMPLES, rng=rng).p_value
    shared = {
        "mechanism": mechanism,
        "epsilon": epsilon,
        "samples": NOISE_SAMPLES,
        "p_value": fit,
        "p_value_table": table,
    }
    ends = zip(
        edges[:-1].tolist(), edges[1:].tolist(), derived.tolist(), (counts / NOISE_SAMPLES).tolist(), strict=True
    )
    return [shared | dict(zip(("from", "to", "derived", "drawn"), one, strict=True)) for one in ends]


def _edges(reach: float, width: float, *, bounded: bool) -> NDArray[np.float64]:
    inner = np.arange(-round(reach / width), round(reach / width) + 1) * width
    return np.asarray(inner if bounded else np.concatenate([[-np.inf], inner, [np.inf]]), dtype=np.float64)


PAPER_TRAFFIC = {
    "BLP-MoG-MF": ("1 bit", "no transfer"),
    "ISGD": ("1 bit", "no transfer"),
    "PG-MF": ("1 bit", "0.15 MB"),
}


def communication_rows(data: RatingData, *, epsilon: str = "1") -> list[dict[str, Any]]:
    """Count the bytes that cross the wire, both ways, for the ratings of a data set."""
    rows = []
    for label, mechanism in (
        ("BLP-MoG-MF", "bounded-laplace"),
        ("ISGD", "clamped-laplace"),
        ("tailored channel", "tailored"),
    ):
        policy = Policy.make(mechanism, data.scale, epsilon)
        rows.append({"method": label, **_report_traffic(data, policy), **_paper(label)})
    return [*rows, {"method": "PG-MF", **_protocol_traffic(data, epsilon), **_paper("PG-MF")}]


def _paper(label: str) -> dict[str, str]:
    up, down = PAPER_TRAFFIC.get(label, ("-", "-"))
    return {"paper_up": up, "paper_down": down}


def _report_traffic(data: RatingData, policy: Policy) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    symbols = policy.channel.draw(data.ranks, rng.integers(0, 2**64, len(data), dtype=np.uint64))
    items = data.items.decoded()
    ends = np.flatnonzero(np.diff(data.users.codes)) + 1
    batched = sum(
        len(encode_compact(batch, policy))
        for rows in np.split(np.arange(len(data)), ends)
        for batch in _batches([Report(policy.id, str(items[row]), int(symbols[row])) for row in rows])
    )
    one = [Report(policy.id, str(items[0]), int(symbols[0]))]
    return {
        "bits_per_rating": policy.channel.bits,
        "bytes_one_report_json": len(encode_json(one)),
        "bytes_one_report_compact": len(encode_compact(one, policy)),
        "bytes_per_rating_batched": round(batched / len(data), 2),
        "bytes_up_per_user": round(batched / data.shape[0], 1),
        "bytes_down_per_user": len(policy.to_json()),
        "iterations": 1,
        "bytes_up_per_iteration": round(batched / data.shape[0], 1),
        "bytes_down_per_iteration": 0,
    }


def _batches(reports: Sequence[Report]) -> list[Sequence[Report]]:
    return [reports[start : start + MOST_REPORTS] for start in range(0, len(reports), MOST_REPORTS)]


def _protocol_traffic(data: RatingData, epsilon: str) -> dict[str, Any]:
    users, items = data.users.codes, data.items.codes
    ratings = DeviceRatings(data.scale, users, items, data.ratings.astype(np.float32), data.shape)
    options = PgMfOptions()
    traffic = run_pg_mf(ratings, float(epsilon), options=options, rng=np.random.default_rng(0)).traffic
    down, up = traffic.per_user
    return {
        "bits_per_rating": 0,  # its answers are about a whole profile
        "bytes_one_report_json": 0,
        "bytes_one_report_compact": traffic.per_round[1],
        "bytes_per_rating_batched": round(up * data.shape[0] / len(data), 2),
        "bytes_up_per_user": float(up),
        "bytes_down_per_user": down,
        "iterations": options.rounds,
        "bytes_up_per_iteration": float(traffic.per_round[1]),
        "bytes_down_per_iteration": traffic.per_round[0],
    }


PAPER_DATA = {
    "ml-100k": ("100k", "943", "1682", "0.5 to 5"),
    "jester-1-part-1": ("2 million", "73,421", "100", "-10 to 10"),
    "libimseti-top2000": ("17,359,346", "135,359", "168,791", "1 to 10"),
    "libimseti-world": ("17,359,346", "135,359", "168,791", "1 to 10"),
}


def data_row(data: RatingData, name: str) -> dict[str, Any]:
    """Describe a data set beside what the paper says of it."""
    ratings, users, items, scale = PAPER_DATA[name]
    return {
        "data": name,
        "synthetic": data.synthetic,
        "ratings": len(data),
        "users": data.shape[0],
        "items": data.shape[1],
        "scale": str(data.scale),
        "density": round(data.density, 5),
        "mean": round(float(data.ratings.mean()), 4),
        "sd": round(float(data.ratings.std()), 4),
        "sha256": data.sha256,
        "paper_ratings": ratings,
        "paper_users": users,
        "paper_items": items,
        "paper_scale": scale,
    }
