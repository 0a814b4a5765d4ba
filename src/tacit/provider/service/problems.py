"""Errors as RFC 9457 problem documents: one code each, and one line that says what to do."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.routing import Match

from tacit.errors import BusyError, InvalidInputError, RunError, StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import FastAPI, Request

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"

# Every code, with its status and what it means in general.
CODES: dict[str, tuple[int, str]] = {
    "malformed": (400, "The request cannot be read"),
    "unauthorised": (401, "A token is missing or not valid"),
    "forbidden": (403, "This token may not do that"),
    "not-found": (404, "There is nothing here"),
    "no-model": (404, "No model is published yet"),
    "unknown-device": (404, "Nothing is stored about this device"),
    "method-not-allowed": (405, "This method is not for this address"),
    "timeout": (408, "The request came too slowly"),
    "conflict": (409, "Something else is under way"),
    "too-large": (413, "The request is too large"),
    "unsupported-media-type": (415, "This kind of content is not known here"),
    "invalid": (422, "The request says something that cannot be"),
    "unknown-policy": (422, "The policy is not one of those in use"),
    "too-many-requests": (429, "Too many requests"),
    "internal": (500, "Something went wrong here"),
    "busy": (503, "Too much is waiting"),
    "storage": (503, "The database does not answer"),
}

_BY_STATUS = {
    400: "malformed",
    401: "unauthorised",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    413: "too-large",
    415: "unsupported-media-type",
}


_METHODS = ("DELETE", "GET", "POST")

# What is still to come of such a request is not waited for.
_NOT_READ_TO_THE_END = {"timeout", "too-large"}


class ProblemDocument(BaseModel):
    """A problem, as RFC 9457 describes it."""

    model_config = ConfigDict(extra="forbid")

    type: str
    title: str
    status: int
    detail: str
    code: str


class Problem(Exception):  # noqa: N818 - the name of the thing in RFC 9457
    """A request that cannot be answered as asked."""

    def __init__(self, code: str, detail: str, *, retry_after: int | None = None) -> None:
        """Name the code and say in one line what was wrong and what to do."""
        super().__init__(detail)
        self.code, self.detail = code, detail
        self.headers: dict[str, str] = {} if retry_after is None else {"Retry-After": str(max(1, retry_after))}
        if code == "unauthorised":
            self.headers["WWW-Authenticate"] = "Bearer"
        if code in _NOT_READ_TO_THE_END:
            self.headers["Connection"] = "close"


def documented(*codes: str) -> dict[int | str, dict[str, Any]]:
    """Describe problems that an address can answer with, for OpenAPI."""
    by_status: dict[int | str, list[str]] = {}
    for code in ("malformed", "invalid", *codes, "internal", "storage"):
        by_status.setdefault(CODES[code][0], []).append(code)
    schema = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}}
    return {
        status: {"description": "; ".join(f"`{code}`: {CODES[code][1]}" for code in listed), "content": schema}
        for status, listed in by_status.items()
    }


def answer(code: str, detail: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Write a problem."""
    status, title = CODES[code]
    document = ProblemDocument(type=f"/problems/{code}", title=title, status=status, detail=detail, code=code)
    return JSONResponse(document.model_dump(), status, dict(headers or {}), media_type=MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Answer every error with a problem, and count it."""

    def told(request: Request, problem: Problem) -> JSONResponse:
        request.app.state.service.note_problem(problem.code, request.scope)
        return answer(problem.code, problem.detail, problem.headers)

    def on_problem(request: Request, error: Exception) -> JSONResponse:
        problem = problem_of(error)
        if problem.code == "method-not-allowed":
            problem.headers["Allow"] = ", ".join(_methods_at(request))
        return told(request, problem)

    kinds = (Problem, HTTPException, RequestValidationError, BusyError, StoreError, RunError, InvalidInputError)
    for kind in (*kinds, Exception):
        app.add_exception_handler(kind, on_problem)


def problem_of(error: Exception) -> Problem:  # noqa: PLR0911 - one for each kind of error
    """Say of any error which problem it is; of an unexpected one, nothing but that it happened."""
    match error:
        case Problem():
            return error
        case RequestValidationError():
            return _invalid(error)
        case HTTPException(__cause__=Problem() as cause):  # met while a body was read
            return cause
        case HTTPException():
            code = _BY_STATUS.get(error.status_code, "internal")
            return Problem(code, f"{HTTPStatus(error.status_code).phrase}; see /openapi.json for what there is")
        case BusyError():
            return Problem("busy", str(error), retry_after=1)
        case StoreError():
            log.error("storing failed: %s", error)
            return Problem(
                "storage",
                "the database does not answer; send it again, which is safe: what was stored is not stored twice",
                retry_after=5,
            )
        case RunError():
            return Problem("conflict", str(error))
        case InvalidInputError():
            return Problem("invalid", str(error))
    log.error("unexpected", exc_info=error)
    return Problem("internal", "an error that was not foreseen; the operator's log has it")


def _methods_at(request: Request) -> list[str]:
    """Return all methods that an address knows; the framework names those of one route only."""
    routes = request.app.router.routes
    return [
        method
        for method in _METHODS
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes)
    ]


def _invalid(error: RequestValidationError) -> Problem:
    """Name the first thing that is wrong, without repeating what was sent."""
    first = error.errors()[0]
    # The last part can be the name of a field that somebody made up.
    known = first["loc"][:-1] if first["type"] == "extra_forbidden" else first["loc"]
    where = ".".join(str(part) for part in known)[:100].encode("ascii", "replace").decode()
    code = "malformed" if first["type"] == "json_invalid" else "invalid"
    return Problem(code, f"{where}: {first['msg'][:200]}; see /openapi.json for what is expected")
