"""Where results and downloads are kept between runs."""

from __future__ import annotations

import os
from pathlib import Path

from tacit.errors import FileError


def cache_folder() -> Path:
    """Return the folder `TACIT_CACHE` names, or the user's own for caches."""
    named = os.environ.get("TACIT_CACHE", "")
    if named:
        return Path(named)
    caches = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    try:
        return caches.expanduser() / "tacit"
    except RuntimeError as error:
        raise FileError("no home folder is known to keep results in; set TACIT_CACHE to a folder") from error
