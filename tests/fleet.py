"""A small world for tests of leases: tenants, classes, keys, workers, tasks, and a dispatcher that does as told."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from dispatch import events
from dispatch.services import access, claim, finish, heartbeat, policy, workers
from dispatch.services.messages import (
    Beat,
    BeatAnswer,
    Caller,
    ClaimAnswer,
    ClaimRequest,
    DeliveredLease,
    Finish,
    Finished,
    HeartbeatRequest,
    Progress,
    Registered,
    TaskSpec,
    WorkerSpec,
)
from dispatch.services.submit import submit
from dispatch.store import db

ROOT = access.system("test")


def key(id_: int, *scopes: str, tenant_id: int | None = None, pool_id: int | None = None) -> Caller:
    """A caller as services/access.py makes one from an API key."""
    scopes = scopes or ("work", "read", "submit")
    return Caller(kind="key", id=id_, name=f"key{id_}", scopes=frozenset(scopes), tenant_id=tenant_id, pool_id=pool_id)


AGENT = key(1)
OTHER = key(2)
OPERATOR = key(3, "operate", "read")


def world(tenants: Sequence[str] = ("alpha", "beta"), classes: Sequence[str] = ("critical", "background")) -> None:
    """Tenants and classes with their defaults in the pool `default`."""
    for slug in tenants:
        policy.create(ROOT, "tenant", slug, {})
    for slug in classes:
        policy.create(ROOT, "class", slug, {})


def sql(text: str, *params: Any) -> list[tuple[Any, ...]]:
    """Look at rows, or move them."""
    with connection.cursor() as cursor:
        cursor.execute(text, params)
        return list(cursor.fetchall()) if cursor.description else []


def value(text: str, *params: Any) -> Any:
    """The first column of the first row."""
    return sql(text, *params)[0][0]


def age_samples(seconds: float) -> None:
    """All samples are so much older; by a leap to long ago, since no two of a line may ever meet."""
    sql("UPDATE queue_sample SET at = at - interval '1000 days' - make_interval(secs => %s)", seconds)
    sql("UPDATE queue_sample SET at = at + interval '1000 days'")


def pool_id(slug: str = "default") -> int:
    return int(value("SELECT id FROM pool WHERE slug = %s", slug))


def put(count: int = 1, **fields: Any) -> list[int]:
    """Submit tasks of tenant alpha, class critical unless told otherwise; their ids."""
    given = {"tenant": "alpha", "work_class": "critical", "payload": {"n": 1}} | fields
    return [answer.id for answer in submit(ROOT, [TaskSpec(**given) for _ in range(count)])]


def join(
    name: str = "w1", slots: int = 1, caller: Caller = AGENT, caps: Sequence[str] = (), **fields: Any
) -> Registered:
    """Register a worker."""
    spec = {"name": name, "pool": None, "capabilities": tuple(caps), "slots": slots} | fields
    return workers.register(caller, WorkerSpec(**spec))


def offer(session_id: int, *task_ids: int, charged: int = 1_000_000) -> None:
    """Grant these tasks to a session as the dispatcher does."""
    grant(task_ids, session_id, charged)


def grant(task_ids: Sequence[int], session_id: int, charged: int = 1_000_000) -> bool:
    """One grant statement of the dispatcher; whether all could be started."""
    params = {
        "task_ids": list(task_ids),
        "session_ids": [session_id] * len(task_ids),
        "charges": [charged] * len(task_ids),
        "tiers": ["W"] * len(task_ids),
        "pool_id": pool_id(),
        "offer_ttl_s": 5.0,
        "channel": events.SESSION,
        "payloads": [],
    }
    return bool(db.tuples("grant_leases", params)[0][0])


def ask(session_id: int, most: int = 1000, wait_s: float = 0, caller: Caller = AGENT, **fields: Any) -> Any:
    """One claim: its answer or error."""
    given = {"caller": caller, "session_id": session_id, "max": most, "wait_s": wait_s} | fields
    return claim.claim_many([ClaimRequest(**given)])[0]


def hold(session_id: int, *task_ids: int, caller: Caller = AGENT) -> list[DeliveredLease]:
    """Offer tasks to a session and let it claim them."""
    offer(session_id, *task_ids)
    answer = ask(session_id, caller=caller)
    assert isinstance(answer, ClaimAnswer), answer
    return answer.leases


@dataclass(frozen=True)
class Held:
    """One task held by one fresh worker."""

    session: int
    task: int
    token: int


def held(name: str = "w1", caller: Caller = AGENT, **fields: Any) -> Held:
    """Submit one task, register a worker, deliver the task to it."""
    session = join(name, caller=caller).session_id
    (task,) = put(**fields)
    (lease,) = hold(session, task, caller=caller)
    return Held(session, task, lease.token)


def beat(session_id: int, *leases: tuple[int, int], caller: Caller = AGENT, progress: Progress | None = None) -> Any:
    """One heartbeat: the answers of its leases, or the error."""
    beats = tuple(Beat(task_id=task, token=token, progress=progress) for task, token in leases)
    answer = heartbeat.heartbeat_many([HeartbeatRequest(caller=caller, session_id=session_id, beats=beats)])[0]
    return answer if isinstance(answer, Exception) else answer.leases


def status(answer: list[BeatAnswer]) -> list[str]:
    return [lease.status for lease in answer]


def end(outcome: str, task_id: int, token: int, caller: Caller = AGENT, **fields: Any) -> Any:
    """One complete, fail or release: Finished or the error."""
    if outcome == "fail":
        fields.setdefault("error", {"message": "boom"})
    return finish.finish_many([Finish(caller=caller, task_id=task_id, token=token, outcome=outcome, **fields)])[0]


def ended(outcome: str, task_id: int, token: int, **fields: Any) -> str:
    """The same where it has to be accepted: the task's state."""
    answer = end(outcome, task_id, token, **fields)
    assert isinstance(answer, Finished), answer
    return answer.state


def state(task_id: int) -> int:
    return int(value("SELECT state FROM task WHERE id = %s", task_id))


def invariants() -> None:
    """I1: leased exactly when one lease names it. I2: counted depths equal the rows."""
    wrong = sql(
        "SELECT t.id, t.state, l.task_id FROM task t FULL JOIN lease l ON l.task_id = t.id"
        " WHERE (t.state = 2) IS DISTINCT FROM (l.task_id IS NOT NULL)"
    )
    assert wrong == [], f"leased tasks and leases disagree: {wrong}"
    drift = sql(
        "SELECT lane_id, sum(q), sum(s), sum(h), sum(d) FROM ("
        " SELECT lane_id, queued q, scheduled s, held h, dead d FROM lane_depth"
        " UNION ALL SELECT lane_id, queued, scheduled, held, dead FROM lane_delta"
        " UNION ALL"
        " SELECT lane_id, -(state = 1)::int, -(state = 0)::int, -(state = 3)::int, -(state = 5)::int FROM task"
        ") x GROUP BY lane_id HAVING sum(q) <> 0 OR sum(s) <> 0 OR sum(h) <> 0 OR sum(d) <> 0"
    )
    assert drift == [], f"lane counts drifted: {drift}"
