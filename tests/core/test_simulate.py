"""The simulate command reads the scenario format and says what came of it."""

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

SCENARIOS = Path(__file__).parent / "scenarios"


def run(*args: str) -> str:
    out = StringIO()
    call_command("simulate", *args, stdout=out)
    return out.getvalue()


def test_it_prints_shares_waits_and_expectations():
    text = run(str(SCENARIOS / "08_rare_capability.json"), "--case", "saturated")
    assert "tenant:rare" in text
    assert "p95" in text
    assert "█" in text
    assert "longest gap" in text
    assert "FAIL" not in text


def test_json_holds_the_whole_report():
    reports = json.loads(run(str(SCENARIOS / "09_hung_worker.json"), "--json"))
    assert reports["crash"]["reclaimed"] == 1


def test_a_policy_that_fails_its_expectations_fails_the_command():
    with pytest.raises(CommandError, match="expectations failed"):
        run(str(SCENARIOS / "04_aging.json"), "--case", "max_wait", "--policy", "strict")


@pytest.mark.parametrize("text", ["", "[]", '{"cases": [{}]}', '{"name": "x", "workers": [], "workload": [1]}'])
def test_what_is_no_scenario_is_said_to_be_none(tmp_path, text):
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(CommandError, match=r"is not (a scenario|JSON)"):
        run(str(path))


def test_a_workload_that_cannot_run_is_said_to_be_wrong(tmp_path):
    path = tmp_path / "bad.json"
    path.write_text('{"name": "x", "workers": [], "horizon": 1, "workload": [{"kind": "never"}]}')
    with pytest.raises(CommandError, match="case x cannot run"):
        run(str(path))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(CommandError, match="cannot read"):
        run(str(tmp_path / "none.json"))
