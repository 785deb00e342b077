"""Several edits at once, the versions of the policy, and the way back to one, over the API."""

import pytest

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
