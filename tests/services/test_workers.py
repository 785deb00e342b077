"""Register, goodbye, list."""

import pytest

from dispatch.errors import Forbidden, Invalid, NotFound
from dispatch.services import workers
from tests import fleet

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def world() -> None:
    fleet.world()


def test_a_registration_opens_a_session_and_says_the_pools_times() -> None:
    fleet.sql("UPDATE pool SET lease_ttl_s = 6, heartbeat_every_s = 2, offer_ttl_s = 3")
    made = fleet.join("w1", slots=4, caps=("gpu", "code", "gpu"), version="1.2", labels={"zone": "a"})
    assert (made.lease_ttl_s, made.offer_ttl_s) == (6, 3)
    assert 2 <= made.heartbeat_every_s <= 2.2
    assert fleet.sql("SELECT slots, version, labels->>'zone', api_key_id FROM worker_session") == [(4, "1.2", "a", 1)]
    assert fleet.value("SELECT names FROM capset WHERE id = (SELECT capset_id FROM worker_session)") == ["code", "gpu"]
    assert [row[0] for row in fleet.sql("SELECT slug FROM capability ORDER BY 1")] == ["code", "gpu"]


def test_the_same_name_again_is_the_same_worker_with_a_new_session() -> None:
    one = fleet.join("w1", weight=5)
    two = fleet.join("w1")
    assert one.worker_id == two.worker_id
    assert one.session_id != two.session_id
    assert fleet.value("SELECT weight FROM worker") == 5, "no weight given: it stays"
    fleet.join("w1", weight=2)
    assert fleet.value("SELECT weight FROM worker") == 2


def test_older_sessions_keep_their_leases() -> None:
    one = fleet.held("w1")
    fleet.join("w1")
    assert fleet.status(fleet.beat(one.session, (one.task, one.token))) == ["renewed"]


def test_equal_capability_sets_are_stored_once() -> None:
    fleet.join("w1", caps=("a", "b"))
    fleet.join("w2", caps=("b", "a"))
    assert fleet.value("SELECT count(DISTINCT capset_id) FROM worker_session") == 1


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"slots": 0}, "slots"),
        ({"slots": 1001}, "slots"),
        ({"pool": "nowhere"}, "pool"),
        ({"weight": 0.0}, "weight"),
        ({"weight": float("nan")}, "weight"),
        ({"caps": tuple(f"c{n}" for n in range(65))}, "capabilities"),
    ],
)
def test_bad_fields_are_named(fields: dict[str, object], field: str) -> None:
    with pytest.raises(Invalid) as caught:
        fleet.join(**fields)  # type: ignore[arg-type]
    assert [error["field"] for error in caught.value.errors] == [field]
    assert fleet.sql("SELECT id FROM worker") == []


def test_a_key_bound_to_a_pool_works_there_and_nowhere_else() -> None:
    fleet.policy.create(fleet.ROOT, "pool", "second", {})
    bound = fleet.key(4, pool_id=fleet.pool_id("second"))
    fleet.join("w1", caller=bound)
    assert fleet.value("SELECT pool_id FROM worker") == fleet.pool_id("second")
    with pytest.raises(Invalid, match="no such pool"):
        fleet.join("w2", caller=bound, pool="default")


def test_a_tenants_key_binds_the_session_to_the_tenant() -> None:
    tenant = fleet.value("SELECT id FROM tenant WHERE slug = 'alpha'")
    fleet.join(caller=fleet.key(4, tenant_id=tenant))
    assert fleet.value("SELECT tenant_id FROM worker_session") == tenant


def test_registering_needs_the_scope_work() -> None:
    with pytest.raises(Forbidden):
        fleet.join(caller=fleet.key(4, "read"))


def test_goodbye_releases_everything_at_once_and_counts_nothing() -> None:
    session = fleet.join(slots=3).session_id
    delivered, offered = fleet.put(2)
    fleet.hold(session, delivered)
    fleet.offer(session, offered)
    enqueued = fleet.sql("SELECT enqueued_at FROM task ORDER BY id")
    workers.goodbye(fleet.AGENT, session)
    assert fleet.sql("SELECT state, attempts, handbacks FROM task") == [(1, 0, 1)] * 2
    assert fleet.sql("SELECT enqueued_at FROM task ORDER BY id") == enqueued
    assert fleet.sql("SELECT outcome, counted, reason FROM attempt") == [(6, False, "goodbye")]
    assert fleet.value("SELECT closed_at IS NOT NULL FROM worker_session") is True
    with pytest.raises(NotFound):
        workers.goodbye(fleet.AGENT, session)
    fleet.invariants()


def test_goodbye_is_for_the_owner() -> None:
    session = fleet.join().session_id
    for stranger in (fleet.OTHER, fleet.key(5, "operate", tenant_id=99), fleet.key(6, "operate", pool_id=99)):
        with pytest.raises(NotFound):
            workers.goodbye(stranger, session)
    workers.goodbye(fleet.OPERATOR, session)


def test_the_fleet_is_listed_by_pages_with_what_each_worker_does() -> None:
    one = fleet.held("w1")
    fleet.join("w1", slots=2, caps=("gpu",))
    fleet.join("w2")
    workers.goodbye(fleet.AGENT, fleet.join("w3").session_id)
    fleet.sql("UPDATE worker_session SET last_seen_at = now() - interval '1 hour' WHERE worker_id IN"
              " (SELECT id FROM worker WHERE name = 'w2')")  # fmt: skip
    first = workers.list_workers(fleet.ROOT, limit=2)
    second = workers.list_workers(fleet.ROOT, limit=2, cursor=first.next_cursor)
    assert second.next_cursor is None
    shown = {
        item["name"]: (item["state"], item["slots"], item["running"], item["capabilities"])
        for item in [*first.items, *second.items]
    }
    assert shown == {
        "w1": ("live", 3, 1, ["gpu"]),
        "w2": ("stale", 0, 0, []),
        "w3": ("gone", 0, 0, []),
    }
    assert one.session


def test_a_tenants_key_sees_its_own_workers_only() -> None:
    tenant = fleet.value("SELECT id FROM tenant WHERE slug = 'alpha'")
    bound = fleet.key(4, tenant_id=tenant)
    fleet.join("mine", caller=bound)
    fleet.join("theirs")
    assert [item["name"] for item in workers.list_workers(bound).items] == ["mine"]
