"""Rows of the policy: read, made, changed under a version check. Through the ORM, whose cursors carry the context of
the history (who, why, which request) to the history triggers.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pghistory
from django.apps import apps
from django.contrib.postgres.functions import TransactionNow
from django.db import IntegrityError, models, transaction
from django.db.models import F
from django.db.models.functions import Now

from dispatch.models import Budget, Capability, Pool, PoolLeader, Tenant, Tool, WorkClass, Worker

MODELS: Mapping[str, type[models.Model]] = {
    "pool": Pool,
    "class": WorkClass,
    "tenant": Tenant,
    "tool": Tool,
    "capability": Capability,
}
RELATED = {"class": ("pool",)}
Row = Any  # one of the models above: fields by name, the class's pool as .pool


@contextmanager
def history(*, actor: str, reason: str, request_id: str) -> Iterator[None]:
    """History rows that are written inside carry who, why and which request."""
    with pghistory.context(actor=actor, reason=reason, request_id=request_id):
        yield


def live(kind: str) -> "models.QuerySet[Any]":
    """The objects of one kind that are not archived."""
    manager: models.Manager[Any] = MODELS[kind]._default_manager
    return manager.filter(archived_at=None).select_related(*RELATED.get(kind, ()))


def find(kind: str, slug: str, *, lock: bool = False) -> Row | None:
    """One object by its name, locked against other edits until the end of the transaction where asked."""
    found = live(kind).filter(slug=slug)
    return (found.select_for_update(of=("self",), no_key=True) if lock else found).first()


def page(kind: str, after: str, limit: int, ids: list[int] | None, pool_id: int | None) -> list[Row]:
    """Objects in the order of their names after one name; `ids` and `pool_id` narrow to what a caller may see."""
    found = live(kind).filter(slug__gt=after).order_by("slug")
    if ids is not None:
        found = found.filter(pk__in=ids)
    if pool_id is not None:
        found = found.filter(**({"pool_id": pool_id} if kind == "class" else {"pk": pool_id}))
    return list(found[:limit])


def of_pool(pool_id: int) -> list[Row]:
    """All classes of a pool."""
    return list(live("class").filter(pool_id=pool_id))


def all_of(kind: str) -> list[Row]:
    """All objects of one kind."""
    return list(live(kind))


def every(kind: str) -> list[Row]:
    """All objects of one kind, those that were taken away too."""
    manager: models.Manager[Any] = MODELS[kind]._default_manager
    return list(manager.select_related(*RELATED.get(kind, ())).order_by("slug"))


def as_of(kind: str, at: datetime) -> dict[int, Row]:
    """What the history says of each object at a moment, by its id; objects made later are not there."""
    events: models.Manager[Any] = apps.get_model("dispatch", f"{MODELS[kind].__name__}Event")._default_manager
    found = events.filter(pgh_created_at__lte=at).order_by("pgh_obj_id", "-pgh_id").distinct("pgh_obj_id")
    return {event.pgh_obj_id: event for event in found}


def insert(kind: str, slug: str, values: Mapping[str, Any]) -> Row | None:
    """A new object; an archived one of this name comes back with these values. None: the name is taken."""
    model = MODELS[kind]
    manager: models.Manager[Any] = model._default_manager
    old = manager.filter(slug=slug).select_for_update(no_key=True).first()
    if old is not None and old.archived_at is None:
        return None
    if old is not None:
        fresh = {field.name: field.get_default() for field in model._meta.fields if field.has_default()}
        fresh.pop("version", None)
        changes = fresh | dict(values) | {"archived_at": None, "version": F("version") + 1, "updated_at": Now()}
        manager.filter(pk=old.pk).update(**changes)
        return find(kind, slug)
    try:
        with transaction.atomic():
            made = manager.create(slug=slug, **values)
    except IntegrityError:
        return None
    if kind == "pool":
        PoolLeader.objects.create(pool=made, memory={})
    return find(kind, slug)


def archive(kind: str, pk: int) -> None:
    """Take an object away; what it reserved is free at once. A capability, which nothing refers to, is deleted."""
    manager: models.Manager[Any] = MODELS[kind]._default_manager
    if kind == "capability":
        manager.filter(pk=pk).delete()
        return
    reserved: Mapping[str, Mapping[str, Any]] = {"class": {"min": 0, "lend": None}, "tenant": {"nominal": 0}}
    free = reserved.get(kind, {})
    if kind == "tenant":
        Budget.objects.filter(tenant_id=pk, archived_at=None).update(archived_at=Now())
    manager.filter(pk=pk).update(**free, archived_at=Now(), updated_at=Now(), version=F("version") + 1)


def update(kind: str, pk: int, version: int, changes: Mapping[str, Any]) -> bool:
    """Change one object if it still has this version; False when somebody else was first."""
    manager: models.Manager[Any] = MODELS[kind]._default_manager
    guarded = manager.filter(pk=pk, version=version, archived_at=None)
    return guarded.update(**changes, version=F("version") + 1, updated_at=Now()) == 1


def pausable(kind: str, slug: str | None, pool_id: int | None) -> list[Row]:
    """What can be paused under a kind and name (None: all of the kind), locked; `pool_id` narrows to one pool."""
    if kind == "worker":
        found: models.QuerySet[Any] = Worker.objects.select_related("pool").filter(name=slug, archived_at=None)
    else:
        found = live(kind) if slug is None else live(kind).filter(slug=slug)
    if pool_id is not None:
        found = found.filter(**({"pk": pool_id} if kind == "pool" else {"pool_id": pool_id}))
    return list(found.order_by("pk").select_for_update(of=("self",), no_key=True))


def set_pause(
    kind: str,
    pks: Sequence[int],
    paused: bool,
    author: str,
    reason: str,
    until: datetime | None = None,
    *,
    within: bool = False,
) -> None:
    """Pause or resume rows that the caller has locked. The end of a pause stays, since queue ages count from it.

    `within`: the tenant itself does it, not the operators.
    """
    values: dict[str, Any] = {
        "paused": paused,
        "paused_at": Now() if paused else None,
        "paused_until": until if paused else TransactionNow(),
        "paused_by": author if paused else "",
        "pause_reason": reason if paused else "",
    }
    if kind != "worker":
        values |= {"version": F("version") + 1, "updated_at": Now()}
    if kind == "tenant":
        values["paused_within"] = paused and within
    manager: models.Manager[Any] = (Worker if kind == "worker" else MODELS[kind])._default_manager
    manager.filter(pk__in=pks).update(**values)
