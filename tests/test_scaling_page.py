"""The scaling page tells what was measured: its tables are made of the records, and nobody forgot to make them anew."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_page_is_what_the_records_make_of_it(tmp_path: Path) -> None:
    made = tmp_path / "scaling.md"
    command = [sys.executable, str(ROOT / "benchmarks" / "scaling_page.py"), "--output", str(made)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert made.read_text(encoding="utf-8") == (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
