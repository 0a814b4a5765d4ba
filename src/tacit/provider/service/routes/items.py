"""The catalogue: what can be rated."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from tacit.errors import ReportError
from tacit.privacy.report import check_item
from tacit.provider.service.documents import MOST_LISTED, ItemDocument, ItemList, ItemsPut, ItemsToPut
from tacit.provider.service.etags import is_known
from tacit.provider.service.problems import Problem, documented
from tacit.provider.service.strict_json import StrictRoute
from tacit.provider.service.tokens import Admin, ByAdmin, ServiceOf
from tacit.provider.store import Item

router = APIRouter(tags=["items"], route_class=StrictRoute)

After = Annotated[int, Query(ge=0, lt=2**31, description="Go on after this key.")]
Limit = Annotated[int, Query(ge=1, le=MOST_LISTED)]


@router.get("/v1/items", response_model=ItemList, responses=documented() | {304: {"description": "You have it."}})
def list_items(
    request: Request, response: Response, service: ServiceOf, after: After = 0, limit: Limit = 1000
) -> ItemList | Response:
    """List items in order of entry, a page at a time."""
    found = service.store.items(after=after, limit=limit + 1)
    page, more = found[:limit], len(found) > limit
    listed = [ItemDocument(item=item.id, title=item.title) for _, item in page]
    answer = ItemList(items=listed, next=page[-1][0] if more else None, total=service.store.count("items"))
    # A hash only has to differ when the page does; it is no secret and need not last.
    tag = f"{hash((answer.total, answer.next, tuple((item.id, item.title) for _, item in page))) & 2**64 - 1:016x}"
    if is_known(request, tag):
        return Response(status_code=304, headers={"ETag": f'"{tag}"', "Cache-Control": "no-cache"})
    response.headers.update({"ETag": f'"{tag}"', "Cache-Control": "no-cache"})
    return answer


@router.post("/v1/items", dependencies=[ByAdmin, Admin], responses=documented("unauthorised", "forbidden", "too-large"))
def put_items(service: ServiceOf, body: ItemsToPut) -> ItemsPut:
    """Add items, or change their titles; to repeat it changes nothing."""
    for number, one in enumerate(body.items):
        try:
            check_item(one.item)
        except (ReportError, UnicodeEncodeError):
            raise Problem("invalid", f"items.{number}.item is not 1 to 200 bytes of printable text") from None
        if not one.title.isprintable():
            raise Problem("invalid", f"items.{number}.title has a character that cannot be shown; take it out")
    added, changed = service.store.put_items([Item(one.item, one.title) for one in body.items])
    return ItemsPut(added=added, changed=changed)
