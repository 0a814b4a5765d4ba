"""What a provider publishes for everybody: asked for without saying who asks, and verified each time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tacit.device.answers import LARGEST_PAGE, page_of
from tacit.device.exchange import NOT_FOUND, NOT_MODIFIED, Request
from tacit.errors import PolicyError, ProviderError
from tacit.privacy.item_wire import LARGEST_ITEMS, MEDIA_TYPE, decode_items
from tacit.privacy.policy import LARGEST_DOCUMENT, Policy

if TYPE_CHECKING:
    from collections.abc import Callable

    from tacit.device.answers import ListedItem
    from tacit.device.exchange import Answer
    from tacit.privacy.item_model import ItemModel

MOST_PAGES = 1000
LARGEST_CATALOGUE = 64 * 2**20

_PAGE = 10_000
_ETAG = re.compile(r'(W/)?"[!\x23-\x7e]{1,200}"')


class Published:
    """Policies, the catalogue and the item model; no request for them has a token."""

    def __init__(self, ask: Callable[[Request], Answer]) -> None:
        """Prepare to ask; nothing is asked yet."""
        self._ask = ask
        # Kept while this client is, not on disk: by an ETag of its own a device could be recognised for good.
        self._model: tuple[str, ItemModel] | None = None

    def policy(self) -> Policy:
        """Fetch the current policy."""
        return Policy.from_json(self._ask(Request("GET", "/v1/policy", most=LARGEST_DOCUMENT)).body)

    def earlier_policy(self, policy_id: str) -> Policy | None:
        """Fetch a policy by its id, told by its hash; None if the provider never had it."""
        answer = self._ask(Request("GET", f"/v1/policies/{policy_id}", most=LARGEST_DOCUMENT, also=NOT_FOUND))
        if answer.status == NOT_FOUND:
            return None
        policy = Policy.from_json(answer.body)
        if policy.id != policy_id:
            raise PolicyError(f"the provider gives policy {policy.id} for {policy_id}; refused")
        return policy

    def items(self) -> list[ListedItem]:
        """Fetch the catalogue, page by page."""
        found: list[ListedItem] = []
        query: dict[str, str | int] = {"limit": _PAGE}
        left = LARGEST_CATALOGUE
        for _ in range(MOST_PAGES):
            answer = self._ask(Request("GET", "/v1/items", query=query, most=min(left, LARGEST_PAGE)))
            page, after = page_of(answer)
            found.extend(page)
            if after is None:
                return found
            left -= len(answer.body)
            query["after"] = after
        raise ProviderError(f"the provider's catalogue has more than {MOST_PAGES} pages; refused", code="too-large")

    def item_model(self) -> ItemModel:
        """Fetch the item model, unless it is the one that is known."""
        known = {} if self._model is None else {"If-None-Match": self._model[0]}
        headers = {"Accept": MEDIA_TYPE, **known}
        answer = self._ask(Request("GET", "/v1/model/items", headers=headers, most=LARGEST_ITEMS, also=NOT_MODIFIED))
        if answer.status == NOT_MODIFIED and self._model is not None:
            return self._model[1]
        model = decode_items(answer.body)
        etag = answer.headers.get("etag", "")
        self._model = (etag, model) if _ETAG.fullmatch(etag) else None
        return model
