"""Schemathesis reads the OpenAPI document and sends what it permits and forbids: no 5xx, nothing undocumented."""

import functools
from typing import Any

import pytest
import schemathesis
from django.core.wsgi import get_wsgi_application
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.api.conftest import World
from tests.api.planes import Door

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES = 3


STRANGER = "zz-strangers"  # the other tenant; its name and payload must be nowhere


@functools.cache
def operations() -> list[Any]:
    """Every operation of the served document; both runs share what schemathesis has made of it."""
    schema = schemathesis.openapi.from_wsgi("/api/v1/openapi.json", get_wsgi_application())
    return [found.ok() for found in schema.get_all_operations()]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("world", [Door], indirect=True)
@pytest.mark.parametrize(("bound", "examples"), [(None, EXAMPLES), ("sales", 1)])
def test_generated_calls_find_no_fault(world: World, bound: str | None, examples: int) -> None:
    """Of a key that may do all, and of one that is bound to a tenant: that one never hears of another tenant."""
    world.door.post("/tenants", {"slug": STRANGER})
    world.door.post("/tasks", {"tenant": STRANGER, "class": "background", "payload": STRANGER, "user": STRANGER})
    headers = {"Authorization": f"Bearer {world.key(tenant=bound)}"}
    seen = 0
    for operation in operations():

        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def send(case: Any) -> None:
            nonlocal seen
            seen += 1
            answer = case.call_and_validate(headers=headers, checks=CHECKS)
            assert bound is None or STRANGER not in answer.text

        send()
    assert seen > 100
