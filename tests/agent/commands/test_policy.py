"""`evenflow policy export` and `apply`: the policy as a file."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.agent.commands.world import Run
from tests.agent.console import Console, pages, problem

STATE = {"paused": False, "paused_by": None, "ceilings": {}, "version": 3, "created_at": "x", "updated_at": "y"}
LISTS = {
    "pools": [{"slug": "default", "budget": None} | STATE],
    "classes": [{"slug": "batch", "weight": 1.0, "max": None, "pool": "default"} | STATE],
    "tenants": [{"slug": f"t{number:03}", "weight": 1, "max": number} | STATE for number in range(150)],
    "tools": [{"slug": "crm", "max": 2, "cooldown_until": None} | STATE],
}


@pytest.fixture(autouse=True)
def objects(console: Console) -> None:
    for plural, items in LISTS.items():
        console.says["GET", f"/{plural}"] = pages(items)
    console.says["POST", "/policy/apply"] = {"version": 9, "warnings": []}


@pytest.fixture
def file(evenflow: Run, tmp_path: Path) -> Path:
    code, text, _ = evenflow("policy", "export")
    assert code == 0
    (path := tmp_path / "policy.yaml").write_text(text)
    return path


def edit(path: Path, **parts: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | parts))


def test_the_exported_file_applies_without_a_difference(console: Console, evenflow: Run, file: Path) -> None:
    found = json.loads(file.read_text())
    assert found["classes"] == {"batch": {"weight": 1.0, "max": None, "pool": "default"}}
    assert (len(found["tenants"]), found["tools"]) == (150, {"crm": {"max": 2}})
    assert evenflow("policy", "apply", "-f", str(file), "--reason", "r") == (0, "", "no difference\n")
    assert console.bodies("/policy/apply") == []


def test_what_differs_is_sent_as_one_set(console: Console, evenflow: Run, file: Path) -> None:
    edit(file, classes={"batch": {"weight": 2}, "night": {"weight": 0.5}})
    code, text, said = evenflow("policy", "apply", "-f", str(file), "--dry-run")
    assert (code, said) == (0, "2 objects would change\n")
    assert text.splitlines() == ["class/batch: weight 1.0 → 2", "class/night: new", "class/night: weight 0.5"]
    assert evenflow("policy", "apply", "-f", str(file), "--reason", "more")[2] == "2 objects changed\n"
    changes = [
        {"kind": "class", "slug": "batch", "version": 3, "set": {"weight": 2}},
        {"kind": "class", "slug": "night", "version": 0, "set": {"weight": 0.5}},
    ]
    tried, made = console.bodies("/policy/apply")
    assert tried == {"changes": changes, "reason": "dry run", "dry_run": True}
    assert made == {"changes": changes, "reason": "more", "dry_run": False}


def test_refusals_and_warnings_name_the_object(console: Console, evenflow: Run, file: Path) -> None:
    edit(file, classes={"batch": {"weight": -2}}, tools={"crm": {"max": True}})
    errors = [{"field": "changes[1].max", "message": "must be a whole number"}]
    refused = problem(422, "validation", "no", errors=errors)
    console.says["POST", "/policy/apply"] = refused
    code, text, said = evenflow("policy", "apply", "-f", str(file), "--reason", "r")
    assert (code, text) == (65, "") and "tool/crm.max: must be a whole number" in said
    warned = {"version": 9, "warnings": [{"field": "changes[0].weight", "message": "hm"}]}
    console.says["POST", "/policy/apply"] = warned
    assert "warning: class/batch.weight: hm" in evenflow("policy", "apply", "-f", str(file), "--reason", "r")[2]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "a policy is an object of"),
        ('{"class": {}}', "a policy is an object of"),
        ('{"classes": []}', "a policy is an object of"),
        ('{"classes": {"batch": 1}}', "must be an object"),
        ('{"classes": {"batch": {"paused": true}}}', "class/batch: paused cannot be set by a file"),
        ("classes: {batch: {weight: .nan}}", "neither JSON nor YAML"),
        ("classes: {batch: {weight: 2030-01-01}}", "neither JSON nor YAML"),
        ("classes: {batch", "neither JSON nor YAML"),
    ],
)
def test_a_bad_file_is_refused(console: Console, evenflow: Run, tmp_path: Path, text: str, said: str) -> None:
    (path := tmp_path / "p.yaml").write_text(text)
    code, _, told = evenflow("policy", "apply", "-f", str(path), "--dry-run")
    assert code == 65 and said in told
    assert console.bodies("/policy/apply") == []


def test_other_yaml_needs_its_reader(
    console: Console, evenflow: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path := tmp_path / "p.yaml").write_text("# ours\nclasses:\n  batch:\n    weight: 2\n")
    assert "weight 1.0 → 2" in evenflow("policy", "apply", "-f", str(path), "--dry-run")[1]
    monkeypatch.setitem(sys.modules, "yaml", None)
    code, _, said = evenflow("policy", "apply", "-f", str(path), "--dry-run")
    assert code == 65 and "PyYAML" in said


def test_a_reason_and_a_file_are_needed(evenflow: Run, file: Path) -> None:
    assert evenflow("policy", "apply", "-f", str(file))[0] == 2
    assert evenflow("policy", "apply", "-f", "/nowhere", "--dry-run")[0] == 66
