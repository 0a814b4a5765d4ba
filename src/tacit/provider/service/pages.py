"""The pages: built files, served as they are; their names are read once, so no path can lead elsewhere."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from fastapi import FastAPI, Request, Response

from tacit.provider.service.etags import tagged
from tacit.provider.service.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable

_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
_PAGES = {"/": "index.html", "/explore": "explore.html", "/operator": "operator.html", "/api": "api.html"}


@dataclass(frozen=True)
class PageFile:
    """A file of the pages."""

    content: bytes
    media_type: str
    tag: str


def page_files() -> dict[str, PageFile]:
    """Read all files of the pages, by name."""
    found = {}
    for entry in files("tacit.provider").joinpath("pages").iterdir():
        ending = entry.name.rpartition(".")[2]
        if entry.is_file() and ending in _TYPES:
            content = entry.read_bytes()
            found[entry.name] = PageFile(content, _TYPES[ending], hashlib.sha256(content).hexdigest()[:32])
    return found


def install(app: FastAPI) -> None:
    """Serve the pages and their files."""
    known = page_files()

    def sent(request: Request, name: str) -> Response:
        if name not in known:
            raise Problem("not-found", "there is no such file; / is where to begin")
        file = known[name]
        return tagged(request, file.tag, file.content, file.media_type)

    def page(name: str) -> Callable[[Request], Response]:
        def show(request: Request) -> Response:
            return sent(request, name)

        return show

    for path, name in _PAGES.items():
        app.add_api_route(path, page(name), methods=["GET"], include_in_schema=False, response_class=Response)
    app.add_api_route("/assets/{name}", sent, methods=["GET"], include_in_schema=False, response_class=Response)
