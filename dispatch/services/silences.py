"""Silences: alerts that are known of keep quiet for a while; and the round that says which alerts are muted.

A silence is made by `operate`, for the whole installation, or inside one tenant by naming it in the matcher. It is
never edited: end it and make another one. `mute` runs in the reconciler each second and after every change.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from dispatch import events
from dispatch.core import alerting, validate
from dispatch.errors import Conflict, Forbidden, Invalid, NotFound
from dispatch.models import Pool, Tenant
from dispatch.services import access, alerts, audit, paging
from dispatch.services.messages import Caller, Page
from dispatch.store import db

SHOWN = ("id", "matcher", "state", "starts_at", "ends_at", "author", "note", "created_at")
WORD_LENGTH = 200
MISSING = "There is no such silence."


def list_silences(caller: Caller, limit: int = 100, cursor: str | None = None) -> Page:
    """Silences newest first (scope `read`); `state` is pending, active or over."""
    access.require(caller, "read")
    limit = paging.check_limit(limit)
    below = paging.decode("silences", cursor)[0] if cursor else 2**63 - 1
    page = paging.page("silences", _find(caller, below=below, limit=limit + 1), limit, lambda row: [row["id"]])
    return Page(items=[_shown(row) for row in page.items], next_cursor=page.next_cursor)


def create_silence(
    caller: Caller, matcher: Mapping[str, str], note: str, until: datetime, starts_at: datetime | None = None
) -> dict[str, Any]:
    """Silence what matches all words of `matcher` until a time (`operate`); at least one word is needed."""
    with audit.refusals(caller, "create_silence", "silence", "new"), db.atomic():
        tenant_id = _permitted(caller, matcher.get("tenant"), matcher.get("pool"))
        _check(matcher, note, until, starts_at)
        given = {"matcher": json.dumps(dict(matcher)), "tenant_id": tenant_id, "author": caller.name, "note": note}
        (row,) = db.rows("insert_silence", {**given, "starts_at": starts_at, "ends_at": until})
        after = {"matcher": dict(matcher), "until": until}
        audit.record(caller, "create_silence", "silence", row["id"], None, after, note, tenant_id)
        mute()
        return _shown(_find(caller, id=row["id"])[0])


def end_silence(caller: Caller, silence_id: int) -> None:
    """End a silence before its time (`operate`); Conflict when it is over."""
    with audit.refusals(caller, "end_silence", "silence", silence_id), db.atomic():
        access.require(caller, "operate")
        row = db.one("lock_silence", {"id": silence_id}) if 0 < silence_id < 2**63 else None
        if row is None:
            raise NotFound(MISSING)
        if not _find(caller, id=silence_id):
            raise access.Hidden(MISSING)
        if row["tenant_id"] is None:
            access.require_everywhere(caller, "operate")
        else:
            access.require(caller, "operate", row["tenant_id"])
        if not db.execute("end_silence", {"id": silence_id}):
            raise Conflict("The silence is over.")
        audit.record(caller, "end_silence", "silence", silence_id, row["matcher"], None, "", row["tenant_id"])
        mute()


def mute() -> int:
    """Say of every open alert what keeps it quiet; how many changed."""
    with db.atomic():
        found = db.rows("open_alerts")
        silences = [(row["id"], row["matcher"]) for row in db.rows("active_silences")] if found else []
        seen = [alerting.Open(row["id"], row["pool_id"], {word: row[word] for word in alerting.WORDS}) for row in found]
        before = {row["id"]: alerting.Mute(row["silence_id"], row["inhibited_by"]) for row in found}
        after = alerting.mutes(seen, silences)
        changed = sorted(alert_id for alert_id, why in after.items() if why != before[alert_id])
        if changed:
            columns = {
                "ids": changed,
                "silences": [after[alert_id].silence_id for alert_id in changed],
                "inhibitors": [after[alert_id].inhibited_by for alert_id in changed],
            }
            db.execute("mute_alerts", columns)
            db.hint(events.LIVE, "alerts")
    return len(changed)


def _permitted(caller: Caller, tenant: str | None, pool: str | None) -> int | None:
    """The id of the tenant that the silence keeps to; None: it holds for the whole installation."""
    access.require(caller, "operate")
    row = Tenant.objects.filter(slug=tenant, archived_at=None).first() if validate.is_slug(tenant) else None
    if row is None and tenant is None:
        access.require_everywhere(caller, "operate")
        if caller.pool_id is not None and not Pool.objects.filter(pk=caller.pool_id, slug=pool).exists():
            raise Forbidden("This key is bound to a pool: name it in the matcher.")
        return None
    if row is None or not access.sees_tenant(caller, row.pk):
        raise Invalid(("matcher.tenant", "there is no such tenant"))
    if not access.may(caller, "operate", row.pk):
        raise Forbidden("This needs the scope operate.")
    return int(row.pk)


def _check(matcher: Mapping[str, str], note: str, until: datetime, starts_at: datetime | None) -> None:
    problems = [] if matcher else [("matcher", f"name at least one of {', '.join(alerting.WORDS)}")]
    for name, word in matcher.items():
        problem = validate.text(word, 1, WORD_LENGTH) if name in alerting.WORDS else "is not a word of a matcher"
        if problem is None and name == "severity" and word not in alerting.SEVERITIES:
            problem = f"must be one of {', '.join(alerting.SEVERITIES)}"
        if problem:
            problems.append((f"matcher.{name}", problem))
    if problem := validate.text(note, 1, audit.REASON_LENGTH):
        problems.append(("note", problem))
    if problem := alerts.past(until):
        problems.append(("until", problem))
    if starts_at is not None and (problem := validate.moment(starts_at) or _early(starts_at, until)):
        problems.append(("starts_at", problem))
    if problems:
        raise Invalid(*problems)


def _early(starts_at: datetime, until: datetime) -> str | None:
    return None if starts_at < until else "must be before until"


def _find(caller: Caller, **given: Any) -> list[dict[str, Any]]:
    asked = {"below": 2**63 - 1, "limit": 1, "id": None, "tenants": access.visible_tenants(caller)}
    return db.rows("list_silences", asked | given)


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in SHOWN}
