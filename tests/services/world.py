"""A small world for the tests of the services: names, callers, tasks, leases made by hand."""

from datetime import timedelta
from typing import Any

from django.db import connection
from django.utils import timezone

from dispatch.models import Lane, Lease, Pool, Task, Tenant, User, Worker, WorkerSession
from dispatch.models.policy import CapSet
from dispatch.services import access, policy
from dispatch.services.messages import Caller, Submitted, TaskSpec
from dispatch.services.submit import submit

ROOT = access.system("test")


def make_world() -> None:
    """Tenants alpha, beta; classes critical 6, interactive 3, background 1 and one in another pool; a tool."""
    for slug in ("alpha", "beta"):
        policy.create(ROOT, "tenant", slug, {})
    for slug, weight in (("critical", 6), ("interactive", 3), ("background", 1)):
        policy.create(ROOT, "class", slug, {"weight": weight})
    policy.create(ROOT, "pool", "other", {})
    policy.create(ROOT, "class", "elsewhere", {"pool": "other"})
    policy.create(ROOT, "tool", "crm", {})


def spec(**fields: Any) -> TaskSpec:
    """A task of alpha's critical class."""
    return TaskSpec(**{"tenant": "alpha", "work_class": "critical", "payload": {"n": 1}} | fields)


def put(**fields: Any) -> Submitted:
    """Submit one task."""
    return submit(ROOT, [spec(**fields)])[0]


def key(*scopes: str, tenant: str | None = None, pool: str | None = None) -> Caller:
    """The caller of an API key, bound as told."""
    return Caller(
        kind="key",
        id=7,
        name="robot",
        scopes=frozenset(scopes),
        tenant_id=Tenant.objects.get(slug=tenant).pk if tenant else None,
        pool_id=Pool.objects.get(slug=pool).pk if pool else None,
    )


def person(role: str = "", view: bool = False, **memberships: str) -> Caller:
    """A signed-in person with a global role and roles in tenants."""
    from dispatch.models import Membership

    user = User.objects.create_user(f"p{User.objects.count()}@example.org", "secret-secret", role=role)
    for tenant, member in memberships.items():
        Membership.objects.create(user=user, tenant=Tenant.objects.get(slug=tenant), role=member, view_payloads=view)
    return access.for_user(user)


def worker_session(name: str = "w1", slots: int = 4) -> WorkerSession:
    """An open session of a worker in the default pool."""
    pool = Pool.objects.get(slug="default")
    worker, _ = Worker.objects.get_or_create(pool=pool, name=name)
    return WorkerSession.objects.create(worker=worker, pool=pool, capset=CapSet.objects.get(names=[]), slots=slots)


def lease(task_id: int, session: WorkerSession | None = None) -> Lease:
    """Hand a queued task out by hand."""
    session = session or worker_session()
    task = Task.objects.get(pk=task_id)
    with connection.cursor() as cursor:
        cursor.execute("SELECT nextval('lease_token_seq')")
        token = cursor.fetchone()[0]
    Task.objects.filter(pk=task_id).update(state=2, queued_at=None)
    now = timezone.now()
    return Lease.objects.create(
        task=task,
        token=token,
        pool_id=task.pool_id,
        lane=Lane.objects.get(pk=task.lane_id),
        session=session,
        delivered_at=now,
        expires_at=now + timedelta(seconds=30),
        attempt=task.starts + 1,
        charged=1_000_000,
    )


def bury(task_id: int, **fields: Any) -> None:
    """Make a task a dead letter by hand."""
    Lease.objects.filter(task_id=task_id).delete()
    values = {"state": 5, "queued_at": None, "finished_at": timezone.now(), "reason": "attempts", "attempts": 3}
    Task.objects.filter(pk=task_id).update(**values | fields)
