"""`evenflow submit`: fields, files, lines by the thousand."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.agent.commands.world import Run
from tests.agent.console import Answer, Console, problem

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
