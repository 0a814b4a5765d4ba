"""Passages of docs/scaling.md that are made of what was measured on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cluster.model import FLOAT, Cluster, Popularity, Rates, broadcast_bytes, shape_of
from tacit.evaluation.world import WorldShape

if TYPE_CHECKING:
    from collections.abc import Iterable

    Record = dict[str, Any]

NAMES = {"local": "local engine", "broadcast": "Spark, broadcast", "joined": "Spark, joined", "als": "Spark's ALS"}
CLUSTER = Cluster("100 m6i.8xlarge", 100, 32, 12.5e9 / 8)
LARGE = WorldShape(100_000_000, 10_000_000, 10_000_000_000)
MIDDLING = WorldShape(5_000_000, 500_000, 1_000_000_000)
LARGER_CHUNKS = 4  # times as many reports in each


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    """Write a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def iterations(record: Record) -> str:
    """Tell seconds an iteration, world by world, and how straight a line they make."""
    names = [name for name in NAMES if all(name in world["engines"] for world in record["worlds"])]
    rows = [
        [_millions(world), *(f"{world['engines'][name]['seconds']:.3f}" for name in names), *_beside_als(world)]
        for world in record["worlds"]
    ]
    lines = record["lines"]["iterations"]
    told = [
        ["a line by least squares", *(f"{lines[name]['seconds_per_million']:.4f} a million" for name in names), ""],
        ["... which is off by at most", *(f"{lines[name]['largest_deviation']:.0%}" for name in names), ""],
    ]
    head = ["seconds an iteration", *(NAMES[name] for name in names), "ALS / broadcast"]
    return f"{table(head, rows + told)}\n\n{_run(record)}"


def _run(record: Record) -> str:
    of = record["machine"]
    rounds = "one round" if record["rounds"] == 1 else f"the best of {record['rounds']} rounds"
    versions = ", ".join(f"{name} {version}" for name, version in record["libraries"].items())
    return (
        f"Rank {record['rank']}, four components, {record['threads']} cores of an {of['processor']}, {rounds} on"
        f" {record['date']}, load {record['load_before']} before; {versions}, Python {of['python']}."
    )


def _beside_als(world: Record) -> list[str]:
    found = world["engines"]
    return [f"{found['als']['seconds'] / found['broadcast']['seconds']:.1f}"] if "als" in found else [""]


def ingest(record: Record) -> str:
    """Tell how long reading reports takes."""
    rows = [
        [_millions(world), *(f"{world['engines'][name]['ingest_seconds']:.1f}" for name in ("local", "broadcast"))]
        for world in record["worlds"]
    ]
    return table(["seconds from Parquet to the first iteration", "local engine", "Spark"], rows)


def travelled(record: Record) -> str:
    """Tell what was sent, beside what the formulas say."""
    rank, popularity = record["rank"], Popularity(**record["popularity"])
    rows = []
    for world in record["worlds"]:
        shape, found, needed = shape_of(world), world["engines"], world["engines"]["joined"]["needed"]
        counted = FLOAT * rank * sum(side["rows"] for side in needed.values())
        foreseen = FLOAT * rank * sum(side["foreseen"] for side in needed.values())
        figures = (
            *(found["broadcast"]["bytes"]["broadcast"], broadcast_bytes(shape, rank)),
            *(found["joined"]["bytes"]["shuffled"], counted, foreseen),
            popularity.shuffled_bytes(shape, rank, record["chunk_reports"]),
        )
        rows.append([_millions(world), *(f"{figure / 1e6:,.1f}" for figure in figures)])
    head = ["MB an iteration", "broadcast", "formula", "shuffled", "rows counted", "each popularity", "its shape only"]
    return table(head, rows)


def parts(record: Record) -> str:
    """Tell what the model makes of every world, with rates of the largest, and how much of the time that explains."""
    rates, rows = Rates.of(record, record["worlds"][-1]), []
    explained: dict[str, list[float]] = {"broadcast": [], "joined": []}
    for world in record["worlds"]:
        for plan, found in (("broadcast", rates.broadcast(record, world)), ("joined", rates.joined(record, world))):
            measured, total = world["engines"][plan]["seconds"], sum(found.values())
            travel = found.get("sending", found.get("exchange", 0.0))
            each = (found["arithmetic"], found["reading"], travel, found["scheduling"], total, measured)
            rows.append([_millions(world), plan, *(f"{one:.3f}" for one in each)])
            explained[plan].append(total / measured)
    head = ["seconds an iteration", "plan", "arithmetic", "reading", "factors", "scheduling", "sum", "measured"]
    of_broadcast, of_joined = (
        f"{min(each):.0%} to {max(each):.0%}" for each in (explained["broadcast"], explained["joined"][:-1])
    )
    told = (
        f"The sums are {of_broadcast} of what was measured in the broadcast plan, and {of_joined} in the joined plan"
        " but for the largest world, which its rate of exchange is taken from."
    )
    return f"{table(head, rows)}\n\n{told}"


def apart(record: Record) -> str:
    """Tell how far traces are from the local engine's."""
    most = {
        name: max(world["likelihoods_apart"][name] for world in record["worlds"]) for name in ("broadcast", "joined")
    }
    count = len(record["worlds"][0]["engines"]["local"]["likelihoods"])
    return (
        f"On Spark, over {count} iterations in each of these worlds, likelihoods are at most {most['broadcast']:.1e}"
        f" (broadcast) and {most['joined']:.1e} (joined) from the local engine's, relatively."
    )


def kernels(record: Record) -> str:
    """Tell what rounding does to a fit by itself."""
    rows = [[*key.split(", "), f"{apart:.1e}"] for key, apart in record["kernels_apart"].items()]
    return table(["rank", "ridge", "traces of two compiled kernels apart"], rows)


def foreseen(record: Record) -> str:
    """Tell what the model says of worlds that nobody has measured."""
    rates, rank, reports = Rates.of(record, record["worlds"][-1]), record["rank"], record["chunk_reports"]
    popularity = Popularity(**record["popularity"])
    cases = [(MIDDLING, "broadcast", reports), (LARGE, "joined", reports), (LARGE, "joined", LARGER_CHUNKS * reports)]
    rows = []
    for shape, plan, chunk in cases:
        if plan == "broadcast":
            sent, found = broadcast_bytes(shape, rank), CLUSTER.broadcast(rates, shape, rank, chunk)
        else:
            sent = popularity.shuffled_bytes(shape, rank, chunk)
            found = CLUSTER.joined(rates, shape, rank, sent, chunk)
        world = f"{shape.ratings:.0e} ratings, {shape.people:.0e} x {shape.items:.0e}".replace("e+", "e").replace(
            "e0", "e"
        )
        chunks, seconds = f"{shape.ratings / chunk:,.0f}", (f"{one:.1f}" for one in found.values())
        total = f"**{sum(found.values()):.0f}**"
        rows.append([world, plan, chunks, total, *seconds, f"{sent / 1e9:,.1f}"])
    head = [
        "world",
        "plan",
        "chunks a side",
        "all, s",
        "arithmetic",
        "reading",
        "workers",
        "network",
        "scheduling",
        "GB sent",
    ]
    return table(head, rows)


def _millions(world: Record) -> str:
    return f"{world['ratings'] / 1e6:.4g} M"
