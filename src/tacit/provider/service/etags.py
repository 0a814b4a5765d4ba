"""Answers that need not be sent again: entity tags."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import Response

if TYPE_CHECKING:
    from fastapi import Request


def tagged(request: Request, tag: str, content: bytes, media_type: str, **headers: str) -> Response:
    """Answer with content under its tag, or with 304 to somebody who has it."""
    own = {"ETag": f'"{tag}"', "Cache-Control": "no-cache", **{k.replace("_", "-"): v for k, v in headers.items()}}
    if is_known(request, tag):
        return Response(status_code=304, headers={name: own[name] for name in own if name != "Content-Encoding"})
    return Response(content, media_type=media_type, headers=own)


def is_known(request: Request, tag: str) -> bool:
    """Tell whether the other side says that it has what goes by this tag."""
    stated = request.headers.get("if-none-match", "")
    return any(one.strip().removeprefix("W/") in {"*", f'"{tag}"'} for one in stated.split(","))
