"""The service does what its OpenAPI document says, whatever is asked."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import schemathesis
from hypothesis import HealthCheck, assume, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tacit.provider.service import RateLimits, Settings
from tacit.provider.store import Item, ReportStore
from tacit.provider.store.runs import RunStore
from tacit.provider.training import Trainer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from tacit.privacy.policy import Policy

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "protocol" / "openapi.json"
MAKER = ROOT / "tests" / "protocol" / "make_openapi.py"
EXAMPLES = int(os.environ.get("TACIT_EXAMPLES", "12"))  # more, for a deeper look

api = schemathesis.openapi.from_path(DOCUMENT)
BOUNDED = settings(
    max_examples=EXAMPLES,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.filter_too_much],
)
# Who is asked for a token: the operator here, a device elsewhere.
OPERATOR, DEVICE = "an-operator-of-tests", "1" * 32
OPERATORS = ("/v1/training-runs", "/v1/stats")


@pytest.fixture(scope="module")
def address(
    policy: Policy, tmp_path_factory: pytest.TempPathFactory, on_loopback: Callable[..., AbstractContextManager[int]]
) -> Iterator[str]:
    """A service on loopback, without limits on how often it is asked."""
    folder = tmp_path_factory.mktemp("openapi")
    store = ReportStore.open(f"sqlite:///{folder / 'tacit.db'}")
    store.adopt(policy)
    store.put_items([Item(str(number), f"Title {number}") for number in range(20)])
    trainer = Trainer(store, RunStore(store.database), folder / "models")
    with on_loopback(store, trainer, Settings(limits=RateLimits(0, 0, 0))) as port:
        yield f"http://127.0.0.1:{port}"
    store.close()


@api.auth()
class Tokens:
    """Who asks: the operator or a device, as the address wants it."""

    def get(self, case: schemathesis.Case, _: schemathesis.AuthContext) -> str:
        operators = case.path.startswith(OPERATORS) or (case.method, case.path) == ("POST", "/v1/items")
        return OPERATOR if operators else DEVICE

    def set(self, case: schemathesis.Case, token: str, _: schemathesis.AuthContext) -> None:
        case.headers["Authorization"] = f"Bearer {token}"


@schemathesis.serializer("application/vnd.tacit.reports")
def _as_it_is(_: schemathesis.SerializationContext, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


@api.parametrize()
@BOUNDED
def test_every_address_keeps_to_its_description(case: schemathesis.Case, address: str) -> None:
    # Which policies, options and characters there are is more than a schema can say.
    excluded = [positive_data_acceptance] if case.method == "POST" else []
    case.call_and_validate(base_url=address, excluded_checks=excluded)


@api.include(path="/v1/reports").parametrize()
@BOUNDED
def test_every_batch_that_the_schema_allows_is_taken(case: schemathesis.Case, address: str, policy: Policy) -> None:
    assume(case.media_type == "application/json" and case.meta is not None and case.meta.generation.mode.is_positive)
    assume(isinstance(case.body, dict) and "policy" in case.body)
    case.body["policy"] = policy.id
    answer = case.call_and_validate(base_url=address).json()
    assert answer["accepted"] + answer["duplicates"] + len(answer["rejected"]) == len(case.body["reports"])


def test_the_document_that_is_kept_is_the_one_that_is_served() -> None:
    found = importlib.util.spec_from_file_location("make_openapi", MAKER)
    assert found is not None
    assert found.loader is not None
    maker: Any = importlib.util.module_from_spec(found)
    found.loader.exec_module(maker)
    remedy = "run python tests/protocol/make_openapi.py"
    assert DOCUMENT.read_text(encoding="utf-8") == maker.written(maker.described()), remedy


def test_every_address_says_which_problems_it_has() -> None:
    for path, methods in json.loads(DOCUMENT.read_text(encoding="utf-8"))["paths"].items():
        for method, described in methods.items():
            statuses = set(described["responses"])
            assert statuses & {"200", "202", "204"}, (method, path)
            signed = "security" in described
            assert ("401" in statuses) == signed, (method, path)
