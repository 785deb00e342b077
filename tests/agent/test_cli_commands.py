"""Every command against a server that speaks the contract: what it sends, prints and returns."""

import io
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dispatch.agent.cli import beside, bulk, fleet, main
from tests.agent.console import Answer, Console, pages, problem
from tests.agent.server import KEY

Run = Any


@pytest.fixture
def console() -> Iterator[Console]:
    with Console() as running:
        yield running


@pytest.fixture(autouse=True)
def place(console: Console, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The environment of a user with a key, and an empty home."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("EVENFLOW_URL", console.url)
    monkeypatch.setenv("EVENFLOW_KEY", KEY)
    monkeypatch.setattr(fleet, "POLL_S", 0.01)
    monkeypatch.setattr(bulk, "POLL_S", 0.01)
    return tmp_path / "evenflow" / "config.json"


@pytest.fixture
def evenflow(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command: (exit code, stdout, stderr)."""

    def run(*words: str) -> tuple[int, str, str]:
        code = main(words)
        return (code, *capsys.readouterr())

    return run


def task(number: int, **more: Any) -> dict[str, Any]:
    plain = {"id": number, "state": "queued", "class": "batch", "tenant": "sales", "user": "-", "type": "index"}
    return {**plain, "attempts": 0, "losses": 0, "lease": None, "queue_age_s": 12.5, "error": None, **more}


# login and the place


def login(monkeypatch: pytest.MonkeyPatch, evenflow: Run, key: str, *words: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "stdin", io.StringIO(key))
    return evenflow("login", *words)  # type: ignore[no-any-return]


def test_login_checks_and_stores_for_the_owner_only(
    console: Console, place: Path, evenflow: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    console.says["GET", "/tasks"] = problem(403, "forbidden", "needs read")  # a key for agents is a key
    code, text, _ = login(monkeypatch, evenflow, f"{KEY}\n", "--url", f"{console.url}/")
    assert (code, json.loads(place.read_text())) == (0, {"url": console.url, "key": KEY})
    assert KEY not in text
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    monkeypatch.delenv("EVENFLOW_KEY")
    monkeypatch.delenv("EVENFLOW_URL")
    console.says["GET", "/tasks/7"] = task(7)
    assert evenflow("get", "7")[0] == 0


def test_login_takes_the_ready_file_of_a_server_beside(
    console: Console, place: Path, evenflow: Run, tmp_path: Path
) -> None:
    console.says["GET", "/tasks"] = pages([])
    ready = tmp_path / "ready.json"
    ready.write_text(json.dumps({"url": console.url, "admin_key": KEY, "operator": {}}))
    assert evenflow("login", "--ready-file", str(ready))[0] == 0
    assert json.loads(place.read_text()) == {"url": console.url, "key": KEY}
    ready.write_text("[]")
    assert evenflow("login", "--ready-file", str(ready))[0] == 78
    assert evenflow("login", "--ready-file", str(tmp_path / "missing"))[0] == 66


def test_login_refuses_a_bad_key_and_keeps_the_old_file(
    console: Console, place: Path, evenflow: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert login(monkeypatch, evenflow, KEY, "--url", console.url, "--no-check")[0] == 0
    code, _, said = login(monkeypatch, evenflow, "ef_bad_key", "--url", console.url)
    assert code == 77
    assert "evenflow login" in said
    assert json.loads(place.read_text())["key"] == KEY
    assert login(monkeypatch, evenflow, "", "--url", console.url)[0] == 78
    assert login(monkeypatch, evenflow, "ef_x\x7f", "--url", console.url)[0] == 78
    assert login(monkeypatch, evenflow, KEY, "--url", "ftp://x")[0] == 78


def test_a_stored_key_goes_to_its_own_server_only(
    console: Console, evenflow: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    login(monkeypatch, evenflow, KEY, "--url", "http://elsewhere.example", "--no-check")
    monkeypatch.delenv("EVENFLOW_KEY")
    code, _, said = evenflow("get", "7")
    assert code == 78
    assert "belongs to http://elsewhere.example" in said
    assert console.calls == []


def test_no_key_and_an_unreadable_file_are_said(place: Path, evenflow: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVENFLOW_KEY")
    assert "Run `evenflow login`" in evenflow("workers")[2]
    place.parent.mkdir()
    place.write_text("{")
    code, _, said = evenflow("workers")
    assert code == 78
    assert "cannot be read" in said


def test_a_refused_connection_says_what_to_do(evenflow: Run) -> None:
    code, _, said = evenflow("workers", "--url", "http://127.0.0.1:9", "--retry-for", "0")
    assert code == 69
    assert "http://127.0.0.1:9: nothing answers there" in said
    assert "manage.py up" in said


def test_another_program_at_that_port_is_said(console: Console, evenflow: Run) -> None:
    console.says["GET", "/stats"] = problem(404, "", "Not Found")
    assert "does not know that address" in evenflow("share")[2]


def test_errors_are_json_when_asked(console: Console, evenflow: Run) -> None:
    fields = [{"field": "window_s", "message": "must be at least 1"}]
    console.says["GET", "/stats"] = problem(422, "validation", errors=fields)
    code, text, said = evenflow("share", "--json")
    assert (code, text) == (65, "")
    shown = json.loads(said)
    assert (shown["error"], shown["status"], shown["errors"], shown["exit"]) == ("validation", 422, fields, 65)


@pytest.mark.parametrize("words", [[], ["nothing"], ["get", "x"], ["pause", "planet"], ["tasks", "rm"]])
def test_wrong_usage_exits_with_two(words: list[str], evenflow: Run) -> None:
    with pytest.raises(SystemExit) as caught:
        evenflow(*words)
    assert caught.value.code == 2


# submit


def test_submit_sends_the_fields_and_prints_the_id(console: Console, evenflow: Run) -> None:
    words = "--tenant sales --class batch --type index --cap gpu --cap code --tool crm --cost 2.5 --priority -3 --key k"
    times = "--run-at 2030-01-01T00:00:00Z --max-attempts 2 --max-runtime 10m --progress-timeout 30"
    code, text, _ = evenflow("submit", *words.split(), *times.split(), '{"folder": "/x"}')
    assert (code, text) == (0, "1\n")
    assert console.bodies("/tasks") == [
        {
            "tenant": "sales",
            "class": "batch",
            "type": "index",
            "capabilities": ["gpu", "code"],
            "tools": ["crm"],
            "cost": 2.5,
            "priority": -3,
            "key": "k",
            "run_at": "2030-01-01T00:00:00Z",
            "max_attempts": 2,
            "max_runtime_s": 600.0,
            "progress_timeout_s": 30.0,
            "payload": {"folder": "/x"},
        }
    ]


def test_submit_takes_its_payload_from_a_file_or_stdin(
    console: Console, evenflow: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "p.json").write_text("[1]")
    monkeypatch.setattr(sys, "stdin", io.StringIO('"text"'))
    for given in (f"@{tmp_path}/p.json", "-"):
        assert evenflow("submit", "--tenant", "t", "--class", "c", given)[0] == 0
    assert [body["payload"] for body in console.bodies("/tasks")] == [[1], "text"]
    assert evenflow("submit", "--tenant", "t", "--class", "c", "{oops")[0] == 65
    assert evenflow("submit", "--tenant", "t", "--class", "c", "@missing.json")[0] == 66
    assert evenflow("submit", "--tenant", "t", "{}")[0] == 2


def test_a_known_key_and_warnings_are_noted_beside_the_result(console: Console, evenflow: Run) -> None:
    console.says["POST", "/tasks"] = {
        "id": 7,
        "state": "queued",
        "created": False,
        "lane": 1,
        "warnings": [{"field": "capabilities", "message": "nobody offers gpu"}],
    }
    code, text, said = evenflow("submit", "--tenant", "t", "--class", "c")
    assert (code, text) == (0, "7\n")
    assert "known already" in said
    assert "capabilities: nobody offers gpu" in said


def test_lines_are_submitted_in_calls_of_a_thousand(console: Console, evenflow: Run, tmp_path: Path) -> None:
    rows = [{"class": "batch", "payload": number} for number in range(1001)]
    rows[5]["tenant"] = "hr"
    (tmp_path / "rows").write_text("\n".join(json.dumps(row) for row in rows) + "\n\n")
    code, text, said = evenflow("submit", "--tenant", "sales", "--lines", str(tmp_path / "rows"))
    assert (code, len(text.split()), said) == (0, 1001, "1001 tasks, 1001 of them new\n")
    first, second = console.bodies("/tasks")
    assert (len(first["tasks"]), len(second["tasks"])) == (1000, 1)
    assert [row["tenant"] for row in first["tasks"][4:7]] == ["sales", "hr", "sales"]


def test_a_refused_line_is_named_with_what_went_before(console: Console, evenflow: Run, tmp_path: Path) -> None:
    def answer(query: Any, body: Any) -> Any:
        if body["tasks"][0]["payload"] == 1000:
            errors = [{"field": "tasks[1].class", "message": "there is no such class"}]
            return problem(422, "validation", errors=errors)
        return Answer(201, {"tasks": [{"id": 1, "state": "queued", "created": True, "lane": 1}] * len(body["tasks"])})

    console.says["POST", "/tasks"] = answer
    rows = [json.dumps({"tenant": "t", "class": "c", "payload": number}) for number in range(1002)]
    (tmp_path / "rows").write_text("\n\n".join(rows))
    code, _, said = evenflow("submit", "--lines", str(tmp_path / "rows"))
    assert code == 65
    assert "line 2003: class: there is no such class; 1000 tasks were submitted before" in said


@pytest.mark.parametrize("line", ["{oops", "3", '{"payload": NaN}'])
def test_a_line_that_is_no_task_is_named(console: Console, evenflow: Run, tmp_path: Path, line: str) -> None:
    (tmp_path / "rows").write_text(f'{{"tenant": "t", "class": "c"}}\n{line}\n')
    code, _, said = evenflow("submit", "--lines", str(tmp_path / "rows"))
    assert code == 65
    assert "line 2: " in said
    assert "0 tasks were submitted before" in said
    assert console.bodies("/tasks") == []


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


@pytest.mark.parametrize("verb", ["requeue", "cancel"])
def test_ids_are_handled_one_by_one(console: Console, evenflow: Run, verb: str) -> None:
    console.says["POST", f"/tasks/1/{verb}"] = {"state": "queued"}
    console.says["POST", f"/tasks/2/{verb}"] = problem(409, "conflict", "It is final already.")
    console.says["POST", f"/tasks/3/{verb}"] = {"state": "leased", "cancel_requested": True}
    code, text, _ = evenflow(verb, "1", "2", "3", "--reason", "mended")
    assert code == 65
    assert text.splitlines() == [
        "1  queued",
        "2  refused: It is final already.",
        "3  cancel requested, its agent will hear",
    ]
    assert [call.body for call in console.calls] == [{"reason": "mended"}] * 3


def test_a_refused_key_ends_it_at_once(console: Console, evenflow: Run) -> None:
    console.says["POST", "/tasks/1/requeue"] = problem(403, "forbidden", "needs operate")
    assert evenflow("requeue", "1", "2")[0] == 77
    assert len(console.calls) == 1


def test_words_become_a_paced_bulk_job_that_is_watched(console: Console, evenflow: Run) -> None:
    job = {"id": 5, "matched": 40, "done": 0, "skipped": [], "new": 0, "state": "running"}
    states = iter(
        [{**job, "done": 20}, {**job, "done": 39, "skipped": [{"task_id": 9, "reason": "not dead"}], "state": "done"}]
    )
    console.says["POST", "/bulk"] = Answer(202, job)
    console.says["GET", "/bulk/5"] = lambda query, body: next(states)
    code, text, _ = evenflow(
        "requeue", "state:dead", "class:batch", "--rate", "5/s", "--canary", "3", "--reason", "mended"
    )
    assert code == 0
    assert "matched 40, done 39, skipped 1" in text
    assert "9  not dead" in text
    assert console.bodies("/bulk") == [
        {
            "action": "requeue",
            "filter": {"state": "dead", "class": "batch"},
            "reason": "mended",
            "rate_per_s": 5.0,
            "canary": 3,
        }
    ]


def test_a_dry_run_freezes_and_from_runs_exactly_that(console: Console, evenflow: Run) -> None:
    job = {"id": 5, "matched": 40, "done": 0, "skipped": [], "new": 0, "state": "dry_run"}
    console.says["POST", "/bulk"] = lambda query, body: Answer(
        202, {**job, "state": "aborted" if "from" in body else "dry_run"}
    )
    code, _, said = evenflow("requeue", "state:dead", "--dry-run", "--reason", "look")
    assert code == 0
    assert "evenflow requeue --from 5" in said
    assert evenflow("requeue", "--from", "5", "--max-in-flight", "2")[0] == 1
    assert console.bodies("/bulk")[0]["dry_run"] is True
    assert console.bodies("/bulk")[1] == {"from": 5, "max_in_flight": 2}


@pytest.mark.parametrize(
    "words",
    [[], ["1", "state:dead"], ["state:dead"], ["1", "--dry-run"], ["1", "--from", "5"], ["dead", "--reason", "x"]],
)
def test_what_requeue_does_not_take(console: Console, evenflow: Run, words: list[str]) -> None:
    assert evenflow("requeue", *words)[0] == 2
    assert console.calls == []


def test_pause_and_resume(console: Console, evenflow: Run) -> None:
    console.says["POST", "/pause"] = console.says["POST", "/resume"] = {}
    until = "2030-01-01T00:00:00Z"
    assert evenflow("pause", "class", "batch", "--reason", "flood", "--until", until)[1].startswith(
        "class batch: paused"
    )
    assert evenflow("resume", "all", "--reason", "over")[1] == "all: resumed.\n"
    assert console.bodies("/pause") == [{"scope": "class", "slug": "batch", "reason": "flood", "until": until}]
    assert console.bodies("/resume") == [{"scope": "all", "reason": "over"}]
    assert evenflow("pause", "class", "--reason", "x")[0] == 2
    assert evenflow("pause", "all", "batch", "--reason", "x")[0] == 2


def test_keys(console: Console, evenflow: Run) -> None:
    made = {
        "id": 4,
        "key": "ef_abcdefgh_secret",
        "prefix": "abcdefgh",
        "name": "ci",
        "scopes": ["submit"],
        "tenant": "t",
    }
    console.says["POST", "/keys"] = console.says["POST", "/keys/4/rotate"] = Answer(201, made)
    console.says["GET", "/keys"] = pages([{**made, "expires_at": "2030-01-01T00:00:00Z"}, {**made, "expires_at": None}])
    console.says["DELETE", "/keys/4"] = Answer(204, None)
    code, text, _ = evenflow("keys", "create", "ci", "--scope", "submit", "--tenant", "t")
    assert (code, text) == (0, "ef_abcdefgh_secret\n")
    assert console.bodies("/keys") == [{"name": "ci", "scopes": ["submit"], "tenant": "t"}]
    assert "2030-01-01" in evenflow("keys", "ls")[1]
    assert evenflow("keys", "rotate", "4", "--overlap", "1d")[1] == "ef_abcdefgh_secret\n"
    assert console.bodies("/rotate") == [{"overlap_s": 86400.0}]
    assert json.loads(evenflow("keys", "revoke", "4", "--json")[1]) == {"id": 4, "revoked": True}


# the server's own commands, and the process


def test_management_commands_run_only_beside_a_checkout(
    evenflow: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda program, words: started.append(words))
    monkeypatch.setattr(beside, "MANAGE", tmp_path / "manage.py")
    code, _, said = evenflow("doctor")
    assert (code, started) == (78, [])
    assert "python manage.py doctor" in said
    (tmp_path / "manage.py").touch()
    evenflow("simulate", "--hours", "24")
    assert started[0][1:] == [str(tmp_path / "manage.py"), "simulate", "--hours", "24"]


def test_a_closed_pipe_is_no_error(console: Console) -> None:
    console.says["GET", "/tasks"] = pages([task(number) for number in range(3000)])
    command = f"{sys.executable} -m dispatch.agent.cli tasks ls --limit 0 | head -1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout.startswith("  ID  STATE")
    assert done.stderr == ""
