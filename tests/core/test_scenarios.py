"""Worlds with expectations from theory, run through our own simulator and the core that dispatches for real."""

import json
from pathlib import Path

import pytest

from dispatch.core.policies import registry
from dispatch.core.sim import check, load, simulate
from tests.core import oracle_adapter

FILES = sorted((Path(__file__).parent / "scenarios").glob("*.json"))
CASES = [
    pytest.param(scenario, id=f"{path.stem}-{scenario.name}")
    for path in FILES
    for scenario in load(json.loads(path.read_text()))
]


@pytest.mark.parametrize("scenario", CASES)
def test_expectations_hold_under_the_fair_policy(scenario):
    report = simulate(scenario, registry["fair"])
    failed = [check for check in check(scenario, report) if not check.holds]
    assert failed == [], report["violation_log"]


def scenario(file: str, case: str):
    document = json.loads((Path(__file__).parent / "scenarios" / f"{file}.json").read_text())
    return next(s for s in load(document) if s.name == case)


@pytest.mark.parametrize(
    ("file", "case"),
    [
        ("01_weights_631", "equal_durations"),
        ("04_aging", "max_wait"),
        ("07_long_vs_short", "honest"),
        ("11_burst_tenant", "million"),
    ],
)
def test_strict_priority_fails_where_fairness_is_expected(file, case):
    """The control: these expectations can fail."""
    world = scenario(file, case)
    report = simulate(world, registry["strict"])
    assert not all(check.holds for check in check(world, report))
    assert report["violations"] == {"cap": 0, "invalid": 0, "work_conservation": 0}


def test_the_same_scenario_gives_the_same_report():
    world = scenario("08_rare_capability", "spare")
    assert simulate(world, registry["fair"]) == simulate(world, registry["fair"])


def test_a_restart_in_every_cycle_changes_nothing():
    """Accounts stored and reloaded after each cycle give the same run as accounts kept in memory."""
    from dispatch.core.memory import Memory

    def forgetful(snapshot, memory):
        rows = memory.dump()
        again = Memory.load(rows.nodes, rows.learned, rows.scalars)
        plan = registry["fair"](snapshot, again)
        memory.root, memory.lanes, memory.learned = again.root, again.lanes, again.learned
        memory.types, memory.scalars = again.types, again.scalars
        return plan

    world = scenario("10_poison_task", "poison_flood")
    assert simulate(world, forgetful) == simulate(world, registry["fair"])


def test_the_adapter_speaks_plain_json():
    snapshot = {
        "now": 10.0,
        "config": {"global_budget": 2, "classes": {"a": {"weight": 1}}},
        "workers": [{"id": "w", "slots": 2, "free": 2, "caps": [], "weight": 1, "alive": True}],
        "lanes": [
            {
                "class": "a",
                "tenant": "t",
                "user": "u",
                "caps": [],
                "tools": [],
                "queued": 3,
                "heads": [{"id": f"t{i}", "enqueued_at": 1.0, "est": 2.5, "attempts": 0} for i in range(2)],
            }
        ],
        "running": [],
        "finished": [],
    }
    answer = oracle_adapter.plan(snapshot, {})
    assert answer["assign"] == [["t0", "w"], ["t1", "w"]]
    assert json.loads(json.dumps(answer["memory"])) == answer["memory"]
