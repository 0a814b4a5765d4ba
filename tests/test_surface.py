from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tacit
from tacit import errors

ROOT = Path(__file__).parents[1]


def test_the_public_names_are_these() -> None:
    assert sorted(tacit.__all__) == [
        "Channel",
        "Device",
        "MECHANISMS",
        "Policy",
        "Prior",
        "Quote",
        "RatingScale",
        "Report",
        "TacitError",
        "Totals",
        "audit_policy",
        "build_channel",
        "compare_noise",
        "decode_compact",
        "decode_json",
        "encode_compact",
        "encode_json",
        "total_loss",
    ]
    assert all(hasattr(tacit, name) for name in tacit.__all__)


@pytest.mark.parametrize("code", ["import tacit", "import tacit.cli; from tacit.cli import tacit"])
def test_importing_loads_nothing_heavy(code: str) -> None:
    heavy = "scipy matplotlib pyarrow dp_accounting sqlalchemy fastapi http.client"
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"{code}; import sys; print([name for name in '{heavy}'.split() if name in sys.modules])",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"


def test_every_error_is_a_tacit_error_and_in_the_drawn_tree() -> None:
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    assert len(classes) > 10
    for kind in classes:
        assert issubclass(kind, errors.TacitError)
        assert kind.__name__ in str(errors.__doc__)


def test_the_readmes_python_runs_as_written(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    code = readme.split("```python\n")[1].split("```")[0]
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len([line for line in code.splitlines() if line.strip()]) <= 12


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_the_examples_run(example: Path, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(example)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_changelog_knows_the_version() -> None:
    assert f"## [{tacit.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
