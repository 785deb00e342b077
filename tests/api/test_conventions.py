"""Conventions of the contract, through both doors: keys, errors, bad text, sizes, unknown fields, addresses."""

from typing import Any

import pytest

from dispatch.conf import limits
from tests.api.conftest import World

pytestmark = pytest.mark.django_db(transaction=True)

TASK = {"tenant": "sales", "class": "background", "payload": 1}


def is_problem(reply: Any, status: int, slug: str, why: Any = None) -> None:
    """The reply is a whole problem document."""
    assert reply.status == status, (why, reply)
    assert reply.headers["content-type"].startswith("application/problem+json"), why
    assert reply.data["type"] == slug, why
    assert reply.data["status"] == status
    assert reply.data["title"]
    assert reply.data["detail"]


def test_without_a_good_key_nothing_is_looked_at(world: World) -> None:
    for key in (None, "", "nonsense", "ef_12345678_secret", "ef__", "x" * 5000):
        for path in ("/tasks", "/claims", "/workers", "/heartbeats", "/completions", "/tasks/1/complete"):
            reply = world.door.post(path, raw=b"{", key=key)
            is_problem(reply, 401, "unauthenticated", (key, path))
            assert reply.headers["www-authenticate"].startswith("Bearer")


def test_a_missing_scope_is_forbidden(world: World) -> None:
    read, submit = world.key("read"), world.key("submit")
    claim = {"session_id": 1, "max": 1, "wait_s": 0}
    for path, body, key in (
        ("/tasks", TASK, read),
        ("/workers", {"name": "w", "capabilities": [], "slots": 1}, submit),
        ("/claims", claim, read),
        ("/heartbeats", {"session_id": 1, "leases": []}, read),
    ):
        is_problem(world.door.post(path, body, key=key), 403, "forbidden", path)


ADDRESSES = [
    ("GET", "/nothing", 404),
    ("GET", "/tasks/x", 404),
    ("POST", "/tasks/-1/complete", 404),
    ("GET", "/tasks/99999999999999999999999999", 404),
    ("GET", "/tasks/9223372036854775808", 404),
    ("GET", "/tasks/0", 404),
    ("DELETE", "/sessions/99999999999999999999999999", 404),
    ("DELETE", "/sessions/12", 404),
    ("GET", "/tasks/1", 404),
    ("GET", "/claims", 405),
    ("PUT", "/tasks", 405),
    ("DELETE", "/tasks", 405),
    ("POST", "/sessions/1", 405),
    ("GET", "/tasks/1/complete", 405),
]


def test_addresses_that_are_not_there(world: World) -> None:
    for method, path, status in ADDRESSES:
        slug = {404: "not-found", 405: "method-not-allowed"}[status]
        is_problem(world.door.call(method, path), status, slug, (method, path))


def test_an_id_out_of_range_is_a_missing_task(world: World) -> None:
    for outcome in ("complete", "release"):
        for task_id in ("123456", "9223372036854775808", "9" * 26, "9" * 5000):
            is_problem(world.door.post(f"/tasks/{task_id}/{outcome}", {"token": 1}), 404, "not-found", task_id[:30])


BAD_TEXT = [
    (b"", "body"),
    (b"{", "body"),
    (b"[]", "body"),
    (b"null", "body"),
    (b"3", "body"),
    (b'"x"', "body"),
    (b"\xff", "body"),
    (b'{"session_id": NaN}', "session_id"),
    (b'{"session_id": 1e400}', "session_id"),
    (b'{"session_id": 9223372036854775808}', "session_id"),
    (b'{"session_id": 1, "session_id": 1}', "session_id"),
    (b'{"claim_id": "\\ud800"}', "claim_id"),
    (b"[" * 5000 + b"]" * 5000, "body"),
]


def test_bad_text_is_422_with_its_place(world: World) -> None:
    for path in ("/claims", "/tasks", "/workers", "/heartbeats", "/completions", "/tasks/1/fail"):
        for raw, field in BAD_TEXT:
            reply = world.door.post(path, raw=raw)
            is_problem(reply, 422, "validation", (path, raw))
            assert field in reply.fields, (path, raw)


def test_other_content_types_are_refused(world: World) -> None:
    for kind in ("text/plain", "multipart/form-data; boundary=x", "application/xml"):
        reply = world.door.post("/tasks", TASK, headers={"content-type": kind})
        is_problem(reply, 422, "validation", kind)
        assert reply.fields == ["body"]


def test_a_body_over_the_limit_is_too_large(world: World) -> None:
    for path in ("/tasks", "/claims"):
        is_problem(world.door.post(path, raw=b" " * (limits().body_bytes + 1)), 413, "too-large", path)


def test_unknown_query_parameters_are_refused(world: World) -> None:
    for path in ("/tasks?x=1", "/tasks?wait_s=1", "/tasks?x=1&x=2", "/tasks?%00="):
        is_problem(world.door.post(path, TASK), 422, "validation", path)


BAD_FILTERS = [
    ("limit=0", "limit"),
    ("limit=1001", "limit"),
    ("limit=x", "limit"),
    ("limit=1&limit=2", "limit"),
    ("cursor=nonsense", "cursor"),
    ("colour=red", "colour"),
    ("state=gone", "state"),
    ("class=nothing", "class"),
    ("min_age_s=-1", "min_age_s"),
    ("min_age_s=nan", "min_age_s"),
    ("order=random", "order"),
]


def test_bad_filters_are_refused_by_name(world: World) -> None:
    for query, field in BAD_FILTERS:
        reply = world.door.get(f"/tasks?{query}")
        is_problem(reply, 422, "validation", query)
        assert reply.fields == [field], query


def test_another_tenants_task_is_a_missing_one(world: World) -> None:
    from dispatch.services import access, policy

    policy.create(access.system("test"), "tenant", "other", {})
    task_id = world.task()
    stranger = world.key(tenant="other")
    hidden = world.door.get(f"/tasks/{task_id}", key=stranger)
    missing = world.door.get("/tasks/123456789", key=stranger)
    is_problem(hidden, 404, "not-found")
    assert hidden.data == missing.data
    for path in (f"/tasks/{task_id}/cancel", f"/tasks/{task_id}/requeue"):
        is_problem(world.door.post(path, {}, key=stranger), 404, "not-found")
