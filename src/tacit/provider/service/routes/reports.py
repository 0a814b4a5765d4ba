"""Hearing reports: answered once they are on the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from tacit.privacy.report import FORMAT, LARGEST_REVISION, LONGEST_ITEM, MOST_REPORTS
from tacit.privacy.weights import MOST_SYMBOLS
from tacit.provider.service.documents import ReportsTaken
from tacit.provider.service.intake import COMPACT, JSON, batch_of
from tacit.provider.service.problems import documented
from tacit.provider.service.tokens import ByDevice, DeviceOf, ServiceOf

if TYPE_CHECKING:
    from tacit.provider.service.state import Service
    from tacit.provider.store import Outcome

router = APIRouter(tags=["reports"])

_REPORT = {
    "type": "object",
    "required": ["item", "symbol", "revision"],
    "additionalProperties": False,
    "properties": {
        "item": {"type": "string", "minLength": 1, "maxLength": LONGEST_ITEM},
        "symbol": {"type": "integer", "minimum": 0, "maximum": MOST_SYMBOLS - 1},
        "revision": {"type": "integer", "minimum": 0, "maximum": LARGEST_REVISION},
    },
}
_BATCH = {
    "type": "object",
    "required": ["format", "policy", "reports"],
    "additionalProperties": False,
    "properties": {
        "format": {"const": FORMAT},
        "policy": {"type": "string"},
        "reports": {"type": "array", "minItems": 1, "maxItems": MOST_REPORTS, "items": _REPORT},
    },
}
_BODY = {
    "required": True,
    "description": "A batch of reports under one policy: as JSON, or in the compact form of the protocol.",
    "content": {
        JSON: {"schema": _BATCH},
        COMPACT: {"schema": {"type": "string", "format": "binary"}},
    },
}
_PROBLEMS = documented(
    "unauthorised", "timeout", "too-large", "unsupported-media-type", "unknown-policy", "too-many-requests", "busy"
)


@router.post(
    "/v1/reports",
    response_model=ReportsTaken,
    dependencies=[ByDevice],
    openapi_extra={"requestBody": _BODY},
    responses=_PROBLEMS,
)
async def take_reports(request: Request, service: ServiceOf, device: DeviceOf) -> JSONResponse:
    """Store a batch of 1 to 1000 reports; answered after the commit.

    To send it again changes nothing: a report is known by its device, item and revision, and the first one counts.
    A batch that cannot be read is refused whole; reports that cannot be stored are named, the others are stored.
    """
    body = await request.body()
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    with service.collector.arriving(device):
        batch = batch_of(body, media_type, device, await service.known_policies())
        outcome = await service.collector.submit(batch)
    _count(service, outcome)
    rejected = [{"index": index, "code": code} for index, code in outcome.rejected]
    return JSONResponse({"accepted": outcome.accepted, "duplicates": outcome.duplicates, "rejected": rejected})


def _count(service: Service, outcome: Outcome) -> None:
    service.metrics.reports.labels("accepted").inc(outcome.accepted)
    service.metrics.reports.labels("duplicate").inc(outcome.duplicates)
    for _, code in outcome.rejected:
        service.metrics.reports.labels(code).inc()
