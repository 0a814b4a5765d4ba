"""The catalogue: what can be rated."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from tacit.provider.service.documents import MOST_LISTED, ItemList, ItemsPut, ItemsToPut
from tacit.provider.service.etags import tagged
from tacit.provider.service.problems import documented
from tacit.provider.service.strict_json import StrictRoute
from tacit.provider.service.tokens import Admin, ByAdmin, ServiceOf
from tacit.provider.store import Item

router = APIRouter(tags=["items"], route_class=StrictRoute)

After = Annotated[int, Query(ge=0, lt=2**31, description="Go on after this key.")]
Limit = Annotated[int, Query(ge=1, le=MOST_LISTED)]


@router.get(
    "/v1/items",
    response_model=ItemList,
    responses=documented("too-many-requests") | {304: {"description": "You have it."}},
)
def list_items(request: Request, service: ServiceOf, after: After = 0, limit: Limit = 1000) -> Response:
    """List items in order of entry, a page at a time."""
    service.limits.check_anonymous()
    found = service.store.items(after=after, limit=limit + 1)
    page, more = found[:limit], len(found) > limit
    listed = [{"item": item.id, "title": item.title} for _, item in page]
    answer = {"items": listed, "next": page[-1][0] if more else None, "total": service.store.count("items")}
    content = json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode()
    return tagged(request, hashlib.sha256(content).hexdigest()[:32], content, "application/json")


@router.post("/v1/items", dependencies=[ByAdmin, Admin], responses=documented("unauthorised", "forbidden", "too-large"))
def put_items(service: ServiceOf, body: ItemsToPut) -> ItemsPut:
    """Add items, or change their titles; to repeat it changes nothing."""
    added, changed = service.store.put_items([Item(one.item, one.title) for one in body.items])
    return ItemsPut(added=added, changed=changed)
