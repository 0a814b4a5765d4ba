"""Looks for bytes that the readers of batches take wrongly, led by coverage.

It needs atheris, which tacit does not ask for:

    pip install atheris
    python tests/fuzz/compact_atheris.py -max_total_time=120 -max_len=4096
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

TARGETS = ("tacit.privacy.canonical", "tacit.privacy.report", "tacit.privacy.compact", "tacit.provider.service.intake")


class Readers:
    """The readers, and policies to read under."""

    def __init__(self) -> None:
        """Import them: by now they are watched."""
        *_, self.compact, self.intake = (importlib.import_module(name) for name in TARGETS)
        policy, scale = importlib.import_module("tacit.privacy.policy"), importlib.import_module("tacit.privacy.scale")
        stars, names = scale.RatingScale.parse("1:5:1"), ("bounded-laplace", "duchi", "randomized-response")
        self.policies = [policy.Policy.make(name, stars, "1") for name in names]
        self.known = {one.id: one for one in self.policies}
        self.keyed = {one.id: (key, one) for key, one in enumerate(self.policies, 1)}

    def try_bytes(self, noise: bytes) -> None:
        """Read bytes in every way there is; what is not refused on purpose must be what was written."""
        chosen = self.policies[noise[0] % len(self.policies)] if noise else self.policies[0]
        for content in (noise, b"tcr\x01" + bytes.fromhex(chosen.id) + noise[1:]):
            self._decode(content)
            for kind in (self.intake.COMPACT, self.intake.JSON):
                self._take(content, kind)

    def _decode(self, content: bytes) -> None:
        try:
            reports = self.compact.decode_compact(content, self.known)
        except self.compact.ReportError:
            return
        if self.compact.encode_compact(reports, self.known[reports[0].policy]) != content:
            raise AssertionError(content)

    def _take(self, content: bytes, kind: str) -> None:
        try:
            self.intake.batch_of(content, kind, b"h" * 32, self.keyed)
        except self.intake.Problem as problem:
            problem.detail.encode()


if __name__ == "__main__":
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=list(TARGETS)):
        readers = Readers()
    atheris.Setup(sys.argv, readers.try_bytes)
    atheris.Fuzz()
