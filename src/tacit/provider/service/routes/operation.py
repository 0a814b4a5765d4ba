"""For whoever runs the service: sums, health and metrics."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from tacit.provider.service.documents import Health
from tacit.provider.service.metrics import MEDIA_TYPE
from tacit.provider.service.problems import documented
from tacit.provider.service.stats import stats_of
from tacit.provider.service.tokens import Admin, ByAdmin, ServiceOf

router = APIRouter(tags=["operation"])


@router.get("/v1/stats", dependencies=[ByAdmin, Admin], responses=documented("unauthorised", "forbidden"))
async def show_stats(service: ServiceOf) -> dict[str, Any]:
    """Sum up what came in, what was refused, what was spent, what was learned, and what it takes."""
    await service.collector.flush()
    return await service.in_background(lambda: stats_of(service))


@router.get("/health/live")
async def live() -> Health:
    """Tell that the process answers."""
    return Health(status="ok")


@router.get("/health/ready", responses=documented())
def ready(service: ServiceOf) -> Health:
    """Tell whether the database answers, too."""
    service.store.count("policies")
    return Health(status="ok")


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"description": "Prometheus text.", "content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(service: ServiceOf) -> Response:
    """Return all counters as Prometheus reads them."""
    published = service.trainer.published
    service.metrics.waiting.set(service.collector.waiting)
    service.metrics.groups.set(service.collector.groups)
    service.metrics.run.set(0 if published is None else published.run)
    return Response(service.metrics.text(), headers={"Content-Type": MEDIA_TYPE})
