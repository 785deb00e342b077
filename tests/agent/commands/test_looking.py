"""`evenflow tasks`, `get`, `why`, `share`, `workers`, `drain`: what they ask and how they tell it."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from dispatch.agent.cli import changes
from tests.agent.commands.world import Run, task
from tests.agent.console import Console, pages, problem
from tests.agent.server import KEY

# looking


def test_tasks_are_listed_by_search_words(console: Console, evenflow: Run) -> None:
    items = [task(number, reason="gave up", error={"message": "boom\x1b]0;x\x07"}) for number in range(250)]
    console.says["GET", "/tasks"] = pages(items)
    code, text, said = evenflow("tasks", "ls", "state:queued tenant:sales", "age>10m", "--limit", "150")
    assert (code, len(text.splitlines())) == (0, 151)
    assert "the first 150 only" in said
    assert "\x1b" not in text
    assert r"gave up: boom\x1b]0;x\x07" in text
    assert "state=queued&tenant=sales&min_age_s=600.0&limit=100" in console.calls[0].path
    assert len(json.loads(evenflow("tasks", "ls", "--limit", "0", "--json")[1])["items"]) == 250


def test_an_empty_list_is_said(console: Console, evenflow: Run) -> None:
    console.says["GET", "/tasks"] = pages([])
    assert evenflow("tasks", "ls") == (0, "", "no such tasks\n")


def test_get_shows_a_task_with_its_history(console: Console, evenflow: Run) -> None:
    console.says["GET", "/tasks/7"] = task(
        7,
        state="leased",
        payload={"x": 1},
        lease={"worker": "w1", "expires_at": "2030-01-01T00:00:30Z", "progress": {"step": 3, "fraction": 0.5}},
        history=[{"at": "2030-01-01T00:00:00Z", "event": "failed", "attempt": 1, "error": {"message": "boom"}}],
    )
    code, text, _ = evenflow("get", "7")
    assert code == 0
    for part in ("task 7  leased", "w1, until 2030-01-01 00:00:30Z", "step 3, 50%", '{"x": 1}', "attempt 1, boom"):
        assert part in text


@pytest.mark.parametrize(("state", "code"), [("succeeded", 0), ("dead", 1), ("cancelled", 1)])
def test_get_waits_for_the_end(console: Console, evenflow: Run, state: str, code: int) -> None:
    states = iter(["queued", "leased", state])
    console.says["GET", "/tasks/7"] = lambda query, body: task(7, state=next(states))
    assert evenflow("get", "7", "--wait")[0] == code
    assert [call.path for call in console.calls] == ["/api/v1/tasks/7?wait_s=20.0"] * 3


def test_get_gives_up_when_its_time_is_over(console: Console, evenflow: Run) -> None:
    console.says["GET", "/tasks/7"] = task(7)
    assert evenflow("get", "7", "--wait", "0.05s")[0] == 75


def test_why_lists_every_blocker(console: Console, evenflow: Run) -> None:
    console.says["GET", "/tasks/7/why"] = {
        "task_id": 7,
        "state": "queued",
        "startable": True,
        "estimate_s": 95.0,
        "position": {"lane": 4},
        "blockers": [
            {"code": "class_max", "subject": "batch", "value": 8, "limit": 8, "text": "class batch runs 8 of 8"},
            {"code": "tenant_max", "subject": "sales", "value": 3, "limit": 3, "text": None},
        ],
        "holders": [{"tenant": "hr", "running": 5}],
    }
    code, text, _ = evenflow("why", "7")
    assert code == 0
    for part in ("2 reasons", "class batch runs 8 of 8", "sales: 3 of 3", "place 4", "1m35s", "tenant hr: 5 running"):
        assert part in text


def test_a_server_without_the_endpoint_is_said_plainly(evenflow: Run) -> None:
    for words in (["why", "7"], ["pause", "all", "--reason", "x"], ["requeue", "state:dead", "--reason", "x"]):
        code, _, said = evenflow(*words)
        assert code == 66
        assert "this server does not know that address (404 Not Found)" in said


def test_share_tells_who_is_below_and_who_asks_for_nothing(console: Console, evenflow: Run) -> None:
    plain = {"queued": 1, "running": 2, "oldest_age_s": 3.0, "wait_p95_s": None, "share_target": 0.5}
    console.says["GET", "/stats"] = {
        "classes": [
            {"slug": "batch", **plain, "share_achieved": 0.2, "demand": True},
            {"slug": "chat", **plain, "share_achieved": 0.8, "demand": True},
            {"slug": "idle", **plain, "share_achieved": 0.0, "demand": False},
        ],
        "tenants": [{"slug": "sales", "queued": 4, "running": 1, "oldest_age_s": None}],
    }
    code, text, _ = evenflow("share", "--pool", "p", "--window", "5m")
    rows = text.splitlines()
    assert code == 0
    assert "below its share" in rows[1]
    assert rows[2].endswith("ok")
    assert "asks for nothing" in rows[3]
    assert "sales" in text
    assert console.calls[0].path == "/api/v1/stats?pool=p&window_s=300.0"


# steering


def test_workers_are_listed_and_drained_by_name(console: Console, evenflow: Run) -> None:
    left = iter([2, 2, 1, 0])
    plain = {
        "id": 3,
        "state": "live",
        "pool": "default",
        "slots": 4,
        "last_seen_at": "2030-01-01T00:00:00Z",
        "capabilities": ["gpu"],
    }
    console.says["GET", "/workers"] = lambda query, body: {
        "items": [{**plain, "name": "w1", "running": next(left)}, {**plain, "id": 4, "name": "w2"}]
    }
    listed = evenflow("workers")[1]
    assert "2030-01-01 00:00:00Z" in listed
    assert "gpu" in listed
    console.says["PATCH", "/workers/3"] = lambda query, body: {**plain, **body}
    code, text, _ = evenflow("drain", "w1", "--wait")
    assert (code, text) == (0, "w1 is draining and has nothing in hand.\n")
    assert console.bodies("/workers/3") == [{"draining": True}]


def test_drain_needs_one_worker_of_that_name(console: Console, evenflow: Run) -> None:
    console.says["GET", "/workers"] = pages([{"id": n, "name": "w1", "pool": f"p{n}", "running": 0} for n in (1, 2)])
    assert evenflow("drain", "w9")[0] == 66
    code, _, said = evenflow("drain", "w1")
    assert code == 2
    assert "(p1, p2)" in said


def test_changes_tell_every_end_once(console: Console, evenflow: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    at = "2030-01-31T12:00:00Z"
    ends = [task(n, key=f"k{n}", state="dead", reason="max_attempts", error={"message": "boom"}) for n in range(3)]
    ends = [{**end, "finished_at": at} for end in ends]

    def answer(query: dict[str, str], body: Any) -> Any:
        start = int(query.get("cursor", 0))
        assert query.get("tenant") == "sales"
        return {"items": ends[start : start + 2], "next_cursor": str(min(start + 2, 3)), "more": start == 0}

    console.says["GET", "/tasks/changes"] = answer
    code, text, _ = evenflow("changes", "--tenant", "sales")
    assert code == 0 and [line.split()[2] for line in text.splitlines()] == ["0", "1", "2"]
    assert "max_attempts: boom" in text
    told = [json.loads(line) for line in evenflow("changes", "--tenant", "sales", "--json")[1].splitlines()]
    assert [(one["id"], one.get("cursor")) for one in told] == [(0, None), (1, "2"), (2, "3")]
    assert evenflow("changes", "--tenant", "sales", "--cursor", "3", "--json")[1] == ""

    def rest(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(changes.time, "sleep", rest)
    assert evenflow("changes", "--tenant", "sales", "--follow")[0] == 130


def doctor_says(console: Console, **me: Any) -> None:
    now = datetime.now(UTC).isoformat()
    known = {"id": 1, "name": "ci", "scopes": ["read", "work"], "tenant": "sales", "pool": None, "at": now}
    console.says["GET", "/me"] = {**known, **me}
    console.says["GET", "/readyz"] = "ok"


def test_doctor_checks_one_thing_after_the_other(
    console: Console, evenflow: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    doctor_says(console)
    code, text, _ = evenflow("doctor")
    assert code == 0 and text.count("ok ") == 5 and "NO" not in text
    assert "ci, tenant sales only" in text and "read, work; not: submit, operate, manage keys" in text
    assert KEY not in text
    doctor_says(console, at="2020-01-01T00:00:00Z")
    code, text, _ = evenflow("doctor", "--json")
    told = json.loads(text)
    assert (code, told["ok"]) == (1, False)
    assert [(one["name"], one["ok"]) for one in told["checks"]] == [
        ("set-up", True),
        ("server", True),
        ("key", True),
        ("scopes", True),
        ("clock", False),
    ]
    console.says["GET", "/me"] = problem(401, "unauthenticated", "A valid API key is needed")
    code, text, _ = evenflow("doctor")
    assert code == 77 and "evenflow login" in text
    console.says["GET", "/readyz"] = problem(503, "unavailable", "dispatcher")
    doctor_says_later = evenflow("doctor", "--retry-for", "0")
    assert doctor_says_later[0] == 75 and "dispatcher" in doctor_says_later[1]
    monkeypatch.setenv("EVENFLOW_URL", "http://127.0.0.1:1")
    code, text, _ = evenflow("doctor", "--retry-for", "0")
    assert code == 69 and "connection refused" in text
    monkeypatch.delenv("EVENFLOW_KEY")
    assert evenflow("doctor")[0] == 78
