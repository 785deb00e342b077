"""`evenflow requeue`, `cancel`, `discard`, `pause`, `keys`, `ack` and the server's own commands."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dispatch.agent.cli import beside
from tests.agent.commands.world import Run, task
from tests.agent.console import Answer, Console, pages, problem


def test_discard_takes_words_only(console: Console, evenflow: Run) -> None:
    console.says["POST", "/bulk"] = {"id": 4, "state": "dry_run", "matched": 2, "done": 0, "skipped": [], "new": 0}
    code, text, said = evenflow("discard", "fingerprint:ab12", "--reason", "hopeless", "--dry-run")
    assert (code, console.bodies("/bulk")) == (
        0,
        [{"action": "discard", "filter": {"fingerprint": "ab12"}, "reason": "hopeless", "dry_run": True}],
    )
    assert "matched 2" in text and "evenflow discard --from 4" in said
    code, _, said = evenflow("discard", "7", "--reason", "x")
    assert code == 2 and "search words" in said
    assert evenflow("discard", "state:dead")[0] == 2


def test_ack_and_the_list_of_alerts(console: Console, evenflow: Run) -> None:
    alert = {"id": 3, "rule": "no_workers", "severity": "critical", "state": "firing", "text": "nobody is there"}
    console.says["GET", "/alerts"] = pages([{**alert, "fired_at": "2030-01-31T12:00:00Z"}])
    code, text, _ = evenflow("alerts")
    assert code == 1 and "nobody is there" in text and "2030-01-31 12:00:00Z" in text
    console.says["POST", "/alerts/3/ack"] = lambda query, body: {**alert, "state": "acknowledged", "body": body}
    code, text, _ = evenflow("ack", "3", "--note", "on my way", "--until", "2031-01-01T00:00:00Z", "--json")
    assert (code, json.loads(text)["body"]) == (0, {"note": "on my way", "until": "2031-01-01T00:00:00Z"})
    console.says["GET", "/alerts"] = pages([])
    assert evenflow("alerts", "--json") == (0, '{"items": []}\n', "")


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
    code, _, said = evenflow("simulate")
    assert (code, started) == (78, [])
    assert "python manage.py simulate" in said
    (tmp_path / "manage.py").touch()
    evenflow("simulate", "--hours", "24")
    assert started[0][1:] == [str(tmp_path / "manage.py"), "simulate", "--hours", "24"]


def test_a_closed_pipe_is_no_error(console: Console) -> None:
    console.says["GET", "/tasks"] = pages([task(number) for number in range(3000)])
    command = f"{sys.executable} -m dispatch.agent.cli tasks ls --limit 0 | head -1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout.startswith("  ID  STATE")
    assert done.stderr == ""
