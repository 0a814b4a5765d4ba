"""Installs the peers, each by itself, into a virtual environment of their own; what does not install is skipped."""

from __future__ import annotations

import re
import subprocess
import sys
import venv
from pathlib import Path

ENVIRONMENT = Path(__file__).resolve().parents[2] / ".venv-peers"
PYTHON = ENVIRONMENT / "bin" / "python"
CONSTRAINTS = Path(__file__).with_name("constraints.txt")
PACKAGES = {
    "implicit": ["implicit"],
    "lenskit": ["lenskit"],
    "spark": ["pyspark", "pyarrow"],
    "surprise": ["scikit-surprise"],
    "cmfrec": ["cmfrec"],  # built from source, for minutes
}
# LensKit imports torch, whose ordinary Linux build brings gigabytes of GPU libraries that ALS never touches.
SMALL_TORCH = "torch==2.13.0+cpu"


def pip_install(*packages: str) -> str:
    """Install packages; return why it failed, in one line, or nothing."""
    pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(  # noqa: S603 - the packages named above
        [*pip, "--constraint", str(CONSTRAINTS), *packages], capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return ""
    reasons = re.findall(r"(?:\w*Error|ERROR): .+", done.stderr)
    return str(reasons[-1]) if reasons else f"pip ended with status {done.returncode}"


def main() -> None:
    """Install the peers named on the command line, or all."""
    chosen = sys.argv[1:] or list(PACKAGES)
    if unknown := set(chosen) - set(PACKAGES):
        sys.exit(f"unknown: {', '.join(sorted(unknown))}; choose from {', '.join(PACKAGES)}")
    if not PYTHON.exists():
        venv.create(ENVIRONMENT, with_pip=True)
        (ENVIRONMENT / ".gitignore").write_text("*\n", encoding="utf-8")
    for peer in chosen:
        if peer == "lenskit" and pip_install(SMALL_TORCH):
            print("lenskit: no small build of torch is offered here, so the large one comes with it", flush=True)
        reason = pip_install(*PACKAGES[peer])
        print(f"{peer}: skipped, {reason}" if reason else f"{peer}: installed", flush=True)


if __name__ == "__main__":
    main()
