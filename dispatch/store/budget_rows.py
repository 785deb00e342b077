"""Rows of cost budgets, their top-ups and overrides, through the ORM (history triggers see who and why)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import IntegrityError, models, transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from dispatch.models import Budget, BudgetExtra, TenantUser
from dispatch.store import db, policy

Row = Any
NOW = Now()


def _live(tenant_id: int) -> "models.QuerySet[Budget]":
    return Budget.objects.filter(tenant_id=tenant_id, archived_at=None).select_related(
        "work_class", "user", "degrade_to"
    )


def find(tenant_id: int, slug: str, *, lock: bool = False) -> Budget | None:
    """One budget by its name, locked against dispatchers and other edits where asked."""
    found = _live(tenant_id).filter(slug=slug)
    return (found.select_for_update(of=("self",), no_key=True) if lock else found).first()


def page(tenant_id: int, after: str, limit: int) -> list[Budget]:
    """Budgets of a tenant in the order of their names after one name."""
    return list(_live(tenant_id).filter(slug__gt=after).order_by("slug")[:limit])


def insert(tenant_id: int, slug: str, values: Mapping[str, Any], *, history: Mapping[str, str]) -> Budget | None:
    """A new budget; None: the name is taken. A user of it comes into being."""
    given = dict(values)
    if given.get("user") is not None:
        given["user"], _ = TenantUser.objects.get_or_create(tenant_id=tenant_id, name=given["user"])
    try:
        with transaction.atomic(), policy.history(**history):
            Budget.objects.create(tenant_id=tenant_id, slug=slug, **given)
    except IntegrityError:
        return None
    return find(tenant_id, slug)


def update(budget_id: int, values: Mapping[str, Any], *, history: Mapping[str, str]) -> None:
    """Change a budget that the caller has locked; its class and user stay."""
    changes = {name: value for name, value in values.items() if name not in {"work_class", "user"}}
    with policy.history(**history):
        Budget.objects.filter(pk=budget_id).update(**changes, version=F("version") + 1, updated_at=Now())


def follow(tenant_id: int, slug: str, values: Mapping[str, Any] | None, *, history: Mapping[str, str]) -> int | None:
    """Make, change or (None) end the budget that is a tenant's own; its id when something changed."""
    old = find(tenant_id, slug, lock=True)
    if old is None:
        made = insert(tenant_id, slug, values, history=history) if values else None
        return made.pk if made else None
    if values and all(getattr(old, name) == value for name, value in values.items()):
        return None
    update(old.pk, values or {"archived_at": Now()}, history=history)
    return old.pk


def extras(budget_id: int) -> list[BudgetExtra]:
    """Top-ups and overrides in force, oldest first."""
    lasting = Q(until_at=None) | Q(until_at__gt=Now())
    return list(BudgetExtra.objects.filter(lasting, budget_id=budget_id, ended_at=None).order_by("pk"))


def insert_extra(
    budget_id: int, kind: str, amount: int | None, until: datetime | None, author: str, reason: str
) -> BudgetExtra:
    """A top-up or override."""
    made = BudgetExtra.objects.create(
        budget_id=budget_id, kind=kind, amount=amount, until_at=until, created_by=author, reason=reason
    )
    made.refresh_from_db()
    return made


def end_extra(budget_id: int, extra_id: int) -> bool:
    """Take one back; False when it is not there or over already."""
    live = BudgetExtra.objects.filter(pk=extra_id, budget_id=budget_id, ended_at=None)
    return live.filter(Q(until_at=None) | Q(until_at__gt=Now())).update(ended_at=Now()) == 1


def knows_timezone(name: str) -> bool:
    """Whether the database has this time zone."""
    return bool(db.tuples("knows_timezone", {"name": name}))
