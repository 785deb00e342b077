"""Saved views of the task list: a search line under a name, for oneself, for a tenant or for everybody.

Everybody keeps views for oneself; for a tenant one needs `submit` in it, for everybody `operate`. What a view shows is
what its reader may see: it holds words, not rights.
"""

from typing import Any

from dispatch.core import validate
from dispatch.errors import Forbidden, Invalid, NotFound
from dispatch.services import access, audit
from dispatch.services.messages import Caller
from dispatch.store import db

AUDIENCES = ("private", "tenant", "everyone")
NAME, QUERY = 80, 1000  #: characters


def list_views(caller: Caller) -> list[dict[str, Any]]:
    """The views that the caller may use, the own ones first."""
    if caller.kind != "user":
        return []
    return db.rows("list_saved_views", {"user_id": caller.id, "tenants": access.visible_tenants(caller)})


def save_view(caller: Caller, name: str, query: str, audience: str, tenant: str = "") -> dict[str, Any]:
    """Keep a search line; the caller's own view of that name is replaced."""
    with audit.refusals(caller, "save_view", "view", name), db.atomic():
        if caller.kind != "user":
            raise Forbidden("Views belong to people.")
        _check(name, query, audience)
        tenant_id = _tenant(caller, tenant) if audience == "tenant" else None
        if audience == "everyone":
            access.require_everywhere(caller, "operate")
        given = {"name": name.strip(), "query": query, "audience": audience, "tenant_id": tenant_id}
        saved = db.rows("save_view", given | {"user_id": caller.id})[0]
        if audience != "private":
            audit.record(caller, "save_view", "view", name, None, {"query": query, "audience": audience}, "", tenant_id)
        return saved


def delete_view(caller: Caller, view_id: int) -> str:
    """Remove one's own view (an operator: any that others see); its name."""
    anything = "operate" in caller.scopes and access.everywhere(caller)
    with db.atomic():
        gone = db.one("delete_view", {"id": view_id, "user_id": caller.id, "any": anything})
        if gone is None or caller.kind != "user":
            raise NotFound("There is no such view.")
        if gone["audience"] != "private":
            audit.record(caller, "delete_view", "view", gone["name"], {"query": gone["query"]}, None)
        return str(gone["name"])


def _check(name: str, query: str, audience: str) -> None:
    problems = []
    if problem := validate.text(name, 1, NAME):
        problems.append(("name", problem))
    if problem := validate.text(query, 1, QUERY):
        problems.append(("query", problem))
    if audience not in AUDIENCES:
        problems.append(("audience", f"must be one of {', '.join(AUDIENCES)}"))
    if problems:
        raise Invalid(*problems)


def _tenant(caller: Caller, slug: str) -> int:
    row = db.one("find_slug", {"kind": "tenant", "slug": slug}) if validate.is_slug(slug) else None
    if row is None or not access.sees_tenant(caller, row["id"]):
        raise Invalid(("tenant", "there is no such tenant"))
    access.require(caller, "submit", row["id"])
    return int(row["id"])
