"""Fairness on real processes: an edit bites at once behind two API processes, and a killed leader forgets nothing."""

import os
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.acceptance.harness import ROOT, Product
from tests.acceptance.ledger import Ledger
from tests.acceptance.world import Session, prepare, submit

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]

SLOTS = 8


@pytest.fixture(scope="module")
def other(product: Product) -> Iterator[Product]:
    """A second API process of the same product, on its own port."""
    prepare(product)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "daphne", "-b", "127.0.0.1", "-p", str(port), "-v", "0"]
    env = product.env | {"EVENFLOW_DATA": str(product.data)}
    process = subprocess.Popen([*command, "controlplane.asgi:application"], cwd=ROOT, env=env)
    second = Product(product.data)
    second.url, second.admin_key = f"http://127.0.0.1:{port}", product.admin_key
    try:
        second.wait_for(second.healthy)
        yield second
    finally:
        process.terminate()
        process.wait(20)


class Agent:
    """Takes what it gets; keeps what it holds until it is told to finish."""

    def __init__(self, product: Product) -> None:
        self.product = product
        self.session = Session(product, f"agent-{os.urandom(4).hex()}", slots=SLOTS)
        self.held: list[dict[str, Any]] = []
        self.starts: list[str] = []
        self.most: Counter[str] = Counter()

    def turn(self) -> None:
        """Fill the free slots, then finish everything."""
        self.held += self.session.claim(SLOTS, wait_s=2)
        running = Counter(lease["tenant"] for lease in self.held)
        self.starts += [lease["tenant"] for lease in self.held]
        self.most |= running
        outcomes = [{"task_id": x["task_id"], "token": x["token"], "outcome": "complete", "cost": 1} for x in self.held]
        self.product.ok("POST", "/api/v1/completions", {"outcomes": outcomes})
        self.held.clear()

    def take(self, starts: int) -> Counter[str]:
        """Whose the next starts are."""
        begin = len(self.starts)
        self.most.clear()
        while len(self.starts) < begin + starts:
            self.turn()
        return Counter(self.starts[begin : begin + starts])


def test_h04_edits_bite_at_once_on_queued_work_and_show_everywhere(product: Product, other: Product) -> None:
    submit(product, *[{"tenant": tenant, "cost": 1} for tenant in ("alpha", "beta") for _ in range(250)])
    agent = Agent(product)
    assert 19 <= agent.take(48)["beta"] <= 29
    version = other.ok("GET", "/api/v1/tenants/beta")["version"]
    other.ok("PATCH", "/api/v1/tenants/beta", {"version": version, "weight": 3, "reason": "more"})
    shares = agent.take(80)
    assert 0.68 <= shares["beta"] / 80 <= 0.82, shares
    other.patch("tenants", "alpha", max=1)
    shares = agent.take(40)
    assert agent.most["alpha"] == 1, "never two of them at a time"
    assert shares["alpha"] > 0
    for one in (product, other):
        shown = {slug: one.ok("GET", f"/api/v1/tenants/{slug}") for slug in ("alpha", "beta")}
        assert (shown["alpha"]["max"], shown["beta"]["weight"]) == (1, 3)
    agent.session.goodbye()


def test_a_killed_leader_forgets_nothing(product: Product, other: Product) -> None:
    """Weights 3:1 hold across the change of leaders; the accounts go on from where they were."""
    product.patch("tenants", "alpha", max=None)
    ledger = Ledger(product)
    submit(product, *[{"tenant": tenant, "cost": 1} for tenant in ("alpha", "beta") for _ in range(100)])
    agent = Agent(product)
    before = agent.take(40)
    accounts = {row["node"]: row["data"]["vt"] for row in ledger.rows("select node, data from share_account")}
    epoch = ledger.one("select epoch from pool_leader")["epoch"]
    product.kill("dispatcher")
    after = agent.take(40)
    assert ledger.one("select epoch from pool_leader")["epoch"] > epoch
    for shares in (before, after):
        assert 0.65 <= shares["beta"] / 40 <= 0.85, (before, after)
    later = {row["node"]: row["data"]["vt"] for row in ledger.rows("select node, data from share_account")}
    assert accounts.items() and all(later[node] >= vt for node, vt in accounts.items() if node in later)
    agent.session.goodbye()
