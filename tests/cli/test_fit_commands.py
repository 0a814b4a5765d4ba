from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tacit.cli.progress import fit_progress, progress_text
from tacit.learning import MODELS, Iteration, Model
from tacit.privacy.item_model import ItemModel

if TYPE_CHECKING:
    from collections.abc import Callable

    from tacit.privacy.policy import Policy


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write_ratings(path: Path, users: int = 60, items: int = 12) -> None:
    """Write ratings in which people of one half like the items that those of the other half do not."""
    rng = np.random.default_rng(5)
    rows = [
        f"{user},film {item},{4 + rng.integers(2) if (user + item) % 2 else 1 + rng.integers(2)}"
        for user in range(users)
        for item in rng.choice(items, size=8, replace=False)
    ]
    path.write_text("user,item,rating\n" + "\n".join(rows) + "\n", encoding="utf-8")


@pytest.fixture
def reports(run: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """Make a policy and reports under it, by the commands for that."""
    write_ratings(tmp_path / "ratings.csv")
    assert run("policy", "new", "--scale", "1:5:1", "--epsilon", "10", "-o", "policy.json").status == 0
    assert run("perturb", "ratings.csv", "--policy", "policy.json", "-o", "reports.parquet").status == 0
    return run


FIT = ["fit", "reports.parquet", "--policy", "policy.json", "-o", "model"]


def test_the_whole_way_from_ratings_to_recommendations(reports: Callable[..., Any]) -> None:
    fitted = reports(*FIT, "--model", "mf-als", "--rank", "2", "--seed", "11", "--json")
    assert fitted.status == 0
    assert fitted.json | {"seconds": 0, "iterations": 0, "objective": 0} == {
        "model": "mf-als",
        "iterations": 0,
        "seconds": 0,
        "objective": 0,
        "seed": 11,
        "likelihood": None,
        "stopped": "converged",
        "notes": [],
        "users": 60,
        "items": 12,
        "reports": 480,
        "options": fitted.json["options"],
        "output": "model",
        "engine": "local",
    }
    assert fitted.json["options"]["rank"] == 2
    assert fitted.err.count("\n") == 1
    assert fitted.err.startswith("ended after ")
    assert "seed 11; the model is in model" in fitted.err

    listed = reports("recommend", "model/", "--user", "7", "-n", "3", "--json")
    assert (listed.status, listed.err, listed.json["fallback"]) == (0, "", False)
    assert [row["rank"] for row in listed.json["items"]] == [1, 2, 3]
    scores = [row["score"] for row in listed.json["items"]]
    assert scores == sorted(scores, reverse=True)
    assert all(set(row) == {"item", "score", "rank"} and 1 <= row["score"] <= 5 for row in listed.json["items"])
    model = Model.load("model")
    assert [row["item"] for row in listed.json["items"]] == model.recommend(7, 3).items
    table = reports("recommend", "model/", "--user", "7", "-n", "3").out
    assert table.splitlines()[0].split() == ["rank", "item", "score"]
    assert len(table.splitlines()) == 4

    alike = reports("similar", "model/", "--item", "film 3", "-n", "2", "--json")
    assert (alike.status, alike.json["fallback"], len(alike.json["items"])) == (0, False, 2)
    assert all(int(row["item"].split()[1]) % 2 == 1 for row in alike.json["items"])
    assert "film" in reports("similar", "model/", "--item", "film 3").out
    assert ItemModel.load("model/items").rank == 2


@pytest.mark.parametrize("model", MODELS)
def test_every_model_is_fitted_saved_and_recommends(reports: Callable[..., Any], model: str) -> None:
    fitted = reports(*FIT, "--model", model, "--json")
    assert (fitted.status, fitted.json["model"]) == (0, model)
    assert set(fitted.json) >= {"model", "iterations", "seconds", "objective", "seed"}
    listed = reports("recommend", "model", "--user", "7", "--include-rated", "-n", "12", "--json")
    assert len(listed.json["items"]) == 12
    assert Model.load("model").options == fitted.json["options"]


def test_a_seed_that_was_drawn_is_written_down_and_repeats_the_fit(reports: Callable[..., Any]) -> None:
    first = reports(*FIT, "--json").json
    assert first["model"] == "mog-mf"
    assert np.isfinite(first["likelihood"])
    second = reports(*FIT, "--json", "--seed", str(first["seed"])).json
    assert (first["objective"], first["iterations"]) == (second["objective"], second["iterations"])
    assert Model.load("model").provenance.seed == first["seed"]
    assert reports(*FIT, "--json").json["seed"] != first["seed"]


def test_somebody_unknown_is_told_so(reports: Callable[..., Any]) -> None:
    reports(*FIT, "--model", "offsets")
    for user in ("nobody", "-5", "007"):
        found = reports("recommend", "model", "--user", user, "--json")
        assert found.status == 0
        assert found.json["fallback"] is True
        assert found.err == f"user {user} is not in the model; these are the items rated best by everybody\n"
    assert "\x1b" not in reports("recommend", "model", "--user", "\x1b[2J").err


def test_rated_items_come_back_only_when_asked_for(reports: Callable[..., Any]) -> None:
    reports(*FIT, "--model", "global-mean")
    assert len(reports("recommend", "model", "--user", "3", "--json").json["items"]) == 12 - 8
    assert (
        len(reports("recommend", "model", "--user", "3", "--include-rated", "-n", "12", "--json").json["items"]) == 12
    )


def test_ids_that_could_steer_a_terminal_are_escaped(run: Callable[..., Any], policy: Policy, tmp_path: Path) -> None:
    policy.save(tmp_path / "policy.json")
    rows = f'a,"x\x1b[2J",0,{policy.id}\nb,"x\x1b[2J",0,{policy.id}\n'
    (tmp_path / "reports.csv").write_text(f"user,item,symbol,policy\n{rows}", encoding="utf-8")
    assert run("fit", "reports.csv", "--policy", "policy.json", "--model", "offsets", "-o", "model").status == 0
    table = run("recommend", "model", "--user", "a", "--include-rated").out
    assert "\x1b" not in table
    assert "x\\x1b[2J" in table


def test_several_files_under_several_policies_make_one_model(reports: Callable[..., Any], tmp_path: Path) -> None:
    reports("policy", "new", "--scale", "1:5:1", "--epsilon", "1", "--mechanism", "duchi", "-o", "second.json")
    text = (tmp_path / "ratings.csv").read_text(encoding="utf-8").replace(",film", ",play")
    (tmp_path / "more.csv").write_text(text, encoding="utf-8")
    reports("perturb", "more.csv", "--policy", "second.json", "-o", "more.parquet")
    done = reports("fit", "reports.parquet", "more.parquet", "--policy", "policy.json", "--policy", "second.json",
                   "--model", "mf-als", "-o", "model", "--json")  # fmt: skip
    assert (done.status, done.json["reports"], done.json["items"]) == (0, 960, 24)
    assert len(Model.load("model").provenance.policies) == 2


def test_a_fit_goes_on_from_its_checkpoint(reports: Callable[..., Any]) -> None:
    kept = [*FIT, "--seed", "1", "--option", "tolerance=0", "--checkpoint", "kept", "--json"]
    assert reports(*kept, "--option", "iterations=3").json["iterations"] == 3
    on = reports(*kept, "--option", "iterations=6").json
    straight = reports(*FIT, "--seed", "1", "--option", "tolerance=0", "--option", "iterations=6", "--json").json
    assert (on["iterations"], on["objective"]) == (6, pytest.approx(straight["objective"]))
    assert names_in(Path("model")) == ["arrays.npz", "items", "model.json"]


def test_options_are_read_by_their_types(reports: Callable[..., Any]) -> None:
    lines = ["rank=2", "offsets=true", "offset_regularisation=2", "tolerance=1e-3", "start=random", "iterations=4"]
    done = reports(*FIT, "--model", "mf-als", *(word for line in lines for word in ("--option", line)), "--json")
    assert done.status == 0
    assert done.json["options"] == {
        "rank": 2,
        "regularisation": 5.0,
        "offsets": True,
        "offset_regularisation": 2.0,
        "tolerance": 1e-3,
        "iterations": 4,
        "start": "random",
    }


def test_what_takes_much_memory_is_said_before(reports: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("cli.fit", "learning.local_engine"):
        monkeypatch.setattr(f"tacit.{module}.memory_needed", lambda *_: 2_340_000_000)
    assert "it takes about 2.3 GB of memory\n" in reports(*FIT, "--model", "offsets").err


BAD_LINES = {
    "no reports": (["fit", "--policy", "policy.json", "-o", "model"], "REPORTS"),
    "no policy": (["fit", "reports.parquet", "-o", "model"], "--policy"),
    "no output": (["fit", "reports.parquet", "--policy", "policy.json"], "--output"),
    "absent reports": (["fit", "x.parquet", "--policy", "policy.json", "-o", "model"], "cannot read x.parquet"),
    "absent policy": (["fit", "reports.parquet", "--policy", "x.json", "-o", "model"], "cannot read x.json"),
    "reports twice": (["fit", "reports.parquet", "reports.parquet", *FIT[2:]], "keep one report per user and item"),
    "ratings as reports": (["fit", "ratings.csv", *FIT[2:]], "no column 'symbol'"),
    "the wrong policy": (["fit", "reports.parquet", "--policy", "other.json", "-o", "model"], "was not given"),
    "unknown model": ([*FIT, "--model", "magic"], "no model 'magic'; choose one of mog-mf, channel-mf, mf-als"),
    "unknown option": ([*FIT, "--option", "depth=3"], "mog-mf has no option 'depth'; its options and their defaults"),
    "option of another model": ([*FIT, "--option", "epochs=3"], "rank=3, components=4"),
    "option without value": ([*FIT, "--option", "rank"], "'rank' is not NAME=VALUE"),
    "option without name": ([*FIT, "--option", "=3"], "is not NAME=VALUE"),
    "option twice": ([*FIT, "--option", "rank=3", "--option", "rank=3"], "'rank' is given twice"),
    "rank twice": ([*FIT, "--option", "rank=3", "--rank", "3"], "'rank' is given twice"),
    "rank in words": ([*FIT, "--rank", "three"], "three"),
    "half a rank": ([*FIT, "--option", "rank=2.5"], "rank is '2.5'; give a whole number"),
    "a grouped rank": ([*FIT, "--option", "rank=1_0"], "rank is '1_0'; give a whole number"),
    "rank 0": ([*FIT, "--rank", "0"], "rank is 0"),
    "a huge rank": ([*FIT, "--rank", "99999"], "rank is 99999"),
    "an endless rank": ([*FIT, "--option", "rank=" + "9" * 5000], "give a whole number"),
    "rank where there is none": ([*FIT, "--model", "offsets", "--rank", "3"], "offsets has no option 'rank'"),
    "rank where there is nothing": ([*FIT, "--model", "global-mean", "--rank", "3"], "it has none"),
    "tolerance nan": ([*FIT, "--option", "tolerance=nan"], "tolerance is nan"),
    "tolerance in words": ([*FIT, "--option", "tolerance=low"], "tolerance is 'low'; give a number"),
    "a bool in words": ([*FIT, "--model", "mf-als", "--option", "offsets=maybe"], "give true or false"),
    "an odd start": ([*FIT, "--option", "start=over"], "start is 'over'; choose one of random, svd"),
    "a seed below 0": ([*FIT, "--seed", "-1"], "--seed"),
    "no threads": ([*FIT, "--threads", "0"], "--threads"),
    "output onto a file": ([*FIT[:-1], "ratings.csv"], "is a file or a link"),
    "output onto a full folder": ([*FIT[:-1], "full"], "holds 'thesis.txt'"),
    "output in an absent folder": ([*FIT[:-1], "absent/model"], "no folder absent"),
    "output onto this folder": ([*FIT[:-1], "."], "not the name of a folder"),
    "checkpoint in the model": ([*FIT, "--checkpoint", "model/kept"], "keep it elsewhere"),
    "recommend without a user": (["recommend", "model"], "give --user ID, or --everybody"),
    "recommend without a model": (["recommend", "absent", "--user", "1"], "there is no file absent/model.json"),
    "recommend from a full folder": (["recommend", "full", "--user", "1"], "there is no file full/model.json"),
    "recommend from a file": (["recommend", "ratings.csv", "--user", "1"], "there is no file ratings.csv/model.json"),
    "recommend from a damaged model": (["recommend", "damaged", "--user", "1"], "not of the format tacit-model/1"),
    "recommend nothing": (["recommend", "fitted", "--user", "1", "-n", "0"], "-n"),
    "recommend too much": (["recommend", "fitted", "--user", "1", "-n", "10001"], "10001"),
    "similar to the unknown": (["similar", "fitted", "--item", "x"], "item 'x' is unknown or has no reports"),
    "similar without factors": (["similar", "plain", "--item", "film 1"], "no factors"),
    "similar to nothing": (["similar", "fitted"], "--item"),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files good and bad, made once."""
    folder = tmp_path_factory.mktemp("world")
    write_ratings(folder / "ratings.csv")
    command = [sys.executable, "-c", "from tacit.cli import main; main()"]
    for line in (
        ["policy", "new", "--scale", "1:5:1", "--epsilon", "4"],
        ["policy", "new", "--scale", "1:5:1", "--epsilon", "3", "-o", "other.json"],
        ["perturb", "ratings.csv", "--policy", "policy.json", "-o", "reports.parquet"],
        [*FIT[:-1], "fitted", "--model", "mf-als"],
        [*FIT[:-1], "plain", "--model", "offsets"],
    ):
        subprocess.run([*command, *line], cwd=folder, check=True, capture_output=True)
    (folder / "full").mkdir()
    (folder / "full" / "thesis.txt").write_text("mine", encoding="utf-8")
    (folder / "damaged").mkdir()
    (folder / "damaged" / "model.json").write_text("{}", encoding="utf-8")
    return folder


@pytest.mark.parametrize("case", BAD_LINES)
def test_bad_input_ends_in_status_2_and_one_line_with_nothing_written(
    run: Callable[..., Any], world: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.chdir(world)
    line, complaint = BAD_LINES[case]
    before = sorted(str(path) for path in world.rglob("*"))
    done = run(*line)
    assert (done.status, done.out) == (2, ""), done
    assert done.err.startswith("tacit: ")
    assert done.err.count("\n") == 1
    assert complaint in done.err
    assert sorted(str(path) for path in world.rglob("*")) == before


def test_an_interrupted_fit_is_saved_as_it_is(reports: Callable[..., Any], tmp_path: Path) -> None:
    assert reports("policy", "verify", "policy.json").status == 0
    # Whoever runs the tests may have left interrupts ignored, which children inherit.
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from tacit.cli import main; main()"
    endless = ["--option", "tolerance=0", "--option", "iterations=10000", "--option", "rank=128", "--json"]
    endless += ["--checkpoint", "kept"]
    with subprocess.Popen(
        [sys.executable, "-c", code, *FIT, *endless],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as fitting:
        while not (tmp_path / "kept" / "checkpoint.npz").exists() and fitting.poll() is None:
            time.sleep(0.05)
        time.sleep(0.5)
        fitting.send_signal(signal.SIGINT)
        out, err = fitting.communicate(timeout=60)
    assert fitting.returncode == 0, err
    assert json.loads(out)["stopped"] == "interrupted"
    assert "interrupted after" in err
    assert "the model as it was then is in model" in err
    assert Model.load(tmp_path / "model").trace.stopped == "interrupted"


def test_a_kept_fit_goes_on_with_its_own_seed(reports: Callable[..., Any]) -> None:
    kept = [*FIT, "--option", "iterations=5", "--checkpoint", "kept", "--json"]
    first, second = reports(*kept), reports(*kept)
    assert (first.status, second.status) == (0, 0)
    assert first.json["seed"] == second.json["seed"]
    assert first.json["objective"] == second.json["objective"]
    Path("kept/seed.txt").write_text("none", encoding="utf-8")
    assert reports(*kept).status == 2


def test_a_full_disk_leaves_one_line_and_no_model(reports: Callable[..., Any], tmp_path: Path) -> None:
    assert reports("policy", "verify", "policy.json").status == 0
    limited = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048)); from tacit.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", limited, *FIT, "--model", "offsets"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert (
        done.stderr.splitlines()[-1] == "tacit: cannot write model: File too large; free space or choose another place"
    )
    assert "Traceback" not in done.stderr
    assert names_in(tmp_path) == ["policy.json", "ratings.csv", "reports.parquet"]


def test_progress_is_one_line_that_goes_away(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    with fit_progress(10) as watch:
        assert watch is not None
        watch(Iteration(1, 9.5, -1.25, 0.5, 2.0))
        watch(Iteration(2, 9.0, -1.125, 0.5, 4.0))
    shown = capsys.readouterr().err
    assert "\n" not in shown
    lines = [line for line in shown.split("\r") if line]
    assert [len(line) for line in lines] == [99] * 3
    assert lines[1].strip() == "iteration 2 of 10, log-likelihood -1.12500, at most 32 s left"
    assert lines[2].strip() == ""


def test_nobody_watching_sees_no_progress(capsys: pytest.CaptureFixture[str]) -> None:
    with fit_progress(10) as watch:
        assert watch is None
    assert capsys.readouterr().err == ""
    assert "objective 9.5," in progress_text(Iteration(1, 9.5, None, 0.5, 2.0), 1)


def test_the_documentation_lists_every_option_with_its_default() -> None:
    page = (Path(__file__).parents[2] / "docs" / "commands.md").read_text(encoding="utf-8")
    table = page.split("| model | option | default | meaning |\n")[1].split("\n\n")[0]
    documented: dict[str, dict[str, str]] = {}
    name = ""
    for line in table.splitlines()[1:]:
        model, option, default, _ = (cell.strip().strip("`") for cell in line.strip("|").split("|"))
        name = model or name
        documented.setdefault(name, {}).update({option: default} if option else {})
    known = {name: {field.name: str(field.default) for field in fields(kind)} for name, kind in MODELS.items()}
    assert documented == known


def test_rare_items_are_not_made_public_when_asked(reports: Callable[..., Any], tmp_path: Path) -> None:
    assert reports(*FIT, "--model", "channel-mf", "--least-reports", "40", "--seed", "1").status == 0
    model, public = Model.load(tmp_path / "model"), ItemModel.load(tmp_path / "model" / "items")
    counts = np.bincount(model.rated.columns)
    assert 0 < len(public.items) == (counts >= 40).sum() < len(model.items)
    assert json.loads((tmp_path / "model" / "model.json").read_text())["least_reports"] == 40
    refused = reports(*FIT, "--least-reports", "61")
    assert refused.status == 2
    assert f"--least-reports 61 would publish nothing: the busiest item has {counts.max()}" in refused.err
