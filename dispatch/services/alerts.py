"""Alerts: what detectors and the reconciler have found; list them, and say that one has been seen.

States: firing, acknowledged (until its time, or until it is resolved), resolved. A tenant's caller sees the alerts
about its tenant only; acknowledging needs `operate`.
"""

from datetime import datetime
from typing import Any

from dispatch import events
from dispatch.core import validate
from dispatch.errors import Conflict, Invalid, NotFound
from dispatch.services import access, audit, paging
from dispatch.services.messages import Caller, Page
from dispatch.store import db

SHOWN = ("id", "rule", "subject", "severity", "text", "evidence", "fired_at", "seen_at", "resolved_at", "acked_at")
ACK = ("acked_by", "acked_until", "note")
OPEN = {None: None, "open": True, "resolved": False}
MISSING = "There is no such alert."


def list_alerts(
    caller: Caller,
    state: str | None = None,
    rule: str | None = None,
    severity: str | None = None,
    limit: int = 100,
    cursor: str | None = None,
) -> Page:
    """Alerts newest first (scope `read`); `state` open or resolved (left out: both)."""
    access.require(caller, "read")
    limit = paging.check_limit(limit)
    if state not in OPEN:
        raise Invalid(("state", "must be open or resolved"))
    below = paging.decode("alerts", cursor)[0] if cursor else 2**63 - 1
    found = _find(caller, below=below, open=OPEN[state], rule=rule, severity=severity, limit=limit + 1)
    page = paging.page("alerts", found, limit, lambda row: [row["id"]])
    return Page(items=[_shown(row) for row in page.items], next_cursor=page.next_cursor)


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
    if until is not None:
        late = validate.moment(until)
        if late is None and not db.tuples("is_future", {"at": until})[0][0]:
            late = "must be in the future"
        if late:
            problems.append(("until", late))
    if problems:
        raise Invalid(*problems)


def _find(caller: Caller, **given: Any) -> list[dict[str, Any]]:
    asked = {"below": 2**63 - 1, "limit": 1, "open": None, "rule": None, "severity": None, "id": None}
    narrow = {"tenants": access.visible_tenants(caller), "pool_id": caller.pool_id}
    return db.rows("list_alerts", asked | narrow | given)


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in (*SHOWN, *ACK)} | {"state": row["shown_state"]}
