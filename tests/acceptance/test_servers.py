"""The web process under both servers: claim, heartbeat, complete, live socket, and an orderly stop for who waits."""

import signal
import threading
import time
from collections.abc import Iterator

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.acceptance import harness

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module", params=["uvicorn", "daphne"])
def product(request: pytest.FixtureRequest) -> Iterator[harness.Product]:
    with harness.running(env={"EVENFLOW_SERVER": request.param}) as running:
        running.ok("POST", "/api/v1/tenants", {"slug": "sales"})
        running.ok("POST", "/api/v1/classes", {"slug": "background"})
        yield running


class Waiting(threading.Thread):
    """A claim that is on its way."""

    def __init__(self, product: harness.Product, name: str) -> None:
        super().__init__(daemon=True)
        worker = {"name": name, "capabilities": [], "slots": 1}
        self.product = product
        self.session: int = product.ok("POST", "/api/v1/workers", worker)["session_id"]
        self.reply: tuple[int, dict[str, object]] = (0, {})
        self.start()

    def run(self) -> None:
        claim = {"session_id": self.session, "max": 1, "wait_s": 60}
        self.reply = self.product.call("POST", "/api/v1/claims", claim, timeout=90)


def test_a_task_lives_and_ends(product: harness.Product) -> None:
    waiting = Waiting(product, "w1")
    task = product.ok("POST", "/api/v1/tasks", {"tenant": "sales", "class": "background", "payload": {"n": 1}})
    waiting.join(30)
    (lease,) = waiting.reply[1]["leases"]  # type: ignore[misc]
    assert lease["task_id"] == task["id"]
    beat = {"session_id": waiting.session, "leases": [{"task_id": lease["task_id"], "token": lease["token"]}]}
    assert product.ok("POST", "/api/v1/heartbeats", beat)["leases"][0]["status"] == "renewed"
    done = product.ok("POST", f"/api/v1/tasks/{task['id']}/complete", {"token": lease["token"], "result": 1})
    assert done == {"state": "succeeded"}
    assert product.ok("GET", f"/api/v1/tasks/{task['id']}")["state"] == "succeeded"


def test_the_live_socket_opens_and_says_why_it_closes(product: harness.Product) -> None:
    address = product.url.replace("http", "ws") + "/ws/live?topic=overview"
    with connect(address, origin=product.url) as socket, pytest.raises(ConnectionClosed) as closed:  # type: ignore[arg-type]
        socket.recv(timeout=20)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4401, "nobody is signed in"


def test_who_waits_is_answered_when_the_server_stops(product: harness.Product) -> None:
    server = product.env["EVENFLOW_SERVER"]
    claims = [Waiting(product, f"stop{n}") for n in range(5)]
    time.sleep(1.0)
    stopping = time.monotonic()
    product.kill("web", signal.SIGTERM)
    for claim in claims:
        claim.join(20)
    took = time.monotonic() - stopping
    if server == "uvicorn":
        assert [reply[0] for reply in (claim.reply for claim in claims)] == [200] * 5
        assert all(claim.reply[1]["leases"] == [] for claim in claims)
    else:
        assert [claim.reply[1].get("type") for claim in claims] == ["unavailable"] * 5
    assert took < 20
    product.wait_for(product.healthy)  # the supervisor has started another one on the same socket
