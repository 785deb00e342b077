"""Dispatchers of two pools, agents that finish, and a watcher at once: no budget is ever spent beyond its limit.

Random costs and orders (a seed each); one dispatcher is replaced by a new leader now and then. Agents report at most
what was charged, so settled and reserved together must stay within every limit at every moment.
"""

import random
import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from dispatch.core.types import MICRO
from dispatch.services import budget_watch, budgets, policy
from dispatch.services.finish import finish_many
from dispatch.services.messages import Finish, Finished
from dispatch.store import budgets as ledger
from dispatch.store import db
from tests import fleet
from tests.services.leader import Leader, park
from tests.services.leader import forget as forget_lanes
from tests.services.test_races import together
from tests.services.world import ROOT, make_world

pytestmark = pytest.mark.django_db(transaction=True)
LIMITS = {"all": 40, "critical": 12, "ann": 9}
CYCLES = 25
TOP_UPS = 3


@pytest.fixture(autouse=True)
def world() -> None:
    forget_lanes()
    make_world()
    policy.create(ROOT, "class", "critical-elsewhere", {"pool": "other"})
    for slug, extra in (("all", {}), ("critical", {"class": "critical"}), ("ann", {"user": "ann"})):
        budgets.create(ROOT, "alpha", slug, {"limit": LIMITS[slug], **extra})


def fill(chance: random.Random) -> None:
    for work_class in ("critical", "background", "elsewhere", "critical-elsewhere"):
        for user in ("ann", "bob"):
            for _ in range(8):
                fleet.put(1, work_class=work_class, user=user, cost=chance.choice([0.5, 1, 2, 3.5]))
        fleet.put(4, work_class=work_class, tenant="beta", cost=2)
    for number in range(3):
        park(fleet.join(f"w{number}", slots=8).session_id)
        park(fleet.join(f"o{number}", slots=8, pool="other").session_id)


def lead(pool: str, chance: random.Random, done: threading.Event) -> Callable[[], int]:
    def run() -> int:
        leader, assigned = Leader(pool), 0
        for _ in range(CYCLES):
            assigned += leader.cycle().assigned
            if chance.random() < 0.2:
                leader = Leader(pool)  # a fail-over: nothing but the rows is left
        done.set()
        return assigned

    return run


def work(chance: random.Random, done: threading.Event) -> Callable[[], int]:
    """Deliver some leases and end them for a part of their charge."""

    def run() -> int:
        ended = 0
        while not done.is_set():
            with db.atomic():
                rows = fleet.sql(
                    "UPDATE lease SET delivered_at = now(), expires_at = now() + interval '1 minute' WHERE task_id IN"
                    " (SELECT task_id FROM lease ORDER BY random() LIMIT 3 FOR UPDATE SKIP LOCKED)"
                    " RETURNING task_id, token, charged"
                )
            ends = [
                Finish(
                    caller=fleet.AGENT,
                    task_id=task,
                    token=token,
                    outcome=chance.choice(["complete", "complete", "fail"]),
                    cost=charged * chance.choice([0, 0.3, 1]) / MICRO,
                    error={"message": "boom"},
                )
                for task, token, charged in rows
            ]
            ended += sum(isinstance(answer, Finished) for answer in finish_many(ends))
        return ended

    return run


def operate(done: threading.Event) -> Callable[[], int]:
    """An operator tops up, and the reconciler watches and alerts, in between."""

    def run() -> int:
        given = 0
        while not done.wait(0.05):
            budget_watch.watch()
            if given < TOP_UPS:
                given += 1
                budgets.top_up(ROOT, "alpha", "all", 3, "more")
        return given

    return run


def watch(done: threading.Event) -> Callable[[], list[Any]]:
    def run() -> list[Any]:
        seen = []
        while not done.is_set():
            seen += [(row["slug"], row["amount"], row["settled"] + row["reserved"]) for row in ledger.state()]
        return seen

    return run


@pytest.mark.parametrize("seed", range(3))
def test_no_budget_is_overspent_by_dispatchers_and_agents_at_once(seed: int) -> None:
    chance, done = random.Random(seed), threading.Event()
    fill(chance)
    pools = [lead("default", chance, done), lead("other", chance, done)]
    *_, seen = together(*pools, work(chance, done), work(chance, done), operate(done), watch(done))
    budget_watch.watch()
    told = {row[0] for row in fleet.sql("SELECT subject FROM alert WHERE rule LIKE 'budget%%' AND resolved_at IS NULL")}
    needed = {row["slug"] for row in ledger.state() if row["refused_at"] or row["left"] <= 0.2 * row["amount"]}
    assert told == {f"budget:alpha/{slug}" for slug in needed}
    assert len(seen) > 30
    assert [found for found in seen if found[2] > found[1]] == []
    assert {slug for slug, _, used in seen if used > 0} == set(LIMITS)
    for row in ledger.state():
        assert 0 <= row["settled"] + row["reserved"] <= row["amount"]
    spent = fleet.value(
        "SELECT coalesce(sum(a.cost), 0) FROM attempt a JOIN lane l ON l.id = a.lane_id JOIN tenant t"
        " ON t.id = l.tenant_id WHERE t.slug = 'alpha'"
    ) + fleet.value(
        "SELECT coalesce(sum(charged), 0) FROM lease l JOIN lane a ON a.id = l.lane_id JOIN tenant t"
        " ON t.id = a.tenant_id WHERE t.slug = 'alpha'"
    )
    (whole,) = [row for row in ledger.state() if row["slug"] == "all"]
    assert whole["settled"] + whole["reserved"] == spent, "the ledger is what the attempts cost, to the micro-unit"
    fleet.invariants()
    connection.close()
