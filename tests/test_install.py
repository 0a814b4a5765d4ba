"""Installing never fails for want of a compiler or of Python's headers, and the results are the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.evaluation.world import WorldShape, make_world
from tacit.learning import Model
from tacit.privacy.policy import Policy
from tacit.privacy.scale import RatingScale
from tacit.tables import write_columns

ROOT = Path(__file__).parents[1]

HIDDEN = {
    "compiler": {"CC": "/bin/false", "CXX": "/bin/false"},
    "headers": {"CMAKE_ARGS": "-DPython_INCLUDE_DIR=/nonexistent"},
}


@pytest.fixture(params=HIDDEN)
def bare_install(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The package, installed where something was hidden."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", str(ROOT), "--wheel-dir", str(tmp_path)]
    environment = {**os.environ, **HIDDEN[request.param]}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert not [name for name in archive.namelist() if name.endswith(".so")]
        archive.extractall(tmp_path / "installed")
    return tmp_path / "installed"


def tacit(install: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command of an install, with this environment's libraries but not its own tacit."""
    paths = [str(install), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    code = f"import sys; sys.path[:0] = {paths!r}; sys.argv[0] = 'tacit'; from tacit.cli import main; main()"
    command = [sys.executable, "-S", "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def make_reports(folder: Path) -> None:
    scale = RatingScale.parse("1:5:1")
    policy = Policy.make("bounded-laplace", scale, "2")
    policy.save(folder / "policy.json")
    world = make_world(scale, shape=WorldShape(80, 60, 1500))
    words = np.random.default_rng(0).integers(0, 2**64, len(world.users), dtype=np.uint64, endpoint=False)
    symbols = policy.channel.draw(scale.ranks_of(world.ratings), words)
    columns = {"user": world.users, "item": world.items, "symbol": symbols}
    write_columns(folder / "reports.parquet", columns, {"tacit.policy": policy.id})


@pytest.mark.parametrize("name", ["mog-mf", "mf-sgd"])
def test_without_them_the_results_are_the_same_with_one_warning(bare_install: Path, name: str, tmp_path: Path) -> None:
    make_reports(tmp_path)
    reports, policy = str(tmp_path / "reports.parquet"), str(tmp_path / "policy.json")
    arguments = ["fit", reports, "--policy", policy, "--model", name, "--rank", "2", "--seed", "1", "--json"]
    limit = ["--option", "epochs=3" if name == "mf-sgd" else "iterations=5"]
    found: list[Model] = []
    documents: list[dict[str, Any]] = []
    for install in (bare_install, ROOT / "src"):
        model = tmp_path / f"model{len(found)}"
        if install == bare_install:
            done = tacit(install, *arguments, *limit, "-o", str(model))
        else:
            command = [str(Path(sys.executable).with_name("tacit")), *arguments, *limit, "-o", str(model)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        warnings = [line for line in done.stderr.splitlines() if "compiled kernels" in line]
        assert len(warnings) == (install == bare_install)
        documents.append(json.loads(done.stdout))
        found.append(Model.load(model))
    bare, compiled = found
    assert bare.provenance.versions["kernel"] == "numpy"
    assert compiled.provenance.versions["kernel"] != "numpy"
    assert documents[0]["objective"] == pytest.approx(documents[1]["objective"], rel=1e-5)
    users, items = np.repeat(np.arange(80), 60), np.tile(np.arange(60), 80)
    np.testing.assert_allclose(
        bare.predict(users, items).ratings, compiled.predict(users, items).ratings, rtol=1e-3, atol=1e-3
    )
