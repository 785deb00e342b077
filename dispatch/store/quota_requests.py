"""Rows of quota requests, through the ORM."""

from typing import Any

from django.db.models.functions import Now

from dispatch.models import QuotaRequest


def insert(tenant_id: int, changes: dict[str, Any], classes: dict[str, Any], reason: str, author: str) -> QuotaRequest:
    """A new open request."""
    return QuotaRequest.objects.create(
        tenant_id=tenant_id, changes=changes, classes=classes, reason=reason, created_by=author
    )


def find(request_id: int, *, lock: bool = False) -> QuotaRequest | None:
    """One request with its tenant, locked where asked."""
    found = QuotaRequest.objects.select_related("tenant").filter(pk=request_id)
    return (found.select_for_update(of=("self",), no_key=True) if lock else found).first()


def page(below: int, limit: int, tenants: list[int] | None, state: str | None) -> list[QuotaRequest]:
    """Requests newest first below an id; of these tenants (None: all) and in this state (None: any)."""
    found = QuotaRequest.objects.select_related("tenant").filter(pk__lt=below).order_by("-pk")
    if tenants is not None:
        found = found.filter(tenant_id__in=tenants)
    if state is not None:
        found = found.filter(state=state)
    return list(found[:limit])


def count_open(tenant_id: int) -> int:
    """How many requests of a tenant wait for an answer."""
    return QuotaRequest.objects.filter(tenant_id=tenant_id, state="open").count()


def answer(request_id: int, state: str, author: str, note: str) -> None:
    """Close a request that the caller has locked."""
    QuotaRequest.objects.filter(pk=request_id).update(state=state, answered_at=Now(), answered_by=author, note=note)
