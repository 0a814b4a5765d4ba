"""`tacit serve`, `tacit db` and `tacit demo --web`, as a stranger would use them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tacit.evaluation.web_demo import fill, train
from tacit.evaluation.world import WorldShape, make_world
from tacit.privacy.policy import Policy
from tacit.privacy.scale import RatingScale
from tacit.provider.store import ReportStore
from tacit.provider.store.runs import RunStore
from tacit.provider.training import Trainer

if TYPE_CHECKING:
    from collections.abc import Callable

TACIT = Path(sys.executable).with_name("tacit")


class Served:
    """A running `tacit serve`."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        command = [str(TACIT), "serve", "--port", "0", *arguments]
        environment = {**os.environ, "TACIT_ADMIN_TOKEN": "an-admin-token-for-tests"}
        self.process = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
        self.said: list[str] = []
        self.address = ""
        while not self.address and (line := self.process.stderr.readline()):  # type: ignore[union-attr] # it was piped
            self.said.append(line.strip())
            self.address = line.split()[2] if "listening on" in line else ""
        self._listener = threading.Thread(target=self._rest)
        self._listener.start()

    def _rest(self) -> None:
        with self.process.stderr as lines:  # type: ignore[union-attr] # it was piped
            self.said += [line.strip() for line in lines]

    def get(self, path: str) -> bytes:
        with urllib.request.urlopen(f"{self.address}{path}", timeout=20) as answer:  # noqa: S310 - our own server
            return bytes(answer.read())

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        status = self.process.wait(30)
        self._listener.join()
        return status


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_starts_with_one_command_and_ends_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "films.csv").write_text("item,title\n1,Rain\n7,Storm\n")
    served = Served(tmp_path, "--items", "films.csv")
    assert served.address, served.said
    assert any("adopted bounded-laplace on 1:5:1" in line for line in served.said)
    assert not any("an-admin-token" in line for line in served.said)
    assert json.loads(served.get("/health/ready")) == {"status": "ok"}
    assert json.loads(served.get("/v1/items"))["total"] == 2
    policy = Policy.from_json(served.get("/v1/policy"))
    assert served.end(number) == 0
    assert (tmp_path / "tacit.db").exists()

    again = Served(tmp_path)  # everything is still there
    assert Policy.from_json(again.get("/v1/policy")) == policy
    assert json.loads(again.get("/v1/items"))["total"] == 2
    assert again.end(number) == 0


def test_a_new_policy_takes_over_and_the_old_one_stays_known(tmp_path: Path) -> None:
    other = Policy.make("randomized-response", RatingScale.parse("1:5:1"), "2")
    other.save(tmp_path / "policy.json")
    first = Served(tmp_path)
    old = Policy.from_json(first.get("/v1/policy"))
    first.end(signal.SIGTERM)
    second = Served(tmp_path, "--policy", "policy.json")
    assert Policy.from_json(second.get("/v1/policy")) == other
    assert Policy.from_json(second.get(f"/v1/policies/{old.id}")) == old
    second.end(signal.SIGTERM)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--db", "nonsense"], "no address of a database"),
        (["--db", "sqlite:///nowhere/x.db"], "no folder"),
        (["--policy", "absent.json"], "cannot read absent.json"),
        (["--items", "absent.csv"], "absent.csv"),
        (["--items", "wrong.csv"], "title"),
        (["--items", "twice.csv"], "listed twice"),
        (["--items", "long.csv"], "row 2"),
        (["--admin-token-file", "empty"], "admin token of 0 characters"),
        (["--retrain-every", "soon"], "soon"),
        (["--admin-token-file", "short"], "admin token of 5 characters"),
        (["--host", "no.such.host.invalid"], "cannot listen"),
        (["--port", "70000"], "70000"),
        (["--models", "films"], "films"),
    ],
)
def test_wrong_input_is_one_line_and_status_2(
    run: Callable[..., Any], tmp_path: Path, arguments: list[str], said: str
) -> None:
    (tmp_path / "wrong.csv").write_text("item,name\n1,Rain\n")
    (tmp_path / "twice.csv").write_text("item,title\n1,Rain\n1,Storm\n")
    (tmp_path / "long.csv").write_text(f"item,title\n1,Rain\n2,{'x' * 501}\n")
    (tmp_path / "short").write_text("short\n")
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "films").write_text("a file, no folder")
    port = [] if "--port" in arguments else ["--port", "0"]
    done = run("serve", *arguments, *port)
    assert done.status == 2
    assert said in done.err
    assert done.err.strip().splitlines()[-1].startswith("tacit: ")
    assert "Traceback" not in done.err


def test_a_port_that_is_taken_is_said(run: Callable[..., Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run("serve", "--port", str(taken.getsockname()[1]))
    assert done.status == 2
    assert "choose another --host or --port" in done.err


def test_a_start_that_fails_changes_nothing(tmp_path: Path) -> None:
    Policy.make("randomized-response", RatingScale.parse("1:5:1"), "2").save(tmp_path / "policy.json")
    first = Served(tmp_path)
    policy = first.get("/v1/policy")
    for token, said in (("an-admin-token-for-tests", "another service trains in"), ("short", "admin token of 5")):
        done = subprocess.run(
            [str(TACIT), "serve", "--port", "0", "--policy", "policy.json"],
            cwd=tmp_path,
            env={**os.environ, "TACIT_ADMIN_TOKEN": token},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 2
        assert said in done.stderr
    store = ReportStore.open(f"sqlite:///{tmp_path / 'tacit.db'}")
    assert [one.to_json() for one in store.policies().values()] == [policy]
    store.close()
    assert first.end(signal.SIGTERM) == 0


def test_db_check_and_upgrade(run: Callable[..., Any]) -> None:
    assert "schema none -> 0001" in run("db", "upgrade").out
    assert "schema 0001 -> 0001" in run("db", "upgrade").out
    found = run("db", "check", "--json").json
    assert found["schema"] == "0001"
    assert found["reports"] == 0
    assert "reports 0" in run("db", "check").out
    assert run("db", "check", "--db", "sqlite:///absent/x.db").status == 2


def test_a_demonstration_on_a_port_that_is_taken_does_nothing(run: Callable[..., Any], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run("demo", "--web", "--no-browser", "--port", str(taken.getsockname()[1]))
    assert done.status == 2
    assert "choose another --host or --port" in done.err
    assert not list((tmp_path / "tacit-demo").iterdir())
    assert run("demo", "--web", "--json").status == 2


def test_the_demonstrations_world_is_filled_and_trained(tmp_path: Path, policy: Policy) -> None:
    store = ReportStore.open(f"sqlite:///{tmp_path / 'demo.db'}")
    world = make_world(policy.scale, shape=WorldShape(60, 60, 1200))
    for _ in range(2):  # to fill it again changes nothing
        fill(store, world, policy)
    assert (store.count("devices"), store.count("items"), store.count("reports")) == (60, 60, 1200)
    said: list[str] = []
    for _ in range(2):  # the second time there is nothing left to do
        train(store, tmp_path / "models", said.append)
    assert said == ["training on their reports"]
    trainer = Trainer(store, RunStore(store.database), tmp_path / "models")
    trainer.start()
    assert trainer.published is not None
    trainer.stop()
    store.close()
