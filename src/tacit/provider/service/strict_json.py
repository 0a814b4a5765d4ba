"""Bodies that are read in one way only: UTF-8, no field named twice, not nested without end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from tacit.privacy.canonical import read_json
from tacit.provider.service.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


class StrictRequest(Request):
    """A request whose JSON is read strictly."""

    async def json(self) -> Any:  # noqa: ANN401 - whatever the body holds
        """Read the body, or refuse it."""
        try:
            return read_json(await self.body())
        except ValueError:
            raise Problem("malformed", "the body is not JSON in UTF-8 whose fields have one value each") from None


class StrictRoute(APIRoute):
    """A route for bodies that are not reports, which have their own reader."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Handle requests, read strictly."""
        handler = super().get_route_handler()

        async def handled(request: Request) -> Response:
            return await handler(StrictRequest(request.scope, request.receive))

        return handled
