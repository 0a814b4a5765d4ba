from __future__ import annotations

import fcntl
import hashlib
import io
import os
import pty
import subprocess
import sys
import threading
import urllib.request
import zipfile
from dataclasses import dataclass, field, replace
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tacit.errors import DataSetError, FileError
from tacit.evaluation import download
from tacit.evaluation.catalogue import DATA_SETS, Archive, Counts
from tacit.evaluation.download import Transfer, fetch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CONTENT = bytes(range(256)) * 4096  # 1 MiB: several blocks


@dataclass
class Server:
    """A real HTTP server on this machine, which can be told to misbehave."""

    content: bytes = CONTENT
    ranges: bool = True
    status: int = 200
    cut: int | None = None
    length: bool = True
    location: str = ""
    asked: list[str | None] = field(default_factory=list)
    url: str = ""

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        wanted = request.headers.get("Range")
        self.asked.append(wanted)
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and self.ranges else 0
        if start >= len(self.content) > 0 or self.status != 200:
            request.send_error(416 if self.status == 200 else self.status)
            return
        request.send_response(302 if self.location else 206 if start else 200)
        if self.location:
            request.send_header("Location", self.location)
        if start:
            request.send_header("Content-Range", f"bytes {start}-{len(self.content) - 1}/{len(self.content)}")
        if self.length:
            request.send_header("Content-Length", str(len(self.content) - start))
        request.end_headers()
        request.wfile.write(self.content[start : self.cut])


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.answer(self)

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    state.url = f"http://127.0.0.1:{http.server_port}/file.zip"
    yield state
    http.shutdown()
    thread.join()
    http.server_close()


def sha256(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


# Downloading


def test_a_file_is_fetched_whole_and_verified(server: Server, tmp_path: Path) -> None:
    seen: list[Transfer] = []
    target = tmp_path / "new" / "folder" / "file.zip"
    fetch(server.url, target, checksum=sha256(CONTENT), progress=seen.append)
    assert target.read_bytes() == CONTENT
    assert list(target.parent.iterdir()) == [target]
    assert [part.done for part in seen] == sorted(part.done for part in seen)
    assert (seen[-1].done, seen[-1].total, seen[-1].seconds_left) == (len(CONTENT), len(CONTENT), 0)


@pytest.mark.parametrize(("ranges", "length"), [(True, True), (False, True), (True, False)])
def test_an_interrupted_download_goes_on(server: Server, tmp_path: Path, ranges: bool, length: bool) -> None:
    server.ranges, server.length, server.cut = ranges, length, 300_000
    target, partial = tmp_path / "file.zip", tmp_path / "file.zip.partial"
    with pytest.raises(DataSetError, match=r"broke off after 300,000 of 1,048,576 bytes|expected"):
        fetch(server.url, target, checksum=sha256(CONTENT))
    if not length:  # without a length nothing but the checksum tells, so what came is not kept
        assert not partial.exists()
        return
    assert not target.exists()
    assert partial.read_bytes() == CONTENT[:300_000]
    server.cut = None
    fetch(server.url, target, checksum=sha256(CONTENT))
    assert target.read_bytes() == CONTENT
    assert not partial.exists()
    assert server.asked == [None, "bytes=300000-"]


def test_what_is_kept_of_another_file_is_found_out(server: Server, tmp_path: Path) -> None:
    partial = tmp_path / "file.zip.partial"
    partial.write_bytes(b"something else" * 1000)
    with pytest.raises(DataSetError, match="removed; try again"):
        fetch(server.url, tmp_path / "file.zip", checksum=sha256(CONTENT))
    assert list(tmp_path.iterdir()) == []
    partial.write_bytes(CONTENT + b"too much")
    fetch(server.url, tmp_path / "file.zip", checksum=sha256(CONTENT))
    assert (tmp_path / "file.zip").read_bytes() == CONTENT
    assert server.asked[-2:] == ["bytes=1048584-", None]


def test_a_wrong_checksum_names_both_and_leaves_nothing(server: Server, tmp_path: Path) -> None:
    wrong = "md5:" + "0" * 32
    with pytest.raises(DataSetError) as raised:
        fetch(server.url, tmp_path / "file.zip", checksum=wrong)
    assert hashlib.md5(CONTENT, usedforsecurity=False).hexdigest() in str(raised.value)
    assert "0" * 32 in str(raised.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("status", "said"), [(404, "answers 404 Not Found"), (503, "answers 503 Service Unavailable")])
def test_a_refusal_of_the_server_is_said(server: Server, tmp_path: Path, status: int, said: str) -> None:
    server.status = status
    with pytest.raises(DataSetError, match=said):
        fetch(server.url, tmp_path / "file.zip")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("length", [True, False])
def test_a_file_beyond_the_limit_is_not_fetched(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: bool
) -> None:
    server.length = length
    monkeypatch.setattr(download, "MOST_BYTES", 500_000)
    with pytest.raises(DataSetError, match="limit"):
        fetch(server.url, tmp_path / "file.zip")
    assert not (tmp_path / "file.zip").exists()


def test_a_refused_connection_is_one_line(tmp_path: Path, server: Server) -> None:
    with pytest.raises(DataSetError, match=r"cannot reach http://127\.0\.0\.1:9/x: Connection refused; check the"):
        fetch("http://127.0.0.1:9/x", tmp_path / "file.zip")
    assert server.asked == []
    assert list(tmp_path.iterdir()) == []


def test_an_answer_that_leads_elsewhere_is_followed(tmp_path: Path, server: Server) -> None:
    server.location = "http://127.0.0.1:9/elsewhere"
    with pytest.raises(DataSetError, match="Connection refused"):
        fetch(server.url, tmp_path / "file.zip")


def test_https_never_leads_to_http() -> None:
    handler, request = download._StayEncrypted(), urllib.request.Request("https://example.org/a.zip")
    answer: tuple[Any, ...] = (io.BytesIO(), 302, "Found", Message())
    with pytest.raises(DataSetError, match=r"leads to http://example\.org/b\.zip, which is not https"):
        handler.redirect_request(request, *answer, "http://example.org/b.zip")
    followed = handler.redirect_request(request, *answer, "https://example.org/b.zip")
    assert followed is not None
    assert followed.full_url == "https://example.org/b.zip"


def test_two_processes_do_not_write_the_same_file(server: Server, tmp_path: Path) -> None:
    with (tmp_path / "file.zip.partial").open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(FileError, match="another process"):
            fetch(server.url, tmp_path / "file.zip")


def test_a_folder_that_cannot_be_made_is_one_line(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FileError, match=r"cannot write .*TACIT_CACHE"):
        fetch(server.url, tmp_path / "file" / "file.zip")


# The commands


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders with nothing in them: for data, which is returned, and for downloads."""
    monkeypatch.setenv("TACIT_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def small_archive(rows: str = "1\t1\t5\t1\n1\t2\t4\t1\n2\t1\t4\t1\n") -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("ml-100k/u.data", rows)
    return content.getvalue()


@pytest.fixture
def small(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """A small ml-100k, offered by the server."""
    server.content = small_archive()
    archive = Archive(server.url, len(server.content), sha256(server.content))
    monkeypatch.setitem(DATA_SETS, "ml-100k", replace(DATA_SETS["ml-100k"], archive=archive, counts=Counts(3, 2, 2)))
    return server


def test_get_says_what_it_fetches_and_then_has_it(run: Callable[..., Any], small: Server, places: Path) -> None:
    done = run("data", "get", "ml-100k")
    assert done.status == 0
    assert f"from {small.url} to {places.parent / 'cache' / 'data' / 'ml-100k.zip'}" in done.err
    assert "licence: research only, no redistribution" in done.err
    assert "Harper and J. A. Konstan" in done.err
    assert "\r" not in done.err
    assert "3 ratings, 2 users x 2 items, density 75 %" in done.out
    again = run("data", "get", "ml-100k", "--json")
    assert "is here already" in again.err
    assert again.json["ratings"] == 3
    assert again.json["histogram"][4] == {"rating": 5.0, "count": 1}
    assert len(small.asked) == 1


def test_get_fetches_the_parts_that_are_missing(
    run: Callable[..., Any], server: Server, places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for part in (1, 2):
            archive.writestr(f"jester-data-{part}.csv", ",".join(["1", "2.5", *["99"] * 11]) + "\n")
    server.content = content.getvalue()
    for part in (1, 2):
        name = f"jester-1-part-{part}"
        monkeypatch.setitem(DATA_SETS, name, replace(DATA_SETS[name], archive=Archive(server.url)))
    monkeypatch.setitem(DATA_SETS, "jester-1", replace(DATA_SETS["jester-1"], counts=Counts(3, 3)))
    (places / "jester-1-part-3.csv").write_text("user,item,rating\n48484,1,3\n", encoding="utf-8")
    done = run("data", "get", "jester-1", "--json")
    assert (done.status, done.json["ratings"], len(server.asked)) == (0, 3, 2)
    assert [Path(path).name for path in done.json["where"]] == [
        "jester-1-part-1.zip",
        "jester-1-part-2.zip",
        "jester-1-part-3.csv",
    ]


def test_get_checks_the_counts(run: Callable[..., Any], small: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DATA_SETS, "ml-100k", replace(DATA_SETS["ml-100k"], counts=Counts(100_000)))
    monkeypatch.setenv("TACIT_CACHE", "cache")
    monkeypatch.delenv("TACIT_DATA", raising=False)
    done = run("data", "get", "ml-100k")
    assert done.status == 2
    assert "tacit: ml-100k has 3 ratings here and 100,000 at its publisher" in done.err
    assert small.asked == [None]


def test_what_cannot_be_fetched_is_one_line(
    run: Callable[..., Any], small: Server, places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def said(name: str) -> str:
        done = run("data", "get", name)
        assert (done.status, done.out) == (2, "")
        return str(done.err.splitlines()[-1])

    assert "offers no https address" in said("libimseti")
    assert "is not published" in said("libimseti-top2000")
    assert "there is no data set 'ml-2k'" in said("ml-2k")
    small.status = 404
    assert "answers 404" in said("ml-100k")
    monkeypatch.setitem(
        DATA_SETS, "ml-100k", replace(DATA_SETS["ml-100k"], archive=Archive("http://127.0.0.1:9/ml-100k.zip"))
    )
    assert "cannot reach http://127.0.0.1:9/ml-100k.zip: Connection refused" in said("ml-100k")
    assert list(places.iterdir()) == []


COMMAND = """
import resource, signal, sys
from dataclasses import replace
from tacit.cli import main
from tacit.evaluation.catalogue import DATA_SETS, Archive, Counts
url, limit = sys.argv.pop(1), int(sys.argv.pop(1))
if limit:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
DATA_SETS["ml-100k"] = replace(DATA_SETS["ml-100k"], archive=Archive(url), counts=Counts())
main()
"""


def test_a_full_disk_is_one_line_and_what_came_is_kept(server: Server, places: Path) -> None:
    server.content = small_archive("1\t1\t5\t1\n") + bytes(100_000)
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, server.url, "40000", "data", "get", "ml-100k"],
        capture_output=True,
        text=True,
        check=False,
    )
    partial = places.parent / "cache" / "data" / "ml-100k.zip.partial"
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        f"tacit: cannot write {partial}: File too large; free space or choose another place with TACIT_CACHE"
    )
    assert partial.stat().st_size == 40_000


def test_progress_is_shown_on_a_terminal(server: Server, places: Path) -> None:
    server.content = small_archive("".join(f"{user}\t1\t5\t1\n" for user in range(100_000)))
    leader, follower = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, server.url, "0", "data", "get", "ml-100k"],
        stdout=subprocess.PIPE,
        stderr=follower,
        check=False,
    )
    os.close(follower)
    shown = os.read(leader, 1 << 16).decode()
    os.close(leader)
    assert done.returncode == 0
    assert " MB of 1.2 MB, " in shown
    assert "left" in shown
    assert places.exists()


def test_list_names_all_and_says_where(run: Callable[..., Any], places: Path) -> None:
    (places / "ml-1m.csv").write_text("user,item,rating\n1,1,5\n", encoding="utf-8")
    done = run("data", "list")
    assert done.status == 0
    for name in DATA_SETS:
        assert f"\n{name} " in done.out
    assert f"ml-1m: {places / 'ml-1m.csv'}" in done.out
    document = run("data", "list", "--json").json["data_sets"]
    assert [entry["name"] for entry in document] == list(DATA_SETS)
    assert [entry["name"] for entry in document if entry["present"]] == ["ml-1m", "libimseti-world", "world"]
    assert [entry["name"] for entry in document if entry["synthetic"]] == ["libimseti-world", "world"]


def test_show_says_that_a_world_is_synthetic(run: Callable[..., Any], places: Path) -> None:
    done = run("data", "show", "world")
    assert "synthetic: nobody gave these ratings" in done.out
    document = run("data", "get", "world", "--json").json
    assert (document["synthetic"], document["ratings"], document["where"]) == (True, 100_000, [])
    assert list(places.iterdir()) == []


def test_show_draws_a_fine_scale_in_few_bars(run: Callable[..., Any], places: Path) -> None:
    (places / "jester-2.csv").write_text("user,item,rating\n1,1,-10\n1,2,3.14\n1,3,10\n1,4,3.3\n", encoding="utf-8")
    done = run("data", "show", "jester-2")
    assert done.status == 0
    assert "2.5 to 3.5  ########################################  50.0 %" in done.out
    assert done.out.count(" %\n") == 17 + 1


def test_show_of_what_is_not_here_names_the_places_and_the_remedy(run: Callable[..., Any], places: Path) -> None:
    done = run("data", "show", "ml-20m")
    assert (done.status, done.out) == (2, "")
    assert done.err.count("\n") == 1
    for part in (str(places), str(places.parent / "cache" / "data"), "tacit data get ml-20m"):
        assert part in done.err


def test_show_gives_the_figures_of_real_data(
    run: Callable[..., Any], data_file: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TACIT_DATA", str(data_file("ml-100k.parquet").parent.resolve()))
    done = run("data", "show", "ml-100k")
    assert "100,000 ratings, 943 users x 1,682 items, density 6.3 %" in done.out
    assert "4  ########################################  34.2 %" in done.out


@pytest.mark.parametrize("command", ["list", "get", "show"])
def test_every_command_has_help_with_an_example(run: Callable[..., Any], command: str) -> None:
    done = run("data", command, "--help")
    assert done.status == 0
    assert "Example:" in done.out


def test_a_damaged_download_is_one_line(run: Callable[..., Any], places: Path) -> None:
    (places / "ml-100k.zip").write_bytes(b"\x1b[31mno archive")
    done = run("data", "show", "ml-100k")
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert "is damaged: File is not a zip file; remove it and fetch it again" in done.err
