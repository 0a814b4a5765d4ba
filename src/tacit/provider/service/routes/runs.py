"""Training runs: asked for here, done in a process of their own."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Response
from fastapi.responses import PlainTextResponse

from tacit.provider.service.documents import RunDocument, RunId, RunList, RunToStart
from tacit.provider.service.problems import Problem, documented
from tacit.provider.service.strict_json import StrictRoute
from tacit.provider.service.tokens import Admin, ByAdmin, ServiceOf
from tacit.provider.store.runs import Run, RunRequest

router = APIRouter(tags=["training"], dependencies=[ByAdmin, Admin], route_class=StrictRoute)

_SECONDS_BETWEEN_LOOKS = 2


@router.post(
    "/v1/training-runs",
    status_code=202,
    response_description="It will be done; `Location` says where to look.",
    responses=documented("unauthorised", "forbidden", "conflict", "too-large"),
)
def start_run(service: ServiceOf, response: Response, body: Annotated[RunToStart | None, Body()] = None) -> RunDocument:
    """Start to train; one run at a time."""
    wanted = body or RunToStart()
    run = service.trainer.request(RunRequest(wanted.model, dict(wanted.options)))
    response.headers["Location"] = f"/v1/training-runs/{run.id}"
    response.headers["Retry-After"] = str(_SECONDS_BETWEEN_LOOKS)
    return _document(run)


@router.get("/v1/training-runs", responses=documented("unauthorised", "forbidden"))
def list_runs(service: ServiceOf) -> RunList:
    """List the newest 100 runs."""
    return RunList(runs=[_document(run) for run in service.runs.newest(100)])


@router.get("/v1/training-runs/{run_id}", responses=documented("unauthorised", "forbidden", "not-found"))
def show_run(service: ServiceOf, response: Response, run_id: RunId) -> RunDocument:
    """Tell how far a run is."""
    run = _found(service.runs.get(run_id), run_id)
    if not run.ended:
        response.headers["Retry-After"] = str(_SECONDS_BETWEEN_LOOKS)
    return _document(run)


@router.get(
    "/v1/training-runs/{run_id}/log",
    response_class=PlainTextResponse,
    responses=documented("unauthorised", "forbidden", "not-found"),
)
def show_log(service: ServiceOf, run_id: RunId) -> str:
    """Return what a run wrote down, its last megabyte."""
    run = _found(service.runs.get(run_id), run_id)
    return service.trainer.log_of(run.id)


def _found(run: Run | None, run_id: int) -> Run:
    if run is None:
        raise Problem("not-found", f"there is no run {run_id}; /v1/training-runs lists them")
    return run


def _document(run: Run) -> RunDocument:
    return RunDocument.model_validate(run.to_document())
