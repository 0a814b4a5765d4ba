"""Around every request: limits on size and time, headers that protect, and counting."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from tacit.provider.service.problems import Problem, answer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from tacit.provider.service.state import Service

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

_HEADERS = {
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
_RAW_HEADERS = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
_NOT_KEPT = (b"cache-control", b"no-store")

# Counted by their names; all others together, or whoever makes up methods would fill the memory with counters.
_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
_LONGEST_LENGTH = 18  # digits


class Guard:
    """The outermost layer of the service."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        """Stand around an application."""
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = message["headers"] = [*message.get("headers", ()), *_RAW_HEADERS]
                if not any(name.lower() == b"cache-control" for name, _ in headers):
                    headers.append(_NOT_KEPT)
            await send(message)

        try:
            await self._guarded(scope, receive, sending)
        finally:
            self._count(scope, status, time.perf_counter() - began)

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        limit, headers = self._service.settings.largest_body, dict(scope["headers"])
        problem = _refused(headers, limit)
        if problem is not None:
            self._service.note_problem(problem.code, scope)
            await answer(problem.code, problem.detail, problem.headers)(scope, receive, send)
            return
        await self._app(scope, self._counted(receive, limit), send)

    def _counted(self, receive: Receive, limit: int) -> Receive:
        """Count what comes in, and do not wait for it forever."""
        left, until, complete = limit, time.monotonic() + self._service.settings.body_seconds, False

        async def receiving() -> Message:
            nonlocal left, complete
            if complete:  # what follows is the news that the other side is gone, however late
                return await receive()
            try:
                message = await asyncio.wait_for(receive(), max(until - time.monotonic(), 0.001))
            except TimeoutError:
                raise Problem("timeout", "the request was not complete in time; send it again") from None
            complete = not message.get("more_body", False)
            left -= len(message.get("body", b""))
            if left < 0:
                raise Problem("too-large", f"the body is larger than the limit of {limit} bytes; send less at once")
            return message

        return receiving

    def _count(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "other")
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._service.metrics.requests.labels(method, route, str(status)).inc()
        self._service.metrics.seconds.labels(route).observe(seconds)


def _refused(headers: Mapping[bytes, bytes], limit: int) -> Problem | None:
    """Say what is wrong with a request before any of its body is read."""
    length, encoding = headers.get(b"content-length", b"0"), headers.get(b"content-encoding", b"identity")
    if not length.isdigit():
        return Problem("malformed", "Content-Length is not a whole number; send the length of the body in bytes")
    if len(length) > _LONGEST_LENGTH or int(length) > limit:
        return Problem("too-large", f"the body is larger than the limit of {limit} bytes; send less at once")
    if encoding.strip().lower() != b"identity":
        return Problem("unsupported-media-type", "a request is not compressed here; send it without Content-Encoding")
    return None
