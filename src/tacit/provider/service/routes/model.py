"""The published model: its public part, for devices that rank by themselves."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response

from tacit.provider.service.etags import tagged
from tacit.provider.service.problems import Problem, documented
from tacit.provider.service.tokens import ServiceOf  # noqa: TC001 - FastAPI reads it

if TYPE_CHECKING:
    from tacit.provider.service.state import Service
    from tacit.provider.training import PublishedModel

router = APIRouter(tags=["model"])

ITEMS_TYPE = "application/vnd.tacit.items"
_SECONDS_UNTIL_A_MODEL = 30
# Named, and not with a weight of nought.
_ACCEPTS_GZIP = re.compile(r"(?:^|,)\s*gzip\s*(?:;\s*q=(?!0(?:\.0*)?\s*(?:,|$))|,|$)")

_ITEMS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The item model in one piece; the protocol describes it.",
        "content": {ITEMS_TYPE: {"schema": {"type": "string", "format": "binary"}}},
    },
    304: {"description": "You have it."},
}
_DESCRIPTION: dict[int | str, dict[str, Any]] = {
    200: {"description": "What it is.", "content": {"application/json": {"schema": {"type": "object"}}}},
    304: {"description": "You have it."},
}


def published(service: Service) -> PublishedModel:
    """Return the published model, or say that there is none yet."""
    found = service.trainer.published
    if found is None:
        raise Problem("no-model", "no model was trained yet; try again later", retry_after=_SECONDS_UNTIL_A_MODEL)
    return found


@router.get("/v1/model", response_class=Response, responses=_DESCRIPTION | documented("no-model"))
def describe_model(request: Request, service: ServiceOf) -> Response:
    """Describe the published model."""
    found = published(service)
    return tagged(
        request, f"{found.run}-{found.items_etag[:16]}", json.dumps(found.document).encode(), "application/json"
    )


@router.get("/v1/model/items", response_class=Response, responses=_ITEMS | documented("no-model"))
def item_model(request: Request, service: ServiceOf) -> Response:
    """Return all that a device needs to rank by itself; no user's row is in it."""
    found = published(service)
    if _ACCEPTS_GZIP.search(request.headers.get("accept-encoding", "").lower()):
        headers = {"Content_Encoding": "gzip", "Vary": "Accept-Encoding"}
        return tagged(request, found.items_etag, found.items_gzip, ITEMS_TYPE, **headers)
    return tagged(request, found.items_etag, found.items, ITEMS_TYPE, Vary="Accept-Encoding")
