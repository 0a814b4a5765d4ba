"""Running the service: everything is opened and checked before anything is changed or answered."""

from __future__ import annotations

import gc
import logging
import secrets
import signal
import socket
import sys
from contextlib import closing
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import uvicorn

from tacit.errors import FileError
from tacit.files import reason_of
from tacit.privacy.policy import Policy
from tacit.privacy.scale import RatingScale
from tacit.provider.service.app import create_app
from tacit.provider.service.connections import BoundedProtocol
from tacit.provider.service.state import Settings
from tacit.provider.service.tokens import AdminToken
from tacit.provider.store import Item, ReportStore
from tacit.provider.store.runs import RunStore
from tacit.provider.training import Trainer, TrainingSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.types import ASGIApp

_SECONDS_TO_END = 20
_MOST_CONNECTIONS = 2000

# Where nothing else was asked for: the paper's mechanism, one to five stars.
_DEFAULT_POLICY = ("bounded-laplace", "1:5:1", "1")


@dataclass(frozen=True)
class ServeOptions:
    """What the operator chose."""

    address: str
    host: str = "127.0.0.1"
    port: int = 8000
    policy: Policy | None = None
    items: Sequence[Item] = ()
    models: Path | None = None
    admin_token: str | None = field(default=None, repr=False)
    settings: Settings = field(default_factory=Settings)
    training: TrainingSettings = field(default_factory=TrainingSettings)


def serve(
    options: ServeOptions,
    announce: Callable[[str], None],
    opened: Callable[[str], None] | None = None,
    listening: socket.socket | None = None,
) -> None:
    """Serve until interrupted.

    Args:
        options: What the operator chose.
        announce: Called with what the operator should know, a line at a time.
        opened: Called with the address once somebody may connect.
        listening: A socket that listens already; by default one is opened.
    """
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    token = secrets.token_urlsafe(24) if options.admin_token is None else options.admin_token
    admin = AdminToken.of(token)
    own = listening or listen(options.host, options.port)
    with own, closing(ReportStore.open(options.address)) as store:
        trainer = Trainer(store, RunStore(store.database), _folder(store, options.models), options.training)
        trainer.start()  # before anything changes: it refuses a folder that another service trains in
        try:
            _prepare(store, options, announce)
            if options.admin_token is None:
                announce(f"admin token, drawn for this start: {token} (set TACIT_ADMIN_TOKEN to choose it)")
            url = _url(own, options.host)
            announce(f"listening on {url}{'' if _is_loopback(options.host) else '; put TLS in front of it'}")
            (opened or (lambda _: None))(url)
            _run(create_app(store, trainer, admin, options.settings), own)
        finally:
            trainer.stop()


def _prepare(store: ReportStore, options: ServeOptions, announce: Callable[[str], None]) -> None:
    """Adopt the policy and add the items."""
    policy = _adopted(store, options.policy, announce)
    store.put_items(options.items)
    announce(f"policy {policy.id[:12]}: {policy.mechanism} on {policy.scale}, epsilon {policy.epsilon} a rating")
    announce(f"{store.count('items'):,} items, {store.count('reports'):,} reports so far")


def _adopted(store: ReportStore, policy: Policy | None, announce: Callable[[str], None]) -> Policy:
    """Return the current policy, after adopting the one that was given or, in a new store, the default."""
    if policy is not None:
        store.adopt(policy)
        return policy
    known = list(store.policies().values())
    if known:
        return known[-1]
    mechanism, scale, epsilon = _DEFAULT_POLICY
    made = Policy.make(mechanism, RatingScale.parse(scale), epsilon)
    store.adopt(made)
    announce(f"no policy was given: adopted {mechanism} on {scale} with epsilon {epsilon}; --policy chooses another")
    return made


def _folder(store: ReportStore, chosen: Path | None) -> Path:
    file = store.database.file
    if chosen is not None:
        return chosen
    return Path("tacit-models") if file is None else file.with_name(f"{file.name}.models")


def listen(host: str, port: int) -> socket.socket:
    """Open the socket, so that a port that is taken is said before anything else happens."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=1024, reuse_port=False)
    except (OSError, OverflowError, UnicodeError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else str(error)
        raise FileError(f"cannot listen on {host[:80]}:{port}: {reason}; choose another --host or --port") from error


def _url(listening: socket.socket, host: str) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _run(app: ASGIApp, listening: socket.socket) -> None:
    signal.signal(signal.SIGTERM, _end)
    # What is loaded by now stays: searching through it for garbage again and again would hold up requests for 50 ms.
    gc.collect()
    gc.freeze()
    try:
        uvicorn.Server(config_of(app)).run(sockets=[listening])
    except KeyboardInterrupt:
        return


def config_of(app: ASGIApp) -> uvicorn.Config:
    """Say how connections are treated."""
    return uvicorn.Config(
        app,
        http=BoundedProtocol,
        ws="none",
        access_log=False,  # who asked from where is not written down
        log_config=None,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_graceful_shutdown=_SECONDS_TO_END,
        lifespan="on",
    )


def _end(*_: object) -> NoReturn:
    """End as after an interrupt, so that everything is closed."""
    sys.exit(0)
