"""One key's calls are bounded, in both planes; others and people are not touched."""

import pytest

from dispatch.errors import RateLimited
from dispatch.services import access, rates
from tests.api.conftest import World
from tests.api.test_conventions import is_problem
from tests.services.world import key


@pytest.fixture(autouse=True)
def _fresh() -> None:
    rates.reset()


def test_a_bucket_empties_and_fills_with_time(settings: pytest.FixtureRequest) -> None:
    settings.EVENFLOW_API_PER_MINUTE = 60  # type: ignore[attr-defined]
    caller = key("work")
    for _ in range(6):
        rates.spend(caller, 100.0)
    with pytest.raises(RateLimited) as refusal:
        rates.spend(caller, 100.0)
    assert refusal.value.retry_after_s == pytest.approx(1.0)
    rates.spend(caller, 101.0)
    with pytest.raises(RateLimited):
        rates.spend(caller, 101.5)
    for _ in range(100):
        rates.spend(access.system("test"), 101.5)
    settings.EVENFLOW_API_PER_MINUTE = 0  # type: ignore[attr-defined]
    rates.spend(caller, 101.5)


@pytest.mark.django_db(transaction=True)
def test_a_flood_of_one_key_is_answered_429_and_others_go_on(world: World, settings: pytest.FixtureRequest) -> None:
    settings.EVENFLOW_API_PER_MINUTE = 30  # type: ignore[attr-defined]
    flooding, other = world.key("submit", "work"), world.key("submit", "work")
    body = {"tenant": "sales", "class": "background", "payload": 1}
    answers = [world.door.post("/tasks", body, key=flooding) for _ in range(5)]
    assert [answer.status for answer in answers] == [201] * 3 + [429] * 2
    is_problem(answers[-1], 429, "rate-limited")
    assert answers[-1].data["detail"] == "This key may make 30 calls a minute."
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 2
    assert world.door.post("/tasks", body, key=other).status == 201
