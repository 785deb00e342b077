"""`manage.py demo`: within 20 s there is something true to see everywhere, and a stop leaves nothing."""

from typing import Any

import pytest

from dispatch.jobs.demo import seed
from tests.acceptance.harness import Product, running

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]

SEEN_S = 20.0


def seen(product: Product) -> dict[str, Any]:
    """What an operator can read of the demo through the API."""

    def count(query: str) -> int:
        return len(product.ok("GET", f"/api/v1/tasks?limit=1000&{query}")["items"])

    workers = product.ok("GET", "/api/v1/workers")["items"]
    return {
        "workers": len(workers),
        "running": count("state=leased"),
        "succeeded": count("state=succeeded"),
        "dead": count("state=dead"),
        "tenants": {task["tenant"] for task in product.ok("GET", "/api/v1/tasks?limit=1000")["items"]},
        "audit": len(product.ok("GET", "/api/v1/audit")["items"]),
    }


def test_the_demo_shows_work_failure_and_healing() -> None:
    with running(command=("demo",)) as product:

        def enough() -> bool:
            now = seen(product)
            return (
                now["workers"] >= 8
                and now["running"] > 3
                and now["succeeded"] > 3
                and now["dead"] >= 1
                and now["tenants"] == set(seed.DEPARTMENTS)
            )

        product.wait_for(enough, SEEN_S)
        for kind, objects in (("classes", seed.CLASSES), ("tenants", seed.DEPARTMENTS), ("tools", seed.TOOLS)):
            assert {one["slug"] for one in product.ok("GET", f"/api/v1/{kind}")["items"]} >= set(objects)

        def troubled() -> bool:
            ends = {entry["event"] for entry in _history(product)}
            return {"lost", "stalled"} <= ends

        product.wait_for(troubled, 90)
        assert len(product.pids()["python"]) >= 8, "agents and departments; one may be dead at the moment"


def _history(product: Product) -> list[dict[str, Any]]:
    tasks = product.ok("GET", "/api/v1/tasks?limit=1000")["items"]
    tried = [task for task in tasks if task["losses"] > 0]
    return [entry for task in tried for entry in product.ok("GET", f"/api/v1/tasks/{task['id']}")["history"]]
