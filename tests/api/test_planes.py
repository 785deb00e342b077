"""The hot plane and ninja give the same answers: one script of good and bad requests, sent through both."""

from typing import Any

import pytest

from dispatch.services import access, policy
from tests.api import test_agents as agents
from tests.api import test_conventions as conventions
from tests.api import test_tasks as tasks
from tests.api.conftest import World
from tests.api.planes import Door, HotDoor

# the interval of heartbeats depends on the session's id
FLEETING = {"id", "task_id", "worker_id", "session_id", "lane", "token", "expires_at", "heartbeat_every_s"}


def plain(value: Any) -> Any:
    """An answer without the ids and times that differ between two runs."""
    if isinstance(value, dict):
        return {key: "…" if key in FLEETING else plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def requests(world: World, key: str) -> list[tuple[str, str, dict[str, Any]]]:
    """(method, path, options) of everything that the hot plane serves, good and bad."""
    good = world.lease(payload={"a": [1]})
    lost, failed, released = world.lease(), world.lease(), world.lease()
    session = good["session_id"]
    claim = {"session_id": session, "max": 1, "wait_s": 0}
    sent: list[tuple[str, str, dict[str, Any]]] = [
        ("POST", "/tasks", {"body": conventions.TASK}),
        ("POST", "/tasks", {"body": {"tasks": [conventions.TASK, {**conventions.TASK, "key": key}]}}),
        ("POST", "/tasks", {"body": {**conventions.TASK, "key": key}}),
        ("POST", "/tasks", {"body": {**conventions.TASK, "key": key, "payload": "other"}}),
        ("POST", "/tasks", {"body": {**conventions.TASK, "payload": "x" * 2**20}}),
        ("POST", "/workers", {"body": agents.WORKER}),
        ("POST", "/claims", {"body": claim}),
        ("POST", "/claims", {"body": {**claim, "session_id": 10**15}}),
        ("POST", "/heartbeats", {"body": {"session_id": session, "leases": []}}),
        (
            "POST",
            "/heartbeats",
            {"body": {"session_id": session, "leases": [{"task_id": good["task_id"], "token": good["token"]}]}},
        ),
        ("POST", f"/tasks/{good['task_id']}/complete", {"body": {"token": good["token"], "claim": claim}}),
        ("POST", f"/tasks/{good['task_id']}/complete", {"body": {"token": good["token"]}}),
        ("POST", f"/tasks/{lost['task_id']}/complete", {"body": {"token": 2**62}}),
        ("POST", f"/tasks/{failed['task_id']}/fail", {"body": {"token": failed["token"], "error": {"message": "\0"}}}),
        ("POST", f"/tasks/{released['task_id']}/release", {"body": {"token": released["token"], "reason": "\0"}}),
        ("POST", "/completions", {"body": {"outcomes": [{"task_id": 1, "token": 2**62, "outcome": "fail"}]}}),
        ("DELETE", "/sessions/99999999999999999999", {}),
        ("DELETE", f"/sessions/{session}", {}),
        ("DELETE", f"/sessions/{session}", {}),
    ]
    for path in ("/claims", "/tasks", "/workers", "/heartbeats", "/completions", "/tasks/1/fail", "/tasks/1/release"):
        sent += [("POST", path, {"raw": raw}) for raw, _ in conventions.BAD_TEXT]
        sent += [("POST", path, {"raw": b"{}", "headers": {"content-type": "text/plain"}})]
        sent += [("POST", path, {"body": {}, "key": key}) for key in (None, "ef_12345678_wrong")]
        sent += [("POST", path + "?x=1&y=%F0%9F%98%80", {"body": {}})]
        sent += [(method, path, {}) for method in ("GET", "PUT", "PATCH") if path not in {"/tasks", "/workers"}]
    sent += [("POST", "/tasks?x=1", {"body": conventions.TASK})]
    sent += [("POST", "/tasks", {"body": {**conventions.TASK, **change}}) for change, _ in tasks.BAD]
    sent += [("POST", "/workers", {"body": {**agents.WORKER, **change}}) for change, _ in agents.BAD_WORKERS]
    sent += [("POST", "/claims", {"body": {**claim, **change}}) for change, _ in agents.BAD_CLAIMS]
    sent += [("POST", "/heartbeats", {"body": {"session_id": 1, "leases": bad}}) for bad, _ in agents.BAD_BEATS]
    sent += [("POST", f"/tasks/1/{end}", {"body": {"token": 1, **change}}) for end, change, _ in agents.BAD_ENDS]
    return sent


@pytest.mark.django_db(transaction=True)
def test_both_planes_answer_alike() -> None:
    system = access.system("test")
    policy.create(system, "tenant", "sales", {})
    policy.create(system, "class", "background", {})
    doors = [Door(), HotDoor()]
    answers: list[list[tuple[Any, ...]]] = []
    for number, door in enumerate(doors):
        world = World(door)
        door.key = world.key()
        answers.append([])
        for method, path, options in requests(world, f"key {number}"):
            reply = door.call(method, path, **options)
            kept = {name: reply.headers.get(name) for name in ("content-type", "retry-after", "www-authenticate")}
            answers[-1].append((method, path, reply.status, kept, plain(reply.data)))
        door.close()
    for ninja, hot in zip(*answers, strict=True):
        assert hot[2:] == ninja[2:], (ninja, hot)
    assert {status for *_, status, _, _ in answers[0]} >= {200, 201, 204, 401, 404, 405, 409, 413, 422}
