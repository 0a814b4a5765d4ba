"""What a connection may hold and for how long: a real server, and clients that read slowly, or not, or say nothing."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
import uvicorn

from tacit.provider.service import connections
from tacit.provider.service.connections import BoundedProtocol
from tacit.provider.service.server import config_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.types import Receive, Scope, Send

PATIENCE = 20.0
LARGE = 24 * 2**20  # more than the system keeps of it on both sides
ASK = b"GET /%s HTTP/1.1\r\nHost: x\r\n%s\r\n"


@dataclass
class Answers:
    """An application with three answers; it says which requests it heard of."""

    heard: list[str] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return
        path = scope["path"]
        self.heard.append(path)
        if path == "/read":
            while (await receive()).get("more_body"):
                pass
        content = bytes(LARGE) if path == "/large" else path.encode()
        headers = [(b"content-length", b"%d" % len(content))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})


@dataclass(frozen=True)
class Server:
    """A server in this process, and what can be seen of it from inside."""

    port: int
    running: uvicorn.Server
    app: Answers

    @contextmanager
    def connected(self) -> Iterator[socket.socket]:
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as connection:
            yield connection

    def open(self) -> list[BoundedProtocol]:
        return [one for one in self.running.server_state.connections.copy() if isinstance(one, BoundedProtocol)]

    def unsent(self) -> int:
        return sum(one.transport.get_write_buffer_size() for one in self.open())


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """The real configuration, with everything that takes time taking less."""
    for name, seconds in {
        "SECONDS_FOR_A_REQUEST": 1.5,
        "SECONDS_BETWEEN_LOOKS": 0.1,
        "SECONDS_WITHOUT_PROGRESS": 0.8,
    }.items():
        monkeypatch.setattr(connections, name, seconds)
    config = config_of(app := Answers())
    config.lifespan, config.timeout_keep_alive = "off", 1
    running = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
        thread.start()
        assert until(lambda: running.started)
        yield Server(listening.getsockname()[1], running, app)
        running.should_exit = True
        thread.join(PATIENCE)
        assert not thread.is_alive()


def until(reached: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    end = time.monotonic() + seconds
    while not reached():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def ask(path: str, *headers: str) -> bytes:
    return ASK % (path.encode(), b"".join(f"{header}\r\n".encode() for header in headers))


def read(connection: socket.socket, most: int, block: int = 2**18, pause: float = 0.0) -> int:
    """Read until so much has come, or the end; return how much it was."""
    count = 0
    while count < most and (got := connection.recv(min(block, most - count))):
        count += len(got)
        time.sleep(pause)
    return count


def read_large(connection: socket.socket, block: int = 2**18, pause: float = 0.0) -> bool:
    """Read a large answer; tell whether all of it came."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += connection.recv(1)
    return read(connection, LARGE, block, pause) == LARGE


@pytest.mark.parametrize("header", ["Connection: keep-alive", "Connection: close"])
def test_who_does_not_read_is_cut_off_and_nothing_is_kept(server: Server, header: str) -> None:
    with server.connected() as connection:
        connection.sendall(ask("large", header))
        assert until(lambda: server.unsent() > 2**20)
        began = time.monotonic()
        assert until(lambda: not server.open())
        assert 0.5 < time.monotonic() - began < 5
        with pytest.raises(ConnectionResetError):  # nobody takes the part for the whole
            read(connection, LARGE)


def test_who_stops_reading_in_the_middle_is_cut_off(server: Server) -> None:
    with server.connected() as connection:
        connection.sendall(ask("large"))
        assert read(connection, LARGE // 4, pause=0.02) == LARGE // 4
        assert server.unsent()
        assert until(lambda: not server.open(), 5)


def test_what_is_little_for_flow_control_is_not_kept_either(server: Server) -> None:
    with server.connected() as connection:
        assert until(lambda: len(server.open()) == 1)
        server.open()[0].transport.set_write_buffer_limits(2 * LARGE)
        connection.sendall(ask("large"))
        assert until(lambda: server.unsent() > 0)
        assert until(lambda: not server.open(), 5)


def test_asking_for_more_does_not_put_it_off(server: Server) -> None:
    with server.connected() as connection:
        connection.sendall(ask("large"))
        assert until(lambda: server.unsent() > 0)
        began = time.monotonic()
        with suppress(ConnectionError):
            while time.monotonic() - began < PATIENCE:
                connection.sendall(ask("large"))
                time.sleep(0.2)
        assert time.monotonic() - began < 5
        assert not server.open()


@pytest.mark.parametrize("header", ["Connection: keep-alive", "Connection: close"])
def test_who_reads_slowly_but_steadily_gets_everything(server: Server, header: str) -> None:
    """For longer than any of the times but the whole answer's, the one that uvicorn keeps a connection for included."""
    with server.connected() as connection:
        connection.sendall(ask("large", header))
        began = time.monotonic()
        assert read_large(connection, pause=0.03)
        assert time.monotonic() - began > 2.5


def test_who_reads_slowly_without_end_is_cut_off(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SECONDS_FOR_AN_ANSWER", 1.0)
    with server.connected() as connection:
        connection.sendall(ask("large"))
        with pytest.raises(ConnectionResetError):
            read(connection, LARGE, pause=0.05)


def test_the_time_for_an_answer_is_each_answers_own(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SECONDS_FOR_AN_ANSWER", 1.5)
    with server.connected() as connection:
        for _ in range(4):
            connection.sendall(ask("large"))
            assert read_large(connection, block=2**20, pause=0.03)


def test_a_connection_that_idles_is_closed_in_good_order(server: Server) -> None:
    with server.connected() as connection:
        connection.sendall(ask("short"))
        assert b"/short" in connection.recv(2**12)
        began = time.monotonic()
        assert connection.recv(1) == b""
        assert 0.5 < time.monotonic() - began < 1.4  # by uvicorn, before the deadline for a request


@pytest.mark.parametrize(
    "part", [pytest.param(b"\r\n", id="an empty line"), pytest.param(b"GET / HT", id="half a head")]
)
def test_what_makes_uvicorn_stop_counting_does_not_keep_a_connection(server: Server, part: bytes) -> None:
    with server.connected() as connection:
        connection.sendall(ask("short"))
        assert b"/short" in connection.recv(2**12)
        connection.sendall(part)
        assert connection.recv(1) == b""


def test_neither_does_a_body_that_nobody_reads(server: Server) -> None:
    with server.connected() as connection:
        connection.sendall(b"POST /short HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
        assert b"/short" in connection.recv(2**12)
        began = time.monotonic()
        with suppress(ConnectionError):
            while time.monotonic() - began < PATIENCE:
                connection.sendall(b" ")
                time.sleep(0.1)
        assert time.monotonic() - began < 5


def test_a_body_may_take_longer_than_a_head(server: Server) -> None:
    with server.connected() as connection:
        connection.sendall(b"POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n")
        for _ in range(20):
            connection.sendall(b" ")
            time.sleep(0.1)
        assert connection.recv(2**12).endswith(b"/read")


def test_requests_that_are_sent_together_are_answered_in_order(server: Server) -> None:
    paths = [f"{number:02}" for number in range(50)] + ["large", "short"]
    with server.connected() as connection:
        connection.sendall(b"".join(map(ask, paths[:-1])) + ask(paths[-1], "Connection: close"))
        content = b""
        while got := connection.recv(2**18):
            content += got
            time.sleep(0.01)
    assert server.app.heard == [f"/{path}" for path in paths]
    answers = [answer.partition(b"\r\n\r\n")[2] for answer in content.split(b"HTTP/1.1 200 OK\r\n")[1:]]
    assert answers == [bytes(LARGE) if path == "large" else f"/{path}".encode() for path in paths]


def test_a_connection_that_is_busy_has_one_look_to_come(server: Server) -> None:
    """However many requests it makes: nothing piles up."""
    with server.connected() as connection:
        for _ in range(300):
            connection.sendall(ask("short"))
            assert b"/short" in connection.recv(2**12)
        (protocol,) = server.open()
        assert (protocol._next_look is None) != (protocol._deadline is None)
