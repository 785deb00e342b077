"""Rows of what holds inside one tenant: its users and its maxima in classes. Through the ORM, as store/policy.py."""

from collections.abc import Mapping
from typing import Any

from django.db import models
from django.db.models import F

from dispatch.models import TenantClass, TenantUser

MODELS: Mapping[str, type[models.Model]] = {"user": TenantUser, "class": TenantClass}
NAMES = {"user": "name", "class": "work_class__slug"}
Row = Any


def _of(kind: str, tenant_id: int) -> "models.QuerySet[Any]":
    manager: models.Manager[Any] = MODELS[kind]._default_manager
    found = manager.filter(tenant_id=tenant_id)
    return found.select_related("work_class").filter(work_class__archived_at=None) if kind == "class" else found


def name_of(kind: str, row: Row) -> str:
    """The user's name, or the class's."""
    return str(row.name if kind == "user" else row.work_class.slug)


def find(kind: str, tenant_id: int, name: str, *, lock: bool = False) -> Row | None:
    """One row by the user's or class's name."""
    found = _of(kind, tenant_id).filter(**{NAMES[kind]: name})
    return (found.select_for_update(of=("self",), no_key=True) if lock else found).first()


def page(kind: str, tenant_id: int, after: str, limit: int) -> list[Row]:
    """Rows in the order of their names after one name."""
    name = NAMES[kind]
    return list(_of(kind, tenant_id).filter(**{f"{name}__gt": after}).order_by(name)[:limit])


def put(kind: str, tenant_id: int, key: str | int, values: Mapping[str, Any]) -> None:
    """Make or change a row; `key` is the user's name or the class's id."""
    manager: models.Manager[Any] = MODELS[kind]._default_manager
    same = {"tenant_id": tenant_id, "name" if kind == "user" else "work_class_id": key}
    row, made = manager.get_or_create(**same, defaults=dict(values))
    if not made:
        manager.filter(pk=row.pk).update(**values, version=F("version") + 1)
