"""A small world for the API: a tenant, a class, keys; every contract test goes through both doors."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from dispatch.models import Lease, Task
from dispatch.services import access, keys, policy
from tests.api.planes import Door, HotDoor

EVERYTHING = ["submit", "work", "read", "operate", "admin"]


@dataclass
class World:
    """One door with a key of all scopes, and what the tests build with."""

    door: Door

    def key(self, *scopes: str, tenant: str | None = None) -> str:
        """A fresh key."""
        made = keys.create_key(access.system("test"), name="test", scopes=scopes or EVERYTHING, tenant=tenant)
        return str(made["key"])

    def task(self, **fields: Any) -> int:
        """Submit one task; its id."""
        reply = self.door.post("/tasks", {"tenant": "sales", "class": "background", "payload": {"n": 1}, **fields})
        assert reply.status == 201, reply
        return int(reply.data["id"])

    def session(self, name: str = "w1", key: str | None = None, **fields: Any) -> int:
        """Register a worker; its session."""
        body = {"name": name, "capabilities": [], "slots": 4, **fields}
        reply = self.door.post("/workers", body, **({"key": key} if key else {}))
        assert reply.status == 201, reply
        return int(reply.data["session_id"])

    def offer(self, task_id: int, session_id: int) -> None:
        """What the dispatcher does: lease the task to the session."""
        task = Task.objects.get(pk=task_id)
        Task.objects.filter(pk=task_id).update(state=2)
        with connection.cursor() as cursor:
            cursor.execute("SELECT nextval('lease_token_seq')")
            token = cursor.fetchone()[0]
        Lease.objects.create(
            task_id=task_id,
            token=token,
            pool_id=task.pool_id,
            lane_id=task.lane_id,
            session_id=session_id,
            expires_at=timezone.now() + timezone.timedelta(seconds=5),
            charged=1_000_000,
        )

    def lease(self, session_id: int | None = None, **fields: Any) -> dict[str, Any]:
        """A delivered lease of a fresh task, as the claim answered it."""
        session_id = session_id or self.session()
        self.offer(self.task(**fields), session_id)
        reply = self.door.post("/claims", {"session_id": session_id, "max": 1, "wait_s": 0})
        assert reply.status == 200, reply
        (lease,) = reply.data["leases"]
        return {**lease, "session_id": session_id}


@pytest.fixture(params=[Door, HotDoor], ids=["ninja", "hot"])
def world(request: pytest.FixtureRequest, transactional_db: None) -> Iterator[World]:
    """The world behind one of the two doors."""
    system = access.system("test")
    policy.create(system, "tenant", "sales", {})
    policy.create(system, "class", "background", {})
    found = World(request.param())
    found.door.key = found.key()
    yield found
    found.door.close()
