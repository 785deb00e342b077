"""Several edits at once, the versions of the policy, and the way back to one, over the API."""

from typing import Any

import pytest

from dispatch.agent.cli import policy as cli
from tests.api.conftest import World
from tests.api.planes import Door
from tests.api.test_conventions import is_problem

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.parametrize("world", [Door], indirect=True)]


def test_edits_together_and_back_again(world: World) -> None:
    def change(kind: str, slug: str, **fields: object) -> dict[str, object]:
        return {"kind": kind, "slug": slug, "version": 1, "set": fields}

    before = world.door.get("/policy/versions?limit=1").data["items"][0]["version"]
    body = {"changes": [change("class", "background", weight=4), change("tenant", "sales", max=2)], "reason": "peak"}
    assert world.door.post("/policy/apply", {**body, "dry_run": True}).data["version"] == before
    made = world.door.post("/policy/apply", body)
    assert (made.status, made.data["version"] > before) == (200, True)
    is_problem(world.door.post("/policy/apply", body), 409, "version-conflict")
    wrong = {"changes": [{**change("class", "background", wait=1), "version": 2}], "reason": "x"}
    assert world.door.post("/policy/apply", wrong).fields == ["changes[0].wait"]
    stale = world.door.post(f"/policy/versions/{before}/restore", {"reason": "back", "version": before})
    is_problem(stale, 409, "version-conflict")
    back = world.door.post(f"/policy/versions/{before}/restore", {"reason": "back", "version": made.data["version"]})
    assert (back.status, sorted(back.data["changed"])) == (200, ["class/background", "tenant/sales"])
    assert world.door.get("/tenants/sales").data["max"] is None
    is_problem(world.door.post("/policy/versions/999999/restore", {"reason": "x"}), 404, "not-found")
    is_problem(world.door.get("/policy/versions", key=world.key("read", tenant="sales")), 403, "forbidden")


def test_the_policy_as_a_file_comes_back_exactly(world: World) -> None:
    def objects() -> dict[str, list[dict[str, Any]]]:
        return {plural: world.door.get(f"/{plural}").data["items"] for plural in cli.KINDS}

    world.door.post("/pools", {"slug": "gpu", "budget": 9})
    world.door.post("/classes", {"slug": "train", "pool": "gpu", "weight": 2.5, "max_wait_s": 7.5, "preempt": True})
    world.door.post("/tools", {"slug": "crm", "max": 2})
    exported = cli.document(objects())
    assert cli.differences(exported, objects()) == []
    for path in ("classes/train", "pools/gpu", "tools/crm"):
        assert world.door.call("DELETE", f"/{path}").status == 204
    sales = world.door.get("/tenants/sales").data
    world.door.call("PATCH", "/tenants/sales", {"version": sales["version"], "max": 3, "reason": "x"})
    changes = cli.differences(exported, objects())
    assert [change["version"] for change in changes] == [0, 0, sales["version"] + 1, 0]
    made = world.door.post("/policy/apply", {"changes": changes[::-1], "reason": "from the file"})
    assert made.status == 200, made
    assert cli.document(objects()) == exported
    is_problem(world.door.post("/policy/apply", {"changes": changes[:1], "reason": "x"}), 409, "conflict")


def test_a_draft_is_tried_and_not_kept(world: World) -> None:
    world.session()
    world.task()
    change = {"kind": "class", "slug": "background", "version": 1, "set": {"max": 0}}
    found = world.door.post("/policy/preview", {"changes": [change]})
    assert (found.status, found.data["worse"]) == (200, ["class/background", "tenant/sales"])
    assert world.door.get("/classes/background").data["max"] is None
    is_problem(world.door.post("/policy/preview", {"changes": [change], "pool": "nowhere"}), 404, "not-found")
    refused = world.door.post("/policy/preview", {"changes": [{**change, "set": {"min": -1}}]})
    assert refused.fields == ["changes[0].min"]
    is_problem(world.door.post("/policy/preview", {"changes": [change]}, key=world.key("read")), 403, "forbidden")
