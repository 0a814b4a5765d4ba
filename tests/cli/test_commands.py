from __future__ import annotations

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tacit.cli import COMMANDS
from tacit.privacy.mechanisms import MECHANISMS
from tacit.privacy.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Callable


RATINGS = "user,item,rating\n1,1,5\n1,2,3\n2,1,1\n"


def test_the_whole_way_of_a_rating(run: Callable[..., Any], tmp_path: Path) -> None:
    made = run(
        "policy",
        "new",
        "--scale",
        "1:5:1",
        "--epsilon",
        "1",
        "--mechanism",
        "bounded-laplace",
        "-o",
        "policy.json",
        "--json",
    )
    assert made.status == 0
    verified = run("policy", "verify", "policy.json", "--json")
    assert verified.status == 0
    assert verified.json == {
        "valid": True,
        "id": made.json["id"],
        "epsilon": 1.0,
        "exact_loss": made.json["exact_loss"],
        "reason": None,
    }
    (tmp_path / "ratings.csv").write_text(RATINGS, encoding="utf-8")
    perturbed = run("perturb", "ratings.csv", "--policy", "policy.json", "-o", "reports.parquet", "--json")
    assert perturbed.status == 0
    assert perturbed.json["largest_user_total"] == 2
    assert "spend it again" in perturbed.err
    assert pq.read_table("reports.parquet").num_rows == 3
    audited = run("audit", "--policy", "policy.json", "--samples", "100000", "--json")
    assert audited.status == 0
    numerator, denominator = str(audited.json["worst_ratio"]).split("/")
    assert Fraction(int(numerator), int(denominator)) == Policy.load("policy.json").channel.worst_ratio
    assert audited.json["verdict"] == "holds"
    assert set(audited.json) == {
        "policy",
        "epsilon",
        "exact_loss",
        "worst_ratio",
        "lower_bound",
        "confidence",
        "samples",
        "verdict",
    }
    for prose in (
        ["policy", "show", "policy.json"],
        ["audit", "--policy", "policy.json", "--samples", "10000"],
        ["policy", "verify", "policy.json"],
    ):
        assert run(*prose).status == 0


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("scale", [["--scale", "-10:10:0.25"], ["--scale=-10:10:0.25"]])
def test_every_mechanism_makes_a_policy_on_a_negative_scale(
    run: Callable[..., Any], mechanism: str, scale: list[str]
) -> None:
    assert run("policy", "new", *scale, "--epsilon", "0.5", "--mechanism", mechanism).status == 0
    assert run("policy", "show", "policy.json", "--json").json["scale"] == "-10:10:0.25"


def test_priors_come_from_files_and_from_reports(run: Callable[..., Any], tmp_path: Path) -> None:
    new = ["policy", "new", "--scale", "1:5:1", "--epsilon", "1", "--mechanism", "tailored", "--prior"]
    (tmp_path / "prior.csv").write_text("rating,weight\n1,10\n2,10\n5,80\n", encoding="utf-8")
    ids = {run(*new, source, "--json").json["id"] for source in ("uniform", "generic", "prior.csv")}
    assert len(ids) == 3
    rng = np.random.default_rng(0)
    rows = "\n".join(f"{user},1,{rating}" for user, rating in enumerate(rng.choice([4, 5], size=5000)))
    (tmp_path / "ratings.csv").write_text(f"user,item,rating\n{rows}\n", encoding="utf-8")
    run("policy", "new", "--scale", "1:5:1", "--epsilon", "3", "-o", "first.json")
    run("perturb", "ratings.csv", "--policy", "first.json", "-o", "reports.parquet")
    learned = run(*new, "reports.parquet", "-o", "second.json")
    assert learned.status == 0
    prior = Policy.load("second.json").claim.prior
    assert prior is not None
    assert float(prior[3] + prior[4]) > 0.8


@pytest.mark.parametrize("mechanism", ["randomized-response", "duchi", "tailored"])
def test_reports_of_any_policy_make_a_prior(run: Callable[..., Any], tmp_path: Path, mechanism: str) -> None:
    rows = "\n".join(f"{user},1,5" for user in range(2000))
    (tmp_path / "ratings.csv").write_text(f"user,item,rating\n{rows}\n", encoding="utf-8")
    run("policy", "new", "--scale", "1:5:1", "--epsilon", "3", "--mechanism", mechanism, "-o", "first.json")
    run("perturb", "ratings.csv", "--policy", "first.json", "-o", "reports.parquet")
    new = ["policy", "new", "--scale", "1:5:1", "--epsilon", "1", "--mechanism", "tailored"]
    assert run(*new, "--prior", "reports.parquet", "-o", "second.json").status == 0
    prior = Policy.load("second.json").claim.prior
    assert prior is not None
    assert float(prior[4]) > 0.5
    assert "never from true ratings" in " ".join(run("policy", "new", "--help").out.split())


def test_noise_is_reported_in_intervals(run: Callable[..., Any], tmp_path: Path) -> None:
    done = run(
        "noise",
        "--scale",
        "1:5:1",
        "--epsilon",
        "1",
        "--mechanism",
        "laplace,bounded-laplace",
        "--plot",
        "noise.svg",
        "--json",
    )
    assert done.status == 0
    laplace, bounded = done.json["mechanisms"]  # type: ignore[misc]
    assert (laplace["name"], bounded["name"]) == ("laplace", "bounded-laplace")
    assert laplace["intervals"][0]["from"] is None
    assert [(row["from"], row["to"]) for row in bounded["intervals"]] == [(n, n + 1) for n in range(-4, 4)]
    assert sum(row["derived"] for row in bounded["intervals"]) == pytest.approx(1)
    assert bounded["p_value"] > 1e-4
    assert (tmp_path / "noise.svg").read_text(encoding="utf-8").count("<svg") == 1
    assert "derived" in run("noise", "--scale", "1:5:1", "--epsilon", "1").out


def test_no_mechanism_has_no_noise(run: Callable[..., Any]) -> None:
    done = run("noise", "--scale", "1:5:1", "--epsilon", "1", "--mechanism", "none", "--json")
    assert done.json["mechanisms"] == [
        {"name": "none", "intervals": [{"from": 0.0, "to": 1.0, "derived": 1.0, "drawn": 1.0}], "p_value": 1.0}
    ]


@pytest.mark.parametrize("line", [[], ["policy"]])
def test_a_command_alone_shows_its_help(run: Callable[..., Any], line: list[str]) -> None:
    done = run(*line)
    assert (done.status, done.out) == (2, "")
    assert "Example:\n" in done.err


def test_the_demonstration_shows_every_mechanism_and_fetches_nothing(run: Callable[..., Any]) -> None:
    done = run("demo", "--json")
    assert done.status == 0
    rows = {row["mechanism"]: row for row in done.json["mechanisms"]}  # type: ignore[attr-defined]
    assert list(rows) == list(MECHANISMS)
    for row in rows.values():
        assert row["audited"] <= 1.03
        assert row["exact_loss"] <= 1
        assert done.json["guess_right_without"] <= row["guess_right"] + 0.01  # type: ignore[operator]
        assert abs(row["estimated_mean"] - done.json["true_mean"]) < 0.3  # type: ignore[operator]
    page = Path(str(done.json["report"])).read_text(encoding="utf-8")
    assert page.count("<svg") == 1
    assert all(name in page for name in MECHANISMS)
    for address in ("http://", "https://"):
        around = [page[at : at + 60] for at in range(len(page)) if page.startswith(address, at)]
        # Names of XML vocabularies are not addresses anything is fetched from.
        assert all(
            "w3.org" in text or "purl.org" in text or "creativecommons.org" in text or "matplotlib.org" in text
            for text in around
        )
    assert "<script" not in page
    assert "src=" not in page


BAD_LINES = {
    "no epsilon": ["policy", "new", "--scale", "1:5:1"],
    "epsilon 0": ["policy", "new", "--scale", "1:5:1", "--epsilon", "0"],
    "epsilon negative": ["policy", "new", "--scale", "1:5:1", "--epsilon", "-1"],
    "epsilon huge": ["policy", "new", "--scale", "1:5:1", "--epsilon", "1e9"],
    "epsilon denormal": ["policy", "new", "--scale", "1:5:1", "--epsilon", "5e-324"],
    "epsilon nan": ["policy", "new", "--scale", "1:5:1", "--epsilon", "nan"],
    "low above high": ["policy", "new", "--scale", "5:1:1", "--epsilon", "1"],
    "step does not divide": ["policy", "new", "--scale", "1:5:3", "--epsilon", "1"],
    "scale of words": ["policy", "new", "--scale", "bad:good:1", "--epsilon", "1"],
    "unknown mechanism": ["policy", "new", "--scale", "1:5:1", "--epsilon", "1", "--mechanism", "magic"],
    "unbounded laplace": ["policy", "new", "--scale", "1:5:1", "--epsilon", "1", "--mechanism", "laplace"],
    "no mechanism at all": ["policy", "new", "--scale", "1:5:1", "--epsilon", "1", "--mechanism", "none"],
    "prior for the wrong mechanism": ["policy", "new", "--scale", "1:5:1", "--epsilon", "1", "--prior", "uniform"],
    "absent prior": [
        "policy",
        "new",
        "--scale",
        "1:5:1",
        "--epsilon",
        "1",
        "--mechanism",
        "tailored",
        "--prior",
        "x.csv",
    ],
    "absent folder": ["policy", "new", "--scale", "1:5:1", "--epsilon", "1", "-o", "absent/policy.json"],
    "absent policy": ["policy", "show", "absent.json"],
    "truncated policy": ["policy", "verify", "truncated.json"],
    "edited policy": ["audit", "--policy", "edited.json"],
    "edited policy for perturb": ["perturb", "ratings.csv", "--policy", "edited.json", "-o", "reports.parquet"],
    "a folder as policy": ["policy", "verify", "."],
    "text rating": ["perturb", "text.csv", "--policy", "policy.json", "-o", "reports.parquet"],
    "nan rating": ["perturb", "nan.csv", "--policy", "policy.json", "-o", "reports.parquet"],
    "empty file": ["perturb", "empty.csv", "--policy", "policy.json", "-o", "reports.parquet"],
    "a folder as ratings": ["perturb", "folder.csv", "--policy", "policy.json", "-o", "reports.parquet"],
    "odd output name": ["perturb", "ratings.csv", "--policy", "policy.json", "-o", "reports.xlsx"],
    "output in an absent folder": ["perturb", "ratings.csv", "--policy", "policy.json", "-o", "absent/reports.parquet"],
    "too few samples": ["audit", "--policy", "policy.json", "--samples", "3"],
    "samples in words": ["audit", "--policy", "policy.json", "--samples", "many"],
    "odd confidence": ["audit", "--policy", "policy.json", "--confidence", "2"],
    "noise of the unknown": ["noise", "--scale", "1:5:1", "--epsilon", "1", "--mechanism", "gauss"],
    "epsilon beyond all exponents": ["policy", "new", "--scale", "1:5:1", "--epsilon", "1e999999999"],
    "epsilon with an underscore": ["policy", "new", "--scale", "1:5:1", "--epsilon", "1_0"],
    "scale beyond all exponents": ["policy", "new", "--scale", "1:1e999999999:1", "--epsilon", "1"],
    "scale finer than decimals": ["policy", "new", "--scale", "0:1:0.0000000001", "--epsilon", "1"],
    "output without a name": ["policy", "new", "--scale", "1:5:1", "--epsilon", "1", "-o", ""],
    "output onto a folder": ["policy", "new", "--scale", "1:5:1", "--epsilon", "1", "-o", "folder.csv"],
    "output onto this folder": ["policy", "new", "--scale", "1:5:1", "--epsilon", "1", "-o", "."],
    "output onto a device": ["policy", "new", "--scale", "1:5:1", "--epsilon", "1", "-o", "/dev/zero"],
    "reports over ratings": ["perturb", "ratings.csv", "--policy", "policy.json", "-o", "ratings.csv"],
    "noise with a comma too many": ["noise", "--scale", "1:5:1", "--epsilon", "1", "--mechanism", "duchi,"],
    "odd picture": ["noise", "--scale", "1:5:1", "--epsilon", "1", "--plot", "noise.doc"],
    "histogram off the scale": ["noise", "--scale", "1:5:1", "--epsilon", "1", "--histogram", "histogram.csv"],
    "unknown command": ["learn"],
    "unknown option": ["demo", "--now"],
    "demo into a file": ["demo", "-o", "ratings.csv"],
}


@pytest.mark.parametrize("case", BAD_LINES)
def test_bad_input_ends_in_status_2_and_one_line_with_nothing_written(
    run: Callable[..., Any], tmp_path: Path, policy: Policy, case: str
) -> None:
    policy.save(tmp_path / "policy.json")
    document = policy.to_json()
    (tmp_path / "truncated.json").write_bytes(document[: len(document) // 2])
    (tmp_path / "edited.json").write_bytes(document.replace(b'"epsilon":"1"', b'"epsilon":"2"'))
    (tmp_path / "ratings.csv").write_text(RATINGS, encoding="utf-8")
    (tmp_path / "text.csv").write_text("user,item,rating\n1,1,fine\n", encoding="utf-8")
    (tmp_path / "nan.csv").write_text("user,item,rating\n1,1,nan\n", encoding="utf-8")
    (tmp_path / "histogram.csv").write_text("rating,weight\n9,1\n", encoding="utf-8")
    (tmp_path / "empty.csv").write_bytes(b"")
    (tmp_path / "folder.csv").mkdir()
    before = sorted(path.name for path in tmp_path.iterdir())
    done = run(*BAD_LINES[case])
    assert done.status == 2, done
    assert done.out == ""
    assert done.err.startswith("tacit: ")
    assert done.err.count("\n") == 1
    assert "Traceback" not in done.err
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_an_invalid_policy_is_reported_in_json_too(run: Callable[..., Any], tmp_path: Path, policy: Policy) -> None:
    (tmp_path / "edited.json").write_bytes(policy.to_json().replace(b'"epsilon":"1"', b'"epsilon":"2"'))
    done = run("policy", "verify", "edited.json", "--json")
    assert done.status == 2
    assert done.json["valid"] is False
    assert "its id" in str(done.json["reason"])


def test_a_dishonest_policy_is_found_by_verify_and_audit(run: Callable[..., Any], tmp_path: Path) -> None:
    """A provider seals a table of epsilon 3 as epsilon 1, under its right id."""
    vectors = json.loads(
        (Path(__file__).parents[2] / "protocol/vectors/refused-policies.json").read_text(encoding="utf-8")
    )
    dishonest = next(entry["document"] for entry in vectors if entry["why"] == "a ratio above e^epsilon")
    (tmp_path / "bad.json").write_text(dishonest, encoding="utf-8")
    verified = run("policy", "verify", "bad.json", "--json")
    assert (verified.status, verified.json["valid"]) == (2, False)
    assert verified.json["exact_loss"] > verified.json["epsilon"]  # type: ignore[operator]
    audited = run("audit", "--policy", "bad.json", "--samples", "10000", "--json")
    assert (audited.status, audited.json["verdict"]) == (2, "violated")


@pytest.mark.parametrize("command", ["", *COMMANDS, "policy new", "policy show", "policy verify"])
def test_every_command_has_help_with_an_example_and_a_place_in_the_documentation(
    run: Callable[..., Any], command: str
) -> None:
    done = run(*command.split(), "--help")
    assert done.status == 0
    assert "Example:" in done.out
    pages = (Path(__file__).parents[2] / "docs" / "commands.md").read_text(encoding="utf-8")
    assert f"tacit {command}".strip() in pages


def test_a_full_disk_leaves_one_line_and_no_file(tmp_path: Path, policy: Policy) -> None:
    policy.save(tmp_path / "policy.json")
    rows = "\n".join(f"{user},{item},3" for user in range(200) for item in range(100))
    (tmp_path / "ratings.csv").write_text(f"user,item,rating\n{rows}\n", encoding="utf-8")
    limited = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)); "
    )
    command = [sys.executable, "-c", limited + "from tacit.cli import main; main()"]
    for output in ("reports.parquet", "reports.csv"):
        done = subprocess.run(
            [*command, "perturb", "ratings.csv", "--policy", "policy.json", "-o", output],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 2
        assert done.stderr.startswith(f"tacit: cannot write {output}")
        assert done.stderr.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["policy.json", "ratings.csv"]


def test_a_reader_that_goes_away_is_no_traceback(tmp_path: Path, policy: Policy) -> None:
    policy.save(tmp_path / "policy.json")
    done = subprocess.run(
        f"{sys.executable} -c 'from tacit.cli import main; main()' policy show policy.json --json | head -c 1",
        shell=True,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
