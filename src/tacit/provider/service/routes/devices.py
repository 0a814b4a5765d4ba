"""A device's own view: what is stored about it, and the way to make it gone."""

from __future__ import annotations

from decimal import Decimal

from fastapi import APIRouter, Response

from tacit.privacy.exact import decimal_text
from tacit.provider.service.documents import DeviceDocument, StoredReportDocument
from tacit.provider.service.problems import Problem, documented
from tacit.provider.service.tokens import ByDevice, DeviceOf, ServiceOf

router = APIRouter(tags=["devices"], dependencies=[ByDevice])


@router.get("/v1/devices/me", responses=documented("unauthorised", "unknown-device", "too-many-requests"))
def show_device(service: ServiceOf, device: DeviceOf) -> DeviceDocument:
    """Return everything that is stored about the device that asks."""
    reports = service.store.reports_of(device)
    if reports is None:
        raise Problem("unknown-device", "nothing is stored about this device; it exists from its first report on")
    known = service.policies()
    spent = sum((known[one.policy][1].epsilon for one in reports if one.policy in known), Decimal(0))
    listed = [StoredReportDocument(policy=r.policy, item=r.item, symbol=r.symbol, revision=r.revision) for r in reports]
    return DeviceDocument(reports=listed, epsilon=decimal_text(spent))


@router.delete("/v1/devices/me", status_code=204, responses=documented("unauthorised", "too-many-requests"))
async def delete_device(service: ServiceOf, device: DeviceOf) -> Response:
    """Delete the device that asks, and all its reports; models trained from now on know nothing of it."""
    await service.collector.delete_device(device)
    return Response(status_code=204)
