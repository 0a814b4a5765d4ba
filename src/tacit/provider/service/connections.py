"""Connections: what nobody may do to one before a request is complete, nor after, by not taking the answer."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    import asyncio

LARGEST_HEAD = 2**16
SECONDS_FOR_A_REQUEST = 30.0
"""From its first byte, or from when it may be sent, to the end of its head; the guard times the body."""
SECONDS_BETWEEN_LOOKS = 5.0
SECONDS_WITHOUT_PROGRESS = 30.0
SECONDS_FOR_AN_ANSWER = 600.0

# The system asks for more to send when it has sent all but this. Left to itself it keeps some megabytes, and somebody
# who reads steadily but slowly would look like somebody who does not read.
_UNSENT_IN_THE_SYSTEM = 2**17
_AT_ONCE = struct.pack("ii", 1, 0)


class BoundedProtocol(HttpToolsProtocol):
    """Ends a connection whose request has an endless head or does not come, or whose answer is not taken.

    The parser keeps whatever headers it is sent, and uvicorn waits for the rest of a head, and for somebody to read an
    answer, for as long as it takes. So here one of two clocks always runs: a deadline while a head is expected, and
    from there on a look every few seconds, until the answer is complete and gone.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - as uvicorn passes them
        """Begin before the first request."""
        super().__init__(*args, **kwargs)
        self._head: int | None = 0
        self._deadline: asyncio.TimerHandle | None = None
        self._next_look: asyncio.TimerHandle | None = None
        self._unsent, self._shrank, self._filled = 0, 0.0, 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Wait for a request, but not forever."""
        super().connection_made(transport)
        self._set(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_IN_THE_SYSTEM)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._stop_expecting()
        if self._next_look is not None:
            self._next_look.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, unless the head that is still not complete is too long."""
        before = self._head
        super().data_received(data)
        if before is not None and self._head is not None:
            self._head = before + len(data)
            if self._head > LARGEST_HEAD:
                self.send_400_response(f"The head of a request is at most {LARGEST_HEAD} bytes.")

    def on_message_begin(self) -> None:
        """Begin to read a head."""
        super().on_message_begin()
        self._head = 0
        self._expect()

    def on_headers_complete(self) -> None:
        """Stop counting, as the guard counts what the body has, and see to it that the answer is taken."""
        self._head = None
        self._stop_expecting()
        self._measure()
        self._look_later()
        super().on_headers_complete()

    def _expect(self) -> None:
        self._stop_expecting()
        self._deadline = self.loop.call_later(SECONDS_FOR_A_REQUEST, self._end)

    def _stop_expecting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _end(self) -> None:
        """Take no more; an answer that is still being read may be read to its end."""
        self._deadline = None
        self.transport.close()
        self._measure()
        self._look_later()

    def _look_later(self) -> None:
        if self._next_look is None:
            self._next_look = self.loop.call_later(SECONDS_BETWEEN_LOOKS, self._look)

    def _look(self) -> None:
        """Cut off who does not read; once all is read, wait for the next request, should uvicorn have ceased to."""
        self._next_look = None
        self._measure()
        now = self.loop.time()
        if now - self._shrank >= SECONDS_WITHOUT_PROGRESS or now - self._filled >= SECONDS_FOR_AN_ANSWER:
            self._cut_off()
        elif self._unsent or self._is_answering():
            self._look_later()
        elif self._deadline is None:
            self._expect()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete  # type: ignore[redundant-expr] # at first

    def _measure(self) -> None:
        """Note how much is to be sent, when that last became less, and since when it is not nothing."""
        unsent, now = self.transport.get_write_buffer_size(), self.loop.time()
        if unsent == 0:
            self._filled = now
        if unsent == 0 or unsent < self._unsent:
            self._shrank = now
        self._unsent = unsent

    def _cut_off(self) -> None:
        """Throw away what was not read, also what the system still holds of it."""
        self._set(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        self.transport.abort()

    def _set(self, level: int, option: int, value: int | bytes) -> None:
        with suppress(OSError):  # the other side is gone already
            self.transport.get_extra_info("socket").setsockopt(level, option, value)
