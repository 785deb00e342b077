"""Alerts: what detectors and the reconciler have found. The one place where an alert is raised, resolved, acknowledged.

States: firing, acknowledged (until its time, until it gets worse, or until it is resolved), resolved. Muted alerts
(services/silences.py) keep their state and notify nobody. A tenant's caller sees the alerts about its tenant only;
acknowledging needs `operate`.
"""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from django.conf import settings

from dispatch import events
from dispatch.core import validate
from dispatch.core.alerting import SEVERITIES, Finding
from dispatch.errors import Conflict, Invalid, NotFound
from dispatch.services import access, audit, paging
from dispatch.services.messages import Caller, Page
from dispatch.store import db

SHOWN = (
    *("id", "rule", "subject", "severity", "state", "text", "evidence", "pool", "class", "tenant"),
    *("muted", "silence_id", "inhibited_by", "fired_at", "seen_at", "resolved_at"),
    *("acked_at", "acked_by", "acked_until", "note"),
)
STATES = ("firing", "acknowledged")
OPEN = {None: None, "open": True, "resolved": False} | dict.fromkeys(STATES, True)
MISSING = "There is no such alert."


def raise_all(findings: Sequence[Finding]) -> list[Finding]:
    """Raise findings, inside the caller's transaction or in one of its own: those that were not open before.

    A repeat of an open one says that it still holds, with the text, severity and evidence of now.
    """
    if not findings:
        return []
    unique = {(finding.rule, finding.subject): finding for finding in findings}
    with db.atomic():
        found = db.rows("raise_alerts", _columns(list(unique.values())))
        if found:
            db.hint(events.LIVE, "alerts")
    return [unique[row["rule"], row["subject"]] for row in found if row["fresh"]]


def _columns(findings: Sequence[Finding]) -> dict[str, list[Any]]:
    return {
        "rules": [one.rule for one in findings],
        "subjects": [one.subject for one in findings],
        "severities": [one.severity for one in findings],
        "texts": [one.text for one in findings],
        "evidences": [json.dumps(dict(one.evidence), default=str) for one in findings],
        "pools": [one.pool_id for one in findings],
        "classes": [one.class_id for one in findings],
        "tenants": [one.tenant_id for one in findings],
    }


def resolve(rule: str, *subjects: str) -> int:
    """These findings of a rule do not hold any more; how many were open."""
    return _resolve(rule, subjects, others=False, pool_id=None)


def settle(rule: str, findings: Sequence[Finding], pool_id: int | None = None) -> list[Finding]:
    """All that a rule finds now (about a pool): raise these, resolve every other one; the new ones."""
    with db.atomic():
        fresh = raise_all(findings)
        _resolve(rule, [finding.subject for finding in findings], others=True, pool_id=pool_id)
    return fresh


def _resolve(rule: str, subjects: Iterable[str], *, others: bool, pool_id: int | None) -> int:
    given = {"rule": rule, "subjects": list(subjects), "others": others, "pool_id": pool_id}
    with db.atomic():
        resolved = db.execute("resolve_alerts", given)
        if resolved:
            db.hint(events.LIVE, "alerts")
    return resolved


def end_stale() -> int:
    """Resolve the alerts of outages that are over and of tasks that are not set aside any more; how many."""
    with db.atomic():
        ends = [resolve(rule, subject) for rule, subject in db.tuples("stale_alerts")]
    return sum(ends)


def prune() -> int:
    """Forget alerts and silences that were over before the oldest samples; how many alerts."""
    with db.atomic():
        return db.execute("drop_old_alerts", {"days": settings.EVENFLOW_SAMPLES_DAYS})


def list_alerts(
    caller: Caller,
    state: str | None = None,
    rule: str | None = None,
    severity: str | None = None,
    limit: int = 100,
    cursor: str | None = None,
) -> Page:
    """Alerts newest first (scope `read`); `state` open, firing, acknowledged or resolved (left out: all).

    An item holds SHOWN; `muted` is silenced, inhibited or None, `pool`, `class`, `tenant` are names or None.
    """
    access.require(caller, "read")
    limit = paging.check_limit(limit)
    if state not in OPEN:
        raise Invalid(("state", "must be open, firing, acknowledged or resolved"))
    if severity not in {None, *SEVERITIES}:
        raise Invalid(("severity", f"must be one of {', '.join(SEVERITIES)}"))
    below = paging.decode("alerts", cursor)[0] if cursor else 2**63 - 1
    exact = state if state in STATES else None
    asked = {"below": below, "open": OPEN[state], "state": exact, "rule": rule, "severity": severity}
    found = _find(caller, **asked, limit=limit + 1)
    page = paging.page("alerts", found, limit, lambda row: [row["id"]])
    return Page(items=[_shown(row) for row in page.items], next_cursor=page.next_cursor)


def get_alert(caller: Caller, alert_id: int) -> dict[str, Any]:
    """One alert as in the list (scope `read`); NotFound for one that this caller does not see."""
    access.require(caller, "read")
    found = _find(caller, id=alert_id) if 0 < alert_id < 2**63 else []
    if not found:
        raise NotFound(MISSING)
    return _shown(found[0])


def ack(caller: Caller, alert_id: int, note: str, until: datetime | None = None) -> dict[str, Any]:
    """Acknowledge an open alert (scope `operate`); again: the newer note and time hold."""
    with audit.refusals(caller, "ack_alert", "alert", alert_id), db.atomic():
        access.require(caller, "operate")
        _check(note, until)
        row = db.one("lock_alert", {"id": alert_id}) if 0 < alert_id < 2**63 else None
        if row is None:
            raise NotFound(MISSING)
        if not _find(caller, id=alert_id):
            raise access.Hidden(MISSING)
        if row["tenant_id"] is not None:
            access.require(caller, "operate", row["tenant_id"])
        if row["resolved_at"] is not None:
            raise Conflict("The alert is resolved.")
        db.execute("ack_alert", {"id": alert_id, "by": caller.name, "until": until, "note": note})
        after = {"rule": row["rule"], "subject": row["subject"], "until": until}
        audit.record(caller, "ack_alert", "alert", alert_id, None, after, note, row["tenant_id"])
        db.hint(events.LIVE, "alerts")
        return _shown(_find(caller, id=alert_id)[0])


def _check(note: str, until: datetime | None) -> None:
    problems = []
    if problem := validate.text(note, 1, audit.REASON_LENGTH):
        problems.append(("note", problem))
    if until is not None and (late := past(until)):
        problems.append(("until", late))
    if problems:
        raise Invalid(*problems)


def past(until: datetime) -> str | None:
    """The problem of a time that has to lie ahead, or None."""
    if problem := validate.moment(until):
        return problem
    return None if db.tuples("is_future", {"at": until})[0][0] else "must be in the future"


def _find(caller: Caller, **given: Any) -> list[dict[str, Any]]:
    asked = {"below": 2**63 - 1, "limit": 1, **dict.fromkeys(("open", "state", "rule", "severity", "id"))}
    narrow = {"tenants": access.visible_tenants(caller), "pool_id": caller.pool_id}
    return db.rows("list_alerts", asked | narrow | given)


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in SHOWN}
