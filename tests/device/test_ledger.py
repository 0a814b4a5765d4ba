from __future__ import annotations

import json
import os
import random
import signal
import stat
import subprocess
import sys
import textwrap
import time
import zlib
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from tacit.device import Device
from tacit.device.ledger import Ledger
from tacit.errors import LedgerError

if TYPE_CHECKING:
    from pathlib import Path

    from tacit.privacy.policy import Policy


def line(record: object) -> bytes:
    text = json.dumps(record).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


HEADER = line({"format": "tacit-ledger/1"})


def used_device(path: Path, policy: Policy) -> None:
    with Device(path, lifetime_epsilon=50) as device:
        device.consent(policy)
        for item in range(4):
            device.rate(item, 1 + item)
        device.rate(2, 5, change=True)


def test_a_ledger_cut_off_at_any_byte_opens_and_holds_a_prefix_of_the_truth(tmp_path: Path, policy: Policy) -> None:
    whole = tmp_path / "whole"
    used_device(whole, policy)
    content = whole.read_bytes()
    entries = [json.loads(part.partition(b" ")[2]) for part in content.splitlines()]
    reports = [entry for entry in entries if entry.get("kind") == "report"]
    # Every byte of the reports, and a sample of the long consent record before them.
    start = content.index(b'"kind":"report"') - 200
    for length in [*range(150), *range(150, start, 97), *range(start, len(content) + 1)]:
        cut = tmp_path / "cut"
        cut.write_bytes(content[:length])
        with Device(cut, lifetime_epsilon=50) as device:
            exported = device.export()["entries"]
            complete = sum(b'"kind":"report"' in part for part in content[:length].split(b"\n")[:-1])
            assert len(exported) == complete
            assert [entry["symbol"] for entry in exported] == [entry["symbol"] for entry in reports[:complete]]
            assert device.epsilon_spent == Decimal(complete)
        cut.unlink()


def test_a_repaired_ledger_goes_on_as_if_nothing_happened(tmp_path: Path, policy: Policy) -> None:
    path = tmp_path / "ledger"
    used_device(path, policy)
    path.write_bytes(path.read_bytes()[:-3])
    with Device(path) as device:
        assert device.epsilon_spent == Decimal(4)
        device.rate("new", 3)
    with Device(path) as device:
        assert device.epsilon_spent == Decimal(5)


@pytest.mark.parametrize("position", [0.1, 0.5, 0.9])
def test_damage_before_the_end_is_refused(tmp_path: Path, policy: Policy, position: float) -> None:
    path = tmp_path / "ledger"
    used_device(path, policy)
    content = bytearray(path.read_bytes())
    content[int(position * len(content))] ^= 1
    path.write_bytes(content)
    with pytest.raises(LedgerError, match=r"restore the file|not a tacit ledger"):
        Device(path)
    assert path.read_bytes() == bytes(content)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (line({"format": "tacit-ledger/2"}), "update tacit"),
        (line({"format": "tacit-ledger/2"}) + b"an end that was cut o", "update tacit"),
        (HEADER + line({"kind": "donate", "epsilon": "1"}), "update tacit"),
        (HEADER + line({"kind": "report", "item": "1"}), "update tacit"),
        (HEADER + line({"kind": "cap", "epsilon": "1e3"}), "update tacit"),
        (HEADER + line({"kind": "consent", "policy": "{}"}), "update tacit"),
        (HEADER + line([1]), "not a record"),
        (b"my diary\n", "restore the file"),
        (b"my diary", "not a tacit ledger"),
    ],
)
def test_a_ledger_from_the_future_or_from_elsewhere_is_refused_and_left_alone(
    tmp_path: Path, content: bytes, complaint: str
) -> None:
    path = tmp_path / "ledger"
    path.write_bytes(content)
    with pytest.raises(LedgerError, match=complaint):
        Device(path, lifetime_epsilon=5)
    assert path.read_bytes() == content


CAP = line({"kind": "cap", "epsilon": "50"})


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": "-5"},
        {"epsilon": "0.5"},
        {"symbol": 64},
        {"symbol": "3"},
        {"symbol": True},
        {"revision": "0"},
        {"item": 7},
        {"rating": "good"},
        {"policy": "0" * 64},
        {"policy": 5},
    ],
)
def test_a_record_that_is_whole_but_senseless_is_refused(
    tmp_path: Path, policy: Policy, change: dict[str, object]
) -> None:
    entry = {
        "kind": "report",
        "item": "a",
        "rating": "4",
        "policy": policy.id,
        "symbol": 3,
        "revision": 0,
        "epsilon": "1",
    }
    consent = line({"kind": "consent", "policy": policy.to_json().decode()})
    path = tmp_path / "ledger"
    path.write_bytes(HEADER + CAP + consent + line(entry))
    with Device(path) as device:
        assert device.epsilon_spent == 1
    path.write_bytes(HEADER + CAP + consent + line(entry | change))
    with pytest.raises(LedgerError):
        Device(path)


@pytest.mark.parametrize(
    "text", [b"{", b"\xff", b"[" * 10**5, b'{"kind":"cap","kind":"cap","epsilon":"1"}', b"9" * 5000]
)
def test_a_line_that_is_no_json_is_refused(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "ledger").write_bytes(HEADER + b"%08x %s\n" % (zlib.crc32(text), text))
    with pytest.raises(LedgerError):
        Device(tmp_path / "ledger", lifetime_epsilon=5)


@pytest.mark.parametrize("partial", [True, False])
def test_an_interrupt_in_the_middle_of_writing_leaves_no_trace(
    tmp_path: Path, policy: Policy, monkeypatch: pytest.MonkeyPatch, partial: bool
) -> None:
    """Ctrl-C while a record is being written or confirmed: it was not said, and what follows is not harmed."""
    path = tmp_path / "ledger"
    with Device(path, lifetime_epsilon=50) as device:
        device.consent(policy)
        device.rate("a", 1)
        real_write, real_fsync = os.write, os.fsync
        with monkeypatch.context() as interrupted:

            def stop(*_arguments: object) -> int:
                interrupted.setattr(os, "fsync", real_fsync)
                raise KeyboardInterrupt

            if partial:
                interrupted.setattr(os, "write", lambda file, content: real_write(file, content[:9]) and stop())
            else:
                interrupted.setattr(os, "fsync", stop)
            with pytest.raises(KeyboardInterrupt):
                device.rate("b", 2)
        assert device.epsilon_spent == 1
        said = [device.rate("c", 3), device.rate("d", 4)]
    with Device(path) as device:
        assert [report.item for report in device.reports()] == ["a", "c", "d"]
        assert device.reports()[1:] == said


def test_a_forked_child_cannot_spend_from_its_parents_ledger(tmp_path: Path, policy: Policy) -> None:
    with Device(tmp_path / "ledger", lifetime_epsilon=2) as device:
        device.consent(policy)
        child = os.fork()
        if child == 0:
            try:
                device.rate("child", 3)
            except LedgerError:
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        device.rate("parent", 3)
        assert device.epsilon_spent == 1


def test_a_second_process_or_device_is_kept_out(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with Device(path, lifetime_epsilon=5), pytest.raises(LedgerError, match="in use"):
        Device(path)
    Device(path).close()


def test_a_folder_that_cannot_keep_a_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_fsync = os.fsync

    def fsync(file: int) -> None:
        if stat.S_ISDIR(os.fstat(file).st_mode):
            raise OSError(22, "Invalid argument")
        real_fsync(file)

    with monkeypatch.context() as refusing:
        refusing.setattr(os, "fsync", fsync)
        for _ in range(2):
            with pytest.raises(LedgerError, match="choose another"):
                Device(tmp_path / "ledger", lifetime_epsilon=5)
    Device(tmp_path / "ledger", lifetime_epsilon=5).close()


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    Device(tmp_path / "ledger", lifetime_epsilon=5).close()
    assert (tmp_path / "ledger").stat().st_mode & 0o077 == 0


def test_unusable_paths_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent" / "ledger"):
        with pytest.raises(LedgerError, match="cannot open"):
            Ledger(path)


WRITER = """
import sys
from tacit.device import Device
from tacit.privacy.policy import Policy
device = Device(sys.argv[1])
print("ready", flush=True)
item = int(sys.argv[2])
while True:
    report = device.rate(item, 1 + item % 5)
    print(report.item, report.symbol, flush=True)
    item += 1
"""


def test_killing_the_process_in_the_middle_of_writing_loses_nothing_that_was_said(
    tmp_path: Path, policy: Policy
) -> None:
    """Kill -9 at random moments, ten times over: whatever was printed is in the ledger, once and unchanged."""
    path = tmp_path / "ledger"
    with Device(path, lifetime_epsilon=10**6) as device:
        device.consent(policy)
    chance = random.Random(4)
    said: dict[str, int] = {}
    for life in range(10):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(life * 10**6)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.02 + 0.1 * chance.random())
        process.send_signal(signal.SIGKILL)
        printed, _ = process.communicate()
        for row in printed.splitlines(keepends=True):
            if row.endswith("\n"):
                item, symbol = row.split()
                said[item] = int(symbol)
    with Device(path) as device:
        kept = {entry["item"]: entry["symbol"] for entry in device.export()["entries"]}
        assert len(said) > 10
        assert said.items() <= kept.items()
        assert device.epsilon_spent == len(device.export()["entries"])
        # At most one record a life was written but not yet said.
        assert len(kept) - len(said) <= 10


FULL_DISK = """
import resource, signal, sys
from decimal import Decimal
from tacit.device import Device
from tacit.errors import LedgerError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
device = Device(sys.argv[1])
size = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
refused = 0
for item in range(50):
    try:
        device.rate(item, 3)
    except LedgerError as error:
        assert "nothing was said or spent" in str(error), error
        refused += 1
spent = device.epsilon_spent
assert refused and spent == 50 - refused, (refused, spent)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
device.rate("after", 3)
device.close()
with Device(sys.argv[1]) as device:
    assert device.epsilon_spent == spent + 1
print("ok")
"""


@pytest.mark.parametrize("room", [0, 1, 100, 700, 1234])
def test_a_full_disk_refuses_the_rating_and_spends_nothing(tmp_path: Path, policy: Policy, room: int) -> None:
    """A limit on file size makes the operating system refuse a write in the middle, as a full disk does."""
    path = tmp_path / "ledger"
    with Device(path, lifetime_epsilon=1000) as device:
        device.consent(policy)
    limit = path.stat().st_size + room
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FULL_DISK), str(path), str(limit)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "ok\n", done.stderr


def test_a_symlink_is_followed_but_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    Device(tmp_path / "link", lifetime_epsilon=5).close()
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").stat().st_size > 0
