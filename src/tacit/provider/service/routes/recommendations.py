"""Recommendations for thin clients: from reports alone, since the provider has nothing else."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from fastapi import APIRouter

from tacit.errors import ModelError
from tacit.learning.recommend import LONGEST_LIST, recommend_for
from tacit.provider.service.documents import (
    MOST_RECOMMENDED,
    HowMany,
    ItemPath,
    Recommended,
    ScoredItem,
    Session,
    SimilarItems,
)
from tacit.provider.service.problems import Problem, documented
from tacit.provider.service.routes.model import published
from tacit.provider.service.strict_json import StrictRoute
from tacit.provider.service.tokens import ByDevice, DeviceOf, ServiceOf

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tacit.privacy.policy import Policy
    from tacit.provider.service.state import Service
    from tacit.provider.store.store import StoredReport
    from tacit.provider.training import PublishedModel

router = APIRouter(tags=["recommendations"], route_class=StrictRoute)

_POPULAR = 2 * MOST_RECOMMENDED
_POPULAR_FOR_SECONDS = 60.0


@router.get("/v1/recommendations", dependencies=[ByDevice], responses=documented("unauthorised", "too-many-requests"))
def recommend(service: ServiceOf, device: DeviceOf, n: HowMany = 10) -> Recommended:
    """Recommend from the stored reports of the device that asks; without any, what is popular."""
    model, reports = service.trainer.published, service.store.reports_of(device)
    if model is None or not reports:
        return _popular(service, n, leave_out={one.item for one in reports or ()})
    return _from_symbols(service, model, *_newest(service, model, reports), n)


@router.post(
    "/v1/recommendations",
    responses=documented("unknown-policy", "too-large", "too-many-requests"),
)
def recommend_for_session(service: ServiceOf, body: Session) -> Recommended:
    """Recommend from symbols that the request carries, never ratings; nothing is stored, and nobody says who asks."""
    service.limits.check_anonymous()
    known = service.policies()
    if body.policy not in known:
        raise Problem("unknown-policy", f"policy {body.policy} is not in use; fetch /v1/policy")
    policy, said = known[body.policy][1], {one.item: one.symbol for one in body.symbols}
    if len(said) < len(body.symbols):
        raise Problem("invalid", "symbols name an item twice; send one symbol for each item")
    if said and max(said.values()) >= policy.channel.weights.symbols:
        raise Problem(
            "invalid", f"a symbol is not below the policy's {policy.channel.weights.symbols}; check the policy"
        )
    model = service.trainer.published
    if model is None or not said:
        return _popular(service, body.n, leave_out=set(said))
    return _from_symbols(service, model, policy, said, body.n)


@router.get("/v1/items/{item_id}/similar", responses=documented("not-found", "no-model", "too-many-requests"))
def similar(service: ServiceOf, item_id: ItemPath, n: HowMany = 10) -> SimilarItems:
    """Find the items most like another."""
    service.limits.check_anonymous()
    from_model = published(service)
    public = _public_items(from_model)
    if item_id not in public:
        raise Problem("not-found", "the published model does not know this item; try one of those in it")
    try:
        found = from_model.model.similar(item_id, LONGEST_LIST)
    except ModelError as error:
        raise Problem("not-found", str(error)) from None
    return SimilarItems(items=_scored([(str(item), score) for item, score in found if str(item) in public][:n]))


def _newest(service: Service, model: PublishedModel, reports: Sequence[StoredReport]) -> tuple[Policy, dict[str, int]]:
    """Return the newest symbol on every item, of the policy that the device said most under and the model knows."""
    newest = {one.item: one for one in reports}  # they come in order of revision
    known = set(model.model.provenance.policies)
    counts = Counter(one.policy for one in newest.values() if one.policy in known)
    if not counts:
        return service.policy, {}
    policy = counts.most_common(1)[0][0]
    return service.policies()[policy][1], {one.item: one.symbol for one in newest.values() if one.policy == policy}


def _from_symbols(
    service: Service, published_model: PublishedModel, policy: Policy, said: dict[str, int], n: int
) -> Recommended:
    """Solve one person's row from their symbols alone, everything else held, and rank.

    Items that are not public neither count nor appear: what is said of them here would tell of the few who rated them.
    """
    model, public = published_model.model, _public_items(published_model)
    counting = {item: symbol for item, symbol in said.items() if item in public}
    if not counting or policy.id not in model.provenance.policies or policy.scale != model.scale:
        return _popular(service, n, leave_out=set(said))
    values = policy.channel.symbol_values[np.array(list(counting.values()), dtype=np.int64)]
    profile = model.fold_in(list(counting), values, policy=policy.id)
    left_out = np.union1d(profile.rated, np.arange(len(public), model.reported_items))
    found = recommend_for(model, profile, n, left_out.astype(profile.rated.dtype))
    pairs = [(str(item), score) for item, score in zip(found.items, found.ratings.tolist(), strict=True)]
    return Recommended(items=_scored(pairs), fallback=False, reason="reports", run=published_model.run)


@lru_cache(maxsize=1)
def _public_items(published_model: PublishedModel) -> frozenset[str]:
    """Return the items that everybody may know of; they come first in the model."""
    public = published_model.document["published_items"]
    return frozenset(map(str, published_model.model.items.ids[:public].tolist()))


def _popular(service: Service, n: int, leave_out: set[str]) -> Recommended:
    model, store = service.trainer.published, service.store
    if model is None:
        least = service.settings.least_reports
        names = service.kept("popular", _POPULAR_FOR_SECONDS, lambda: store.popular_items(_POPULAR, least=least))
    else:
        # The rest is in an order that tells of single reports.
        public = min(_POPULAR, model.document["published_items"])
        names = [str(name) for name in model.model.items.ids[:public].tolist()]  # by falling number of reports
    shown = [name for name in names if name not in leave_out][:n]
    return Recommended(
        items=_scored([(name, None) for name in shown]),
        fallback=True,
        reason="cold-start",
        run=None if model is None else model.run,
    )


def _scored(pairs: Sequence[tuple[str, float | None]]) -> list[ScoredItem]:
    return [ScoredItem(item=item, score=score, rank=rank) for rank, (item, score) in enumerate(pairs, 1)]
