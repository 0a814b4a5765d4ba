"""The application: all routes over one store, one collector and one trainer."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from tacit.provider.service import pages, problems
from tacit.provider.service.collecting import Collector
from tacit.provider.service.guard import Guard
from tacit.provider.service.problems import ProblemDocument
from tacit.provider.service.routes import devices, items, model, operation, policy, recommendations, reports, runs
from tacit.provider.service.state import Service, Settings
from tacit.provider.store.writing import GroupWriter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Any

    from starlette.types import ASGIApp

    from tacit.provider.service.tokens import AdminToken
    from tacit.provider.store import ReportStore
    from tacit.provider.training import Trainer

_TITLE = "tacit"
_DESCRIPTION = (
    "Recommendations learned from ratings that people never disclose. Devices send perturbed reports under a published "
    "policy, and rank by themselves with what is published here."
)
_ROUTERS = (policy, items, reports, devices, runs, model, recommendations, operation)


def create_app(store: ReportStore, trainer: Trainer, admin: AdminToken, settings: Settings | None = None) -> ASGIApp:
    """Make the application; whoever calls starts and stops the trainer, and closes the store."""
    chosen = settings or Settings()

    @asynccontextmanager
    async def running(app: FastAPI) -> AsyncIterator[None]:
        service: Service = app.state.service
        service.collector.start()
        try:
            yield
        finally:
            await service.collector.stop()

    # A redirect would lead to whatever host a request named, token and all; there are none.
    app = FastAPI(
        title=_TITLE, description=_DESCRIPTION, docs_url=None, redoc_url=None, redirect_slashes=False, lifespan=running
    )
    writer = GroupWriter(store.database, chosen.most_reports_per_device)
    app.state.service = Service(store, Collector(writer), trainer, admin, chosen)
    problems.install(app)
    for routes in _ROUTERS:
        app.include_router(routes.router)
    pages.install(app)
    app.openapi = lambda: openapi(app)  # type: ignore[method-assign] # as FastAPI's documentation has it
    return Guard(app, app.state.service)


def openapi(app: FastAPI) -> dict[str, Any]:
    """Describe the service, problems included."""
    if app.openapi_schema is None:
        made = get_openapi(title=_TITLE, version="1", description=_DESCRIPTION, routes=app.routes)
        made["components"]["schemas"]["ProblemDocument"] = ProblemDocument.model_json_schema()
        app.openapi_schema = made
    return app.openapi_schema
