"""System checks (`manage.py check`, with `--database default` also those of the database): rules between settings."""

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import DatabaseError, connections
from django.db.models import F, Sum

from dispatch.models import Pool, WorkClass
from dispatch.store.programs import MINIMUM


@register(Tags.compatibility)
def slow_jobs(**_: Any) -> list[CheckMessage]:
    """A slow job must have ended, by its timeout at the latest, before q2 gives it out a second time."""
    cluster: dict[str, Any] = settings.Q_CLUSTER
    if cluster["retry"] > cluster["timeout"]:
        return []
    hint = "Raise Q_CLUSTER['retry'] above Q_CLUSTER['timeout']."
    return [Error("A slow job would be started again while it still runs.", hint=hint, id="evenflow.E001")]


@register(Tags.database)
def database(databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """PostgreSQL answers, is new enough, and holds a policy that can be kept."""
    if not databases or "default" not in databases:
        return []
    try:
        connections["default"].ensure_connection()
        version = connections["default"].pg_version // 10000  # type: ignore[attr-defined]
        if version < MINIMUM:
            hint = f"Use PostgreSQL {MINIMUM} or newer."
            return [Error(f"This is PostgreSQL {version}.", hint=hint, id="evenflow.E002")]
        return _policy() if "pool" in connections["default"].introspection.table_names() else []
    except DatabaseError as error:
        hint = "Start it, or correct DATABASE_URL."
        return [Error(f"PostgreSQL cannot be reached: {error}", hint=hint, id="evenflow.E003")]


def _policy() -> list[CheckMessage]:
    """Rules between policy objects that an edit of one of them may break; edits warn, this finds what is left."""
    found: list[CheckMessage] = []
    for pool in Pool.objects.filter(lease_ttl_s__lt=2 * F("heartbeat_every_s")):
        message = f"In the pool {pool.slug} one late heartbeat loses a lease."
        hint = "Let lease_ttl_s be at least twice heartbeat_every_s."
        found.append(Error(message, hint=hint, obj=pool, id="evenflow.E004"))
    promised = dict(WorkClass.objects.values_list("pool").annotate(Sum("min")))
    for pool in Pool.objects.filter(budget__isnull=False):
        if promised.get(pool.pk, 0) > (pool.budget or 0):
            message = f"The classes of the pool {pool.slug} are promised more slots than its budget."
            hint = "Raise the pool's budget or lower the minimums of its classes."
            found.append(Warning(message, hint=hint, obj=pool, id="evenflow.W001"))
    return found
