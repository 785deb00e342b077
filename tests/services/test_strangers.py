"""Case H24: as a department's admin, and with an agent key bound to it, against everything of another department.

The answer is the one of an id or name that does not exist, nothing changes, and no name or number of the other appears.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

from dispatch.errors import EvenflowError, Invalid, LeaseLost, NotFound
from dispatch.models import Tenant
from dispatch.services import (
    alerts,
    audit,
    budgets,
    cancel,
    changes,
    dead_letters,
    edit_task,
    explain,
    keys,
    overview,
    policy,
    quota_requests,
    requeue,
    stats,
    submit,
    task_list,
    tasks,
    tenant_limits,
    workers,
)
from dispatch.services.messages import Caller
from tests import fleet
from tests.services.leader import forget as forget_lanes
from tests.services.world import ROOT, bury, key, make_world, person, spec

pytestmark = pytest.mark.django_db
THEIRS = "beta"
WORD = "unicorn"  # occurs only in the other department
NUMBER = 777_123

Asks = Callable[[Caller, int], Any]


@pytest.fixture(params=["admin", "agent"])
def stranger(request: pytest.FixtureRequest) -> Caller:
    forget_lanes()
    make_world()
    if request.param == "admin":
        return person(alpha="admin", view=True)
    return key("submit", "work", "read", "operate", tenant="alpha")


def theirs() -> int:
    """A task of the other department, with everything around it that could leak."""
    task, dead = fleet.put(2, tenant=THEIRS, payload={WORD: 1}, type=WORD, user=WORD)
    bury(dead, error={"message": WORD}, reason=WORD)
    tenant_limits.put(ROOT, THEIRS, "user", WORD, {"max": 3})
    budgets.create(ROOT, THEIRS, WORD, {"limit": 5})
    keys.create_key(ROOT, name=WORD, scopes=["read"], tenant=THEIRS)
    quota_requests.create(ROOT, THEIRS, {"max": NUMBER}, {}, WORD)
    return task


BY_ID: dict[str, Asks] = {
    "read": lambda who, task: tasks.get_task(who, task),
    "why": lambda who, task: explain.why(who, task),
    "cancel": lambda who, task: cancel.cancel(who, task, "x"),
    "requeue": lambda who, task: requeue.requeue(who, task, "x"),
    "edit": lambda who, task: edit_task.edit_task(who, task, {"priority": 1}, "x"),
}
BY_NAME: dict[str, Callable[[Caller, str], Any]] = {
    "tenant": lambda who, slug: policy.get(who, "tenant", slug),
    "quota": lambda who, slug: policy.patch(who, "tenant", slug, 1, {"max": 1}, "x"),
    "user": lambda who, slug: tenant_limits.put(who, slug, "user", WORD, {"max": 1}),
    "class limit": lambda who, slug: tenant_limits.put(who, slug, "class", "critical", {"max": 1}),
    "budgets": lambda who, slug: budgets.list_budgets(who, slug),
    "budget": lambda who, slug: budgets.get(who, slug, WORD),
    "request": lambda who, slug: quota_requests.create(who, slug, {"max": 5}, {}, "x"),
    "requests": lambda who, slug: quota_requests.list_requests(who, tenant=slug),
    "tasks": lambda who, slug: task_list.list_tasks(who, {"tenant": slug}, 10, None),
    "changes": lambda who, slug: changes.list_changes(who, None, 10, slug),
    "audit": lambda who, slug: audit.list_audit(who, filters={"tenant": slug}),
    "submit": lambda who, slug: submit.submit(who, [spec(tenant=slug)], batch=False),
}


def refusal(call: Callable[[], Any]) -> tuple[type[EvenflowError], str]:
    """What a call was refused with; a list that is simply empty is no refusal, but tells nothing either."""
    try:
        found = call()
    except EvenflowError as error:
        return NotFound if isinstance(error, NotFound) else type(error), error.detail
    assert getattr(found, "items", None) == [], found
    return NotFound, ""


@pytest.mark.parametrize("verb", list(BY_ID))
def test_by_id_it_is_a_task_that_does_not_exist(stranger: Caller, verb: str) -> None:
    task = theirs()
    before = tasks.get_task(ROOT, task)
    known, unknown = (refusal(lambda id_=id_: BY_ID[verb](stranger, id_)) for id_ in (task, 10**9))  # type: ignore[misc]
    assert known == unknown
    assert known[0] is NotFound
    after = tasks.get_task(ROOT, task)
    assert (after["state"], after["priority"]) == (before["state"], before["priority"])


@pytest.mark.parametrize("verb", list(BY_NAME))
def test_by_name_it_is_a_department_that_does_not_exist(stranger: Caller, verb: str) -> None:
    theirs()
    known, unknown = (refusal(lambda s=s: BY_NAME[verb](stranger, s)) for s in (THEIRS, "gamma"))  # type: ignore[misc]
    assert known[0] is unknown[0]
    assert known[0] in {NotFound, Invalid}
    assert known[1].replace(THEIRS, "gamma") == unknown[1]
    assert Tenant.objects.get(slug=THEIRS).max is None


def test_its_lease_is_nobodys(stranger: Caller) -> None:
    one = fleet.held(tenant=THEIRS)
    for token in (one.token, one.token + 1):
        assert isinstance(fleet.end("complete", one.task, token, caller=stranger), NotFound | LeaseLost)
    assert isinstance(fleet.beat(one.session, (one.task, one.token), caller=stranger), NotFound)
    assert fleet.state(one.task) == 2


def test_no_list_count_or_sheet_speaks_of_it(stranger: Caller) -> None:
    theirs()
    audit.record(
        ROOT, "patch_tenant", "tenant", THEIRS, {"max": 1}, {"max": NUMBER}, WORD, Tenant.objects.get(slug=THEIRS).pk
    )
    fleet.join("w1", slots=2)
    seen: list[Any] = [
        overview.overview(stranger, None),
        stats.stats(stranger, None, 60),
        list(audit.export(stranger)),
        *(
            page.items
            for page in (
                task_list.list_tasks(stranger, {}, 100, None),
                dead_letters.list_groups(stranger),
                dead_letters.list_dead(stranger, {}),
                policy.list_(stranger, "tenant"),
                alerts.list_alerts(stranger),
                quota_requests.list_requests(stranger),
                audit.list_audit(stranger),
                workers.list_workers(stranger),
            )
        ),
    ]
    if stranger.kind == "user":
        seen.append(keys.list_keys(stranger).items)
    text = json.dumps(seen, default=str)
    for secret in (WORD, f'"{THEIRS}"', str(NUMBER)):
        assert secret not in text, secret
