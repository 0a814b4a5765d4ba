"""What was acknowledged survives whatever befalls the service, its training, its disk, its database and its clock."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import re
import resource
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
import uvicorn
from sqlalchemy import func, select

from tacit.provider.service import Settings
from tacit.provider.service.app import create_app
from tacit.provider.service.tokens import AdminToken
from tacit.provider.store import Batch, Item, ReportStore, schema
from tacit.provider.store.runs import RunStore
from tacit.provider.store.writing import GroupWriter, Said
from tacit.provider.training import Trainer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tacit.privacy.policy import Policy

ADMIN = "the-operator's-token"
ITEMS = [Item(str(number), f"Title {number}") for number in range(60)]
REPORTS_PER_BATCH, BATCHES_PER_DEVICE = 10, 3
SENDERS = 4
PATIENCE = 60.0
SOME_LOAD = 0.7

Answer = tuple[int, dict[str, str], dict[str, Any]]


@dataclass(frozen=True)
class Client:
    """One connection to a service."""

    connection: http.client.HTTPConnection

    @classmethod
    @contextmanager
    def of(cls, port: int) -> Iterator[Client]:
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
            yield cls(connection)

    def ask(self, method: str, path: str, token: str = "", document: object = None) -> Answer:
        body = None if document is None else json.dumps(document)
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        self.connection.request(method, path, body, headers)
        answer = self.connection.getresponse()
        content = answer.read()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, json.loads(content or b"{}")


@dataclass
class Log:
    """Every batch that was sent, by device and number, and whether it was acknowledged."""

    acknowledged: dict[tuple[str, int], bool] = field(default_factory=dict)

    def send(self, client: Client, policy: str, token: str, batch: int) -> Answer:
        """Send a batch and note what is said to it."""
        first = batch * REPORTS_PER_BATCH
        rows = [{"item": str(at), "symbol": at % 5, "revision": 0} for at in range(first, first + REPORTS_PER_BATCH)]
        self.acknowledged[token, batch] = False
        answer = client.ask(
            "POST", "/v1/reports", token, {"format": "tacit-reports/1", "policy": policy, "reports": rows}
        )
        if answer[0] == 200:
            assert answer[2] == {"accepted": REPORTS_PER_BATCH, "duplicates": 0, "rejected": []}
            self.acknowledged[token, batch] = True
        return answer

    def check(self, address: str) -> None:
        """Compare with the database: all of a batch or nothing, and all of what was acknowledged."""
        found = stored(address)
        for (token, batch), acknowledged in self.acknowledged.items():
            first = batch * REPORTS_PER_BATCH
            own = {str(at): at % 5 for at in range(first, first + REPORTS_PER_BATCH)}
            kept = {item: symbol for item, symbol in found.get(hash_of(token), {}).items() if item in own}
            assert kept in ([own] if acknowledged else [own, {}])
        sent = {hash_of(token) for token, _ in self.acknowledged}
        assert set(found) <= sent


def hash_of(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def stored(address: str) -> dict[bytes, dict[str, int]]:
    """Return the symbols in the database by device and item; a report that is there twice fails."""
    store = ReportStore.open(address)
    wanted = select(schema.devices.c.token_hash, schema.items.c.id, schema.reports.c.symbol).select_from(
        schema.reports.join(schema.devices, schema.devices.c.key == schema.reports.c.device).join(
            schema.items, schema.items.c.key == schema.reports.c.item
        )
    )
    found: dict[bytes, dict[str, int]] = {}
    with store.database.reading() as connection:
        for hashed, item, symbol in connection.execute(wanted):
            assert item not in found.setdefault(bytes(hashed), {})
            found[bytes(hashed)][item] = symbol
    store.close()
    return found


@dataclass(frozen=True)
class Served:
    """A real `tacit serve`."""

    process: subprocess.Popen[bytes]
    port: int

    def ask(self, method: str, path: str, token: str = "", document: object = None) -> Answer:
        with Client.of(self.port) as client:
            return client.ask(method, path, token, document)

    def policy(self) -> str:
        return self.ask("GET", "/v1/policy")[1]["etag"].strip('"')

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)

    def training_process(self) -> int | None:
        """Find the process that trains."""
        for listed in Path(f"/proc/{self.process.pid}/task").glob("*/children"):
            for child in listed.read_text().split():
                if b"training.process" in Path(f"/proc/{child}/cmdline").read_bytes():
                    return int(child)
        return None

    def run(self, number: int) -> dict[str, Any]:
        return self.ask("GET", f"/v1/training-runs/{number}", ADMIN)[2]

    def start_run(self, **options: object) -> int:
        status, _, run = self.ask("POST", "/v1/training-runs", ADMIN, {"options": options})
        assert status == 202
        return int(run["id"])


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Starts services on free ports, and leaves none behind."""
    items, started = tmp_path / "items.csv", []
    items.write_text("item,title\n" + "".join(f"{item.id},{item.title}\n" for item in ITEMS))
    command = [str(Path(sys.executable).with_name("tacit")), "serve", "--port", "0", "--rate-limit", "0"]

    def start(address: str) -> Served:
        log = tmp_path / f"log-{len(started)}"
        paths = ["--items", str(items), "--models", str(tmp_path / "models")]
        with log.open("wb") as errors:
            process = subprocess.Popen(
                [*command, "--db", address, *paths], stderr=errors, env=os.environ | {"TACIT_ADMIN_TOKEN": ADMIN}
            )
        served = Served(process, port_of(process, log))
        started.append(served)
        assert until(lambda: served.ask("GET", "/health/ready")[0] == 200)
        return served

    yield start
    for one in started:
        one.kill()


def port_of(process: subprocess.Popen[bytes], log: Path) -> int:
    pattern = re.compile(r"listening on http://127\.0\.0\.1:(\d+)")
    assert until(lambda: pattern.search(log.read_text()) or process.poll() is not None)
    found = pattern.search(log.read_text())
    assert found, log.read_text()
    return int(found[1])


def until(condition: Callable[[], object]) -> bool:
    """Wait until something is so; give up after a long time only."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


@contextmanager
def load(log: Log, port: int, policy: str) -> Iterator[None]:
    """Send batches over several connections until the block ends or the service does."""
    over = threading.Event()

    def work() -> None:
        with suppress(OSError, http.client.HTTPException), Client.of(port) as client:
            while not over.is_set():
                token = secrets.token_hex(16)
                for batch in range(BATCHES_PER_DEVICE):
                    log.send(client, policy, token, batch)

    threads = [threading.Thread(target=work) for _ in range(SENDERS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(PATIENCE)


@pytest.mark.parametrize(("kind", "times"), [("sqlite", 10), ("postgres", 3)])
def test_nothing_acknowledged_is_lost_and_no_batch_is_torn_when_the_service_is_killed(
    kind: str, times: int, serve: Callable[..., Served], request: pytest.FixtureRequest
) -> None:
    address, log = request.getfixturevalue(f"{kind}_address"), Log()
    for _ in range(times):
        served, before = serve(address), sum(log.acknowledged.values())
        with load(log, served.port, served.policy()):
            assert until(lambda before=before: sum(log.acknowledged.values()) > before)
            time.sleep(SOME_LOAD)
            served.kill()
        log.check(address)


@pytest.fixture
def trainable(sqlite_address: str, policy: Policy) -> str:
    """A database with enough to learn from."""
    store = ReportStore.open(sqlite_address)
    key = store.adopt(policy)
    store.put_items(ITEMS)
    symbols = policy.channel.weights.symbols
    said = [Said(item.id, number % symbols, 0) for number, item in enumerate(ITEMS[:20])]
    batches = [Batch(hash_of(str(number)), key, symbols, said[number % 10 :]) for number in range(80)]
    GroupWriter(store.database, 1000).store(batches)
    store.close()
    return sqlite_address


def test_a_model_outlives_the_training_and_a_run_outlives_the_service(
    trainable: str, serve: Callable[..., Served]
) -> None:
    served = serve(trainable)
    first = served.start_run(iterations=2)
    assert until(lambda: served.run(first)["state"] == "succeeded")

    second = served.start_run(iterations=3000, tolerance=0)
    os.kill(stopped_in_the_middle(served, second), signal.SIGKILL)
    assert until(lambda: served.run(second)["state"] == "failed")
    assert "killed" in served.run(second)["error"]
    assert served.ask("GET", "/v1/model")[2]["run"] == first

    third = served.start_run(iterations=3000, tolerance=0)
    training = stopped_in_the_middle(served, third)
    served.kill()
    os.kill(training, signal.SIGCONT)
    again = serve(trainable)
    assert again.ask("GET", "/v1/model")[2]["run"] in (first, third)
    assert until(lambda: again.run(third)["state"] == "succeeded")
    assert again.ask("GET", "/v1/model")[2]["run"] == third
    assert not Path(f"/proc/{training}").exists()


def log_of(served: Served, run: int) -> str:
    headers = {"Authorization": f"Bearer {ADMIN}"}
    with closing(http.client.HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE)) as connection:
        connection.request("GET", f"/v1/training-runs/{run}/log", headers=headers)
        return connection.getresponse().read().decode()


def stopped_in_the_middle(served: Served, run: int) -> int:
    """Hold a training process while it fits, and return its number."""
    assert until(lambda: served.training_process() and "fitting" in log_of(served, run))
    process = served.training_process()
    assert process, "the run ended too soon; let it iterate longer"
    os.kill(process, signal.SIGSTOP)
    return process


@contextmanager
def small_disk(folder: Path, absent: Callable[[str], NoReturn]) -> Iterator[Callable[[int], None]]:
    """Offer a disk of two megabytes, half of them taken; what is offered frees that half."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2M", "tmpfs", str(folder)]
    if os.geteuid() or not shutil.which("mount") or subprocess.run(mount, capture_output=True, check=False).returncode:
        absent("a small disk can only be mounted by root")
    ballast = folder / "ballast"
    ballast.write_bytes(bytes(2**20))
    try:
        yield lambda _: ballast.unlink()
    finally:
        subprocess.run([str(shutil.which("umount")), "--lazy", str(folder)], check=True)


@contextmanager
def small_files(folder: Path, _: Callable[[str], NoReturn]) -> Iterator[Callable[[int], None]]:
    """Offer a folder where no file of the service may be larger than half a megabyte, and how to lift that."""
    folder.mkdir()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**19, before[1]))  # the service will inherit it
    try:
        yield lambda process: resource.prlimit(process, resource.RLIMIT_FSIZE, before) and None
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("shortage", [small_disk, small_files])
def test_a_full_disk_is_said_and_nothing_is_lost(
    shortage: Any, serve: Callable[..., Served], tmp_path: Path, absent: Callable[[str], NoReturn]
) -> None:
    address, log = f"sqlite:///{tmp_path / 'small' / 'tacit.db'}", Log()
    with shortage(tmp_path / "small", absent) as make_room:
        served = serve(address)
        with Client.of(served.port) as client:
            policy, status = served.policy(), 200
            while status == 200:
                token = secrets.token_hex(16)
                status, headers, said = log.send(client, policy, token, 0)
            assert (status, said["code"], said["status"]) == (503, "storage", 503)
            assert int(headers["retry-after"]) > 0
            make_room(served.process.pid)
            assert log.send(client, policy, token, 0)[0] == 200
        assert served.ask("GET", "/health/ready")[0] == 200
        log.check(address)
        served.kill()
        serve(address)
        log.check(address)


@dataclass(frozen=True)
class Cluster:
    """A PostgreSQL server of our own, which can go away and come back."""

    folder: Path
    programs: Path

    @property
    def address(self) -> str:
        return f"postgresql://tacit@/postgres?host={self.folder}"

    def call(self, program: str, *arguments: str) -> None:
        as_owner = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        command = [*as_owner, str(self.programs / program), "-D", str(self.folder / "data"), *arguments]
        subprocess.run(command, check=True, capture_output=True, cwd=self.folder, timeout=120)

    def start(self) -> None:
        options = f"-k {self.folder} -c listen_addresses= -c fsync=off"
        self.call("pg_ctl", "-w", "-o", options, "-l", str(self.folder / "log"), "start")

    def stop(self) -> None:
        self.call("pg_ctl", "-w", "-m", "immediate", "stop")

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Let it neither answer nor go away for a while."""
        first = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        processes = [first, *map(int, Path(f"/proc/{first}/task/{first}/children").read_text().split())]
        for process in processes:
            os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            for process in processes:
                os.kill(process, signal.SIGCONT)


@pytest.fixture
def cluster(absent: Callable[[str], NoReturn]) -> Iterator[Cluster]:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    if not found and on_path is None:
        absent("PostgreSQL's server programs are not installed")
    folder = Path(tempfile.mkdtemp(prefix="tacit-pg-"))
    if os.geteuid() == 0:  # the server refuses to run as root
        shutil.chown(folder, "postgres")
    made = Cluster(folder, found[-1].parent if found else Path(str(on_path)).parent)
    try:
        made.call("initdb", "-A", "trust", "-U", "tacit", "--no-sync", "-E", "UTF8", "--locale=C")
        made.start()
        yield made
    finally:
        with suppress(subprocess.CalledProcessError):
            made.stop()
        shutil.rmtree(folder, ignore_errors=True)


def test_a_database_that_goes_away_is_said_and_taken_up_again(cluster: Cluster, serve: Callable[..., Served]) -> None:
    log, served = Log(), serve(cluster.address)
    policy = served.policy()
    with load(log, served.port, policy):
        assert until(lambda: any(log.acknowledged.values()))
        cluster.stop()
    with Client.of(served.port) as client:
        token = secrets.token_hex(16)
        status, headers, said = log.send(client, policy, token, 0)
        assert (status, said["code"]) == (503, "storage")
        assert int(headers["retry-after"]) > 0
        assert client.ask("GET", "/health/ready")[0] == 503
        assert client.ask("GET", "/health/live")[0] == 200
        cluster.start()
        assert log.send(client, policy, token, 0)[0] == 200
    with load(log, served.port, policy):
        assert until(lambda: served.ask("GET", "/health/ready")[0] == 200)
    log.check(cluster.address)


def test_a_database_that_does_not_answer_holds_up_only_who_needs_it(
    cluster: Cluster, serve: Callable[..., Served], policy: Policy
) -> None:
    log, served, token = Log(), serve(cluster.address), secrets.token_hex(16)
    with Client.of(served.port) as client:
        waiting = threading.Thread(target=log.send, args=(client, policy.id, token, 0))
        with cluster.frozen():
            waiting.start()
            assert until(lambda: (token, 0) in log.acknowledged)
            for _ in range(10):
                assert served.ask("GET", "/health/live")[0] == 200
            assert not log.acknowledged[token, 0]
        waiting.join(PATIENCE)
    assert log.acknowledged[token, 0]
    log.check(cluster.address)


@pytest.fixture
def service_here(sqlite_address: str, policy: Policy, tmp_path: Path) -> Iterator[int]:
    """A service in this process, which can be given little patience and a wrong clock; its port."""
    store = ReportStore.open(sqlite_address)
    store.adopt(policy)
    store.put_items(ITEMS)
    trainer = Trainer(store, RunStore(store.database), tmp_path / "models")
    app = create_app(store, trainer, AdminToken.of(ADMIN), Settings(body_seconds=1.0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="on"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        assert until(lambda: server.started)
        yield listening.getsockname()[1]
        server.should_exit = True
        thread.join(PATIENCE)
    store.close()


def test_a_slow_client_is_cut_off_and_others_are_served(service_here: int, policy: Policy, sqlite_address: str) -> None:
    log, said = Log(), b""
    with Client.of(service_here) as client, socket.create_connection(("127.0.0.1", service_here)) as slow:
        slow.sendall(
            b"POST /v1/reports HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n"
            b"Authorization: Bearer " + secrets.token_hex(16).encode() + b"\r\n\r\n{"
        )
        slow.settimeout(0.1)
        end = time.monotonic() + PATIENCE
        while not said and time.monotonic() < end:
            assert log.send(client, policy.id, secrets.token_hex(16), 0)[0] == 200
            with suppress(TimeoutError, BrokenPipeError):
                slow.sendall(b" ")
                said = slow.recv(4096) or b"closed"
    assert said == b"closed" or said.startswith(b"HTTP/1.1 408 ")
    log.check(sqlite_address)


def test_reports_and_sums_survive_a_clock_that_jumps(
    service_here: int, policy: Policy, sqlite_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, real, token = Log(), time.time, secrets.token_hex(16)
    with Client.of(service_here) as client:
        for batch, hours in enumerate((0, -5, 7)):
            monkeypatch.setattr(time, "time", lambda hours=hours: real() + hours * 3600)
            assert log.send(client, policy.id, token, batch)[0] == 200
            assert client.ask("GET", "/v1/stats", ADMIN)[0] == 200
    monkeypatch.undo()
    log.check(sqlite_address)
    store = ReportStore.open(sqlite_address)
    with store.database.reading() as connection:
        counts = connection.execute(select(func.sum(schema.tallies.c.count), func.count())).one()
    store.close()
    assert counts == (BATCHES_PER_DEVICE * REPORTS_PER_BATCH, 3)
