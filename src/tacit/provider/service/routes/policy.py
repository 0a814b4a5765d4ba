"""The policy: what a device verifies before it says anything."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from tacit.provider.service.documents import PolicyId  # noqa: TC001 - FastAPI reads it
from tacit.provider.service.etags import tagged
from tacit.provider.service.problems import Problem, documented
from tacit.provider.service.tokens import ServiceOf  # noqa: TC001 - FastAPI reads it

router = APIRouter(tags=["policy"])

_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The document, in canonical form.",
        "content": {"application/json": {"schema": {"type": "object"}}},
    },
    304: {"description": "You have it."},
}


@router.get("/v1/policy", response_class=Response, responses=_ANSWERS | documented())
def current_policy(request: Request, service: ServiceOf) -> Response:
    """Return the policy to report under. Its id is the ETag; verify its integers before obeying it."""
    policy = service.policy
    return tagged(request, policy.id, policy.to_json(), "application/json")


@router.get("/v1/policies/{policy_id}", response_class=Response, responses=_ANSWERS | documented("not-found"))
def policy_by_id(request: Request, service: ServiceOf, policy_id: PolicyId) -> Response:
    """Return a policy that is or was current: reports made under it stay usable."""
    known = service.policies()
    if policy_id not in known:
        raise Problem("not-found", f"policy {policy_id} is not known here; fetch /v1/policy")
    return tagged(request, policy_id, known[policy_id][1].to_json(), "application/json")
