"""The device's way over the network: one provider, answers that are limited in size and time, no redirects.

The provider may be hostile. An answer that drips, never ends, grows without limit or leads elsewhere is cut off.
"""

from __future__ import annotations

import http.client
import io
import secrets
import ssl
import time
import zlib
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from tacit.device.address import Address
from tacit.device.exchange import Answer
from tacit.errors import DeviceError, ProviderError
from tacit.files import reason_of

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping
    from pathlib import Path

    from _typeshed import WriteableBuffer

    from tacit.device.exchange import Request

MOST_ATTEMPTS = 4
MOST_SECONDS = 600
LONGEST_WAIT = 30
"""Seconds between two attempts; a provider that asks for more is asked again another time."""

_FIRST_WAIT = 0.25
_COME_AGAIN = {429, 502, 503, 504}
_BLOCK = 2**16
_GZIP = 31


class Transport:
    """Connections to one provider, kept open between requests.

    Each token has one of its own, and so has whatever is asked without: over a shared one the provider would know
    that it is the same device that asks.
    """

    def __init__(self, base_url: str, *, seconds: float, authority: str | Path | None, plain_http: bool) -> None:
        """Check the address; nothing is sent yet.

        Args:
            base_url: Where the provider is.
            seconds: The time an answer may take, from the question to its last byte.
            authority: A file of certificates to trust instead of the system's.
            plain_http: Whether to speak without encryption to somebody who is not this machine.
        """
        self._address = Address.parse(base_url, plain_http=plain_http)
        if not 0 < seconds <= MOST_SECONDS:
            raise DeviceError(f"{seconds} seconds for an answer are not above 0 and up to {MOST_SECONDS}; give such")
        self._seconds = seconds
        self._trusted = _trusted(authority) if self._address.encrypted else None
        self._connections: dict[str | None, http.client.HTTPConnection] = {}

    def close(self) -> None:
        """Hang up; the next request connects again."""
        for token in list(self._connections):
            self._hang_up(token)

    @property
    def base_url(self) -> str:
        """Where the provider is, always spelled the same."""
        return self._address.base_url

    def ask(self, request: Request) -> Answer:
        """Send a request, and again while the provider cannot be reached or is busy."""
        attempt = 0
        while True:
            attempt += 1
            try:
                answer = self._ask_once(request)
            except _NotReachedError as error:
                if attempt == MOST_ATTEMPTS:
                    msg = f"cannot reach {self.base_url}: {error}; check the connection, or try again later"
                    raise ProviderError(msg, code="unreachable") from error
                wait: float | None = _backoff(attempt)
            else:
                wait = _wait_before_next(answer, attempt)
            if wait is None:
                return answer
            time.sleep(wait)

    def _ask_once(self, request: Request) -> Answer:
        try:
            return self._exchange(request)
        except ssl.SSLCertVerificationError as error:
            self._hang_up(request.token)
            msg = f"{self.base_url} cannot be trusted: {error.verify_message}; check the address and its certificate"
            raise ProviderError(msg, code="unreachable") from error
        except TimeoutError as error:
            self._hang_up(request.token)
            msg = f"{self.base_url} took longer than {self._seconds:g} seconds; try again later"
            raise ProviderError(msg, code="too-slow") from error
        except (OSError, http.client.IncompleteRead) as error:
            self._hang_up(request.token)
            raise _NotReachedError(
                reason_of(error) if isinstance(error, OSError) else "its answer broke off"
            ) from error
        except (http.client.HTTPException, ValueError) as error:
            self._hang_up(request.token)
            msg = f"{self.base_url} does not answer in usable HTTP ({type(error).__name__}); check the address"
            raise ProviderError(msg) from error
        except BaseException:
            self._hang_up(request.token)  # what is left of this answer must not be taken for the next
            raise

    def _exchange(self, request: Request) -> Answer:
        connection = self._connected(request.token)
        target = f"{self._address.prefix}{request.path}" + (f"?{urlencode(request.query)}" if request.query else "")
        connection.request(request.method, target, body=request.body, headers=_headers(request))
        with connection.getresponse() as response:
            found = {name.lower(): value for name, value in response.getheaders()}
            content = _limited(response, request.most, self.base_url)
        return Answer(response.status, found, _unpacked(content, found, request.most, self.base_url))

    def _connected(self, token: str | None) -> http.client.HTTPConnection:
        connection = self._connections.get(token)
        if connection is None:
            connection = self._connections[token] = self._new_connection()
        if connection.sock is not None:
            connection.sock.settimeout(self._seconds)
        return connection

    def _new_connection(self) -> http.client.HTTPConnection:
        host, port, trusted = self._address.host, self._address.port, self._trusted
        if trusted is None:
            made = http.client.HTTPConnection(host, port, timeout=self._seconds)
        else:
            made = http.client.HTTPSConnection(host, port, timeout=self._seconds, context=trusted)
        made.response_class = _TimedResponse
        return made

    def _hang_up(self, token: str | None) -> None:
        """Close one connection only: that both end together would also tell that they are one device's."""
        if token in self._connections:
            self._connections.pop(token).close()


class _NotReachedError(Exception):
    """The connection failed; another attempt may do better."""


class _TimedResponse(http.client.HTTPResponse):
    """An answer that must be complete within the socket's timeout, however often a byte of it arrives."""

    def __init__(self, sock: socket.socket, *parts: Any, **named: Any) -> None:  # noqa: ANN401 - passed on
        super().__init__(sock, *parts, **named)
        raw = self.fp.detach()
        self.fp = io.BufferedReader(_UntilReader(raw, sock))


class _UntilReader(io.RawIOBase):
    """A socket's bytes until its timeout, which starts now and which no byte puts off."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket) -> None:
        self._raw, self._sock = raw, sock
        self._end = time.monotonic() + (sock.gettimeout() or 0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int | None:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._sock.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _headers(request: Request) -> dict[str, str]:
    signed = {} if request.token is None else {"Authorization": f"Bearer {request.token}"}
    return {"User-Agent": "tacit", "Accept-Encoding": "gzip", **signed, **request.headers}


def _trusted(authority: str | Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=authority)
    except OSError as error:
        msg = f"{authority} has no certificates to trust: {reason_of(error)}; give a file in PEM format"
        raise DeviceError(msg) from error


def _limited(response: http.client.HTTPResponse, most: int, base_url: str) -> bytes:
    if response.length is not None and response.length > most:
        raise _too_large(base_url, most)
    blocks, size = [], 0
    while block := response.read(_BLOCK):
        blocks.append(block)
        size += len(block)
        if size > most:
            raise _too_large(base_url, most)
    if response.length:
        raise _NotReachedError(f"its answer broke off after {size} bytes")
    return b"".join(blocks)


def _unpacked(content: bytes, headers: Mapping[str, str], most: int, base_url: str) -> bytes:
    """Undo the compression of an answer; a small one must not fill all memory."""
    coding = headers.get("content-encoding", "identity").lower()
    if coding == "identity" or not content:
        return content
    if coding != "gzip":
        raise ProviderError(f"{base_url} compresses in a way that was not asked for; update tacit")
    unpacker = zlib.decompressobj(_GZIP)
    try:
        unpacked = unpacker.decompress(content, most + 1)
    except zlib.error as error:
        raise ProviderError(f"{base_url} sends a damaged answer; try again") from error
    if len(unpacked) > most:
        raise _too_large(base_url, most)
    if not unpacker.eof or unpacker.unused_data:
        raise ProviderError(f"{base_url} sends a damaged answer; try again")
    return unpacked


def _too_large(base_url: str, most: int) -> ProviderError:
    return ProviderError(f"{base_url} answers with more than the limit of {most} bytes; refused", code="too-large")


def _wait_before_next(answer: Answer, attempt: int) -> float | None:
    """Return the seconds that a busy provider wants to be left alone; None if its answer is final."""
    if answer.status not in _COME_AGAIN or attempt == MOST_ATTEMPTS:
        return None
    wanted = answer.headers.get("retry-after", "")
    if not (wanted.isascii() and wanted.isdigit()):
        return _backoff(attempt)
    return float(wanted) if len(wanted) <= len(str(LONGEST_WAIT)) and int(wanted) <= LONGEST_WAIT else None


def _backoff(attempt: int) -> float:
    """Return a wait that doubles from attempt to attempt, and differs between devices so that they spread out."""
    return _FIRST_WAIT * 2.0**attempt * (0.5 + secrets.randbelow(1000) / 1000)
