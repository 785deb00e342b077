"""Which server and which key, and what goes wrong with them."""

import io
import json
import stat
import sys
from pathlib import Path

import pytest

from tests.agent.commands.world import Run, task
from tests.agent.console import Console, pages, problem
from tests.agent.server import KEY

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
