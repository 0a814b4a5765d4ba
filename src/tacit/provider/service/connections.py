"""Connections: what nobody may do to one before a request is complete, which is when the application hears of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    import asyncio

LARGEST_HEAD = 2**16
SECONDS_FOR_A_REQUEST = 60.0


class BoundedProtocol(HttpToolsProtocol):
    """Closes a connection whose request has an endless head, or does not come to an end.

    The parser keeps whatever headers it is sent, and uvicorn waits for the rest of a request for as long as it takes.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - as uvicorn passes them
        """Begin before the first request."""
        super().__init__(*args, **kwargs)
        self._head: int | None = 0
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Wait for a request, but not forever."""
        super().connection_made(transport)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._stop_expecting()
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
        """Stop counting: the guard counts what the body has."""
        self._head = None
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Stop waiting; the next request has its own time."""
        self._stop_expecting()
        super().on_message_complete()

    def _expect(self) -> None:
        self._stop_expecting()
        self._deadline = self.loop.call_later(SECONDS_FOR_A_REQUEST, self.transport.close)

    def _stop_expecting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
