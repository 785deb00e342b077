"""Cost budgets over the API."""

import pytest

from tests.api.conftest import World
from tests.api.planes import Door
from tests.api.test_conventions import is_problem

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.parametrize("world", [Door], indirect=True)]
PATH = "/tenants/sales/budgets"


def test_a_budget_from_its_making_to_its_end(world: World) -> None:
    body = {"slug": "daily", "limit": 10, "window": "day", "timezone": "Europe/Berlin", "class": "background"}
    made = world.door.post(PATH, body)
    assert (made.status, made.data["class"], made.data["state"]["left"]) == (201, "background", 10)
    one = f"{PATH}/daily"
    assert world.door.get(one).data["version"] == 1
    assert [item["slug"] for item in world.door.get(PATH).data["items"]] == ["daily"]
    change = {"version": 1, "reason": "more", "limit": 20}
    assert world.door.call("PATCH", one, change).data["limit"] == 20
    is_problem(world.door.call("PATCH", one, change), 409, "version-conflict")
    topped = world.door.post(f"{one}/top-ups", {"amount": 5, "reason": "release"})
    assert (topped.status, topped.data["state"]["limit"]) == (201, 25)
    over = {"limit": None, "until": "2999-01-01T00:00:00Z", "reason": "x"}
    assert world.door.post(f"{one}/overrides", over).fields == ["until"]
    extra = topped.data["extras"][0]["id"]
    assert world.door.call("DELETE", f"{one}/extras/{extra}").data["state"]["limit"] == 20
    is_problem(world.door.call("DELETE", f"{one}/extras/{extra}"), 404, "not-found")
    theirs = world.key("read", "operate", tenant="sales")
    assert world.door.get(one, key=theirs).status == 200
    is_problem(world.door.call("PATCH", one, change, key=theirs), 403, "forbidden")
    assert world.door.call("DELETE", f"{one}?reason=over").status == 204
    is_problem(world.door.get(one), 404, "not-found")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"slug": "x"}, "limit"),
        ({"slug": "x", "limit": -1}, "limit"),
        ({"slug": "x", "limit": 1, "timezone": "Mars/Base"}, "timezone"),
        ({"slug": "x", "limit": 1, "on_breach": "degrade"}, "degrade_to"),
        ({"slug": "x", "limit": 1, "window": "year"}, "window"),
        ({"slug": "X", "limit": 1}, "slug"),
    ],
)
def test_a_budget_that_makes_no_sense_names_the_field(world: World, body: dict[str, object], field: str) -> None:
    reply = world.door.post(PATH, body)
    is_problem(reply, 422, "validation")
    assert reply.fields == [field]
