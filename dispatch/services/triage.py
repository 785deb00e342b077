"""Triage of dead letters: groups by fingerprint with what people decided about them, and the decisions themselves.

Counted are the newest COUNTED letters that the caller may see. Decisions are made for the whole installation (scope
`operate`, no tenant's key or member) and shown to those who see all tenants.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from dispatch import events
from dispatch.core import triage, validate
from dispatch.core.states import Outcome
from dispatch.errors import Conflict, Invalid, NotFound
from dispatch.services import access, audit
from dispatch.services.messages import Caller
from dispatch.services.task_list import NO_ERROR
from dispatch.store import db

COUNTED = 50_000  #: newest dead letters that are looked at
SHOWN = 200  #: groups
STEPS = 24  #: quarters of an hour
STATUSES = ("open", "resolved", "ignored")
FIELDS = ("status", "ignore_above_per_h", "ignore_above_total", "assignee", "note")
AGES = ("last 15 m", "15 m to 1 h", "1 h to 6 h", "6 h to 1 d", "older")

Row = dict[str, Any]


def groups(caller: Caller) -> dict[str, Any]:
    """`groups` (those that want a hand first, then the larger ones), `total`, `capped`, `matrix` (class × age)."""
    access.require(caller, "read")
    rows = _counts(caller, None)
    found = _groups(caller, rows)
    total = sum(row["count"] for row in rows)
    order = sorted(found, key=lambda one: (not one["open"], -one["count"], one["fingerprint"]))
    return {
        "groups": order[:SHOWN],
        "more": max(0, len(order) - SHOWN),
        "total": total,
        "capped": total >= COUNTED,
        "matrix": _matrix(rows),
        "new_1h": sum(one["state"] == "new" for one in found),
    }


def group(caller: Caller, fingerprint: str) -> Row:
    """One group with the attempts of its newest letters by version of their agents; NotFound when it has no letter."""
    access.require(caller, "read")
    rows = _counts(caller, fingerprint)
    if not rows:
        raise NotFound("There is no such group, or none of its tasks is dead any more.")
    found = _groups(caller, rows)[0]
    fleet = access.everywhere(caller)
    return found | {"live_versions": db.rows("triage_live_versions") if fleet else []}


def versions(task_ids: Iterable[int]) -> list[Row]:
    """Counted attempts of these tasks (seen by the caller already) by version of their agents and outcome."""
    rows = db.rows("triage_versions", {"task_ids": list(task_ids)})
    return [row | {"outcome_word": Outcome(row["outcome"]).word.replace("_", " ")} for row in rows]


def people(caller: Caller) -> list[str]:
    """Whom a group can be given to."""
    access.require_everywhere(caller, "operate")
    return [row["email"] for row in db.rows("triage_people")]


def decide(caller: Caller, fingerprint: str, changes: Mapping[str, Any], version: int | None = None) -> Row:
    """Change status, limits of ignoring, assignee or note. Conflict when `version` is not the one of now."""
    with audit.refusals(caller, "triage_dead_group", "dead_group", fingerprint), db.atomic():
        access.require_everywhere(caller, "operate")
        _check(caller, fingerprint, changes)
        old = db.rows("lock_dead_group", {"fingerprint": fingerprint})[0]
        if version is not None and version != old["version"]:
            raise Conflict(f"{old['updated_by'] or 'Somebody'} changed this group meanwhile; look at it again.")
        new = {name: changes.get(name, old[name]) for name in FIELDS}
        if new["status"] != "ignored":
            new |= {"ignore_above_per_h": None, "ignore_above_total": None}
        again = "status" in changes and changes["status"] != "open"
        saved = db.rows("save_dead_group", new | {"fingerprint": fingerprint, "by": caller.name, "again": again})[0]
        before = {name: old[name] for name in FIELDS if old[name] != new[name]}
        after = {name: new[name] for name in before}
        audit.record(caller, "triage_dead_group", "dead_group", fingerprint, before, after, new["note"])
        db.hint(events.LIVE, "dead")
    return {name: saved[name] for name in (*FIELDS, "version")}


def _check(caller: Caller, fingerprint: str, changes: Mapping[str, Any]) -> None:
    problems = []
    if problem := validate.text(fingerprint, 1, 200):
        problems.append(("fingerprint", problem))
    if changes.get("status", "open") not in STATUSES:
        problems.append(("status", f"must be one of {', '.join(STATUSES)}"))
    rate, total = changes.get("ignore_above_per_h"), changes.get("ignore_above_total")
    if rate is not None and (problem := validate.number(rate, 0, 1e6)):
        problems.append(("ignore_above_per_h", problem))
    if total is not None and (problem := validate.whole(total, 0)):
        problems.append(("ignore_above_total", problem))
    if problem := validate.text(changes.get("note", ""), 0, audit.REASON_LENGTH):
        problems.append(("note", problem))
    if (assignee := changes.get("assignee")) and assignee not in people(caller):
        problems.append(("assignee", "is not an operator"))
    if problems:
        raise Invalid(*problems)


def _counts(caller: Caller, fingerprint: str | None) -> list[Row]:
    return db.rows(
        "triage_counts",
        {
            "tenants": access.visible_tenants(caller),
            "pool_id": caller.pool_id,
            "fingerprint": "" if fingerprint == NO_ERROR else fingerprint,
            "limit": COUNTED,
        },
    )


def _groups(caller: Caller, rows: Iterable[Row]) -> list[Row]:
    parts: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        parts[row["fingerprint"]].append(row)
    newest = {name: max(row["newest"] for row in found) for name, found in parts.items()}
    samples = {row["id"]: row for row in db.rows("triage_samples", {"task_ids": list(newest.values())})}
    known = db.rows("triage_marks", {"fingerprints": list(parts)}) if access.everywhere(caller) else []
    marks = {row["fingerprint"]: row for row in known}
    return [_group(name, found, samples.get(newest[name]), marks.get(name)) for name, found in parts.items()]


def _group(fingerprint: str, rows: list[Row], sample: Row | None, mark: Row | None) -> Row:
    steps = [0] * STEPS
    for row in rows:
        if row["step"] < STEPS:
            steps[row["step"]] += row["count"]
    happened = triage.Group(
        count=sum(row["count"] for row in rows),
        first_age_s=max(row["first_age_s"] for row in rows),
        last_age_s=min(row["last_age_s"] for row in rows),
        steps=tuple(steps),
    )
    state = triage.state(happened, _mark(mark))
    return {
        "fingerprint": fingerprint,
        "state": state,
        "open": triage.wants_a_hand(state),
        "count": happened.count,
        "new_1h": happened.last_hour,
        "first_age_s": happened.first_age_s,
        "last_age_s": happened.last_age_s,
        "first_at": min(row["first_at"] for row in rows),
        "last_at": max(row["last_at"] for row in rows),
        "attempts": (min(row["attempts_min"] for row in rows), max(row["attempts_max"] for row in rows)),
        "classes": _spread(rows, "class"),
        "tenants": _spread(rows, "tenant"),
        "queues": _spread(rows, "class", "tenant"),
        "reasons": _spread(rows, "reason"),
        "steps": steps,
        "sample": sample,
        "mark": mark,
    }


def _mark(row: Row | None) -> triage.Mark:
    if row is None:
        return triage.Mark()
    return triage.Mark(
        status=row["status"],
        age_s=row["status_age_s"],
        above_per_h=row["ignore_above_per_h"],
        above_total=row["ignore_above_total"],
        assignee=row["assignee"],
    )


def _spread(rows: Iterable[Row], *names: str) -> list[tuple[Any, int]]:
    """Values and how many letters have them, the most frequent first."""
    counts: Counter[Any] = Counter()
    for row in rows:
        counts[row[names[0]] if len(names) == 1 else tuple(row[name] for name in names)] += row["count"]
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _matrix(rows: Iterable[Row]) -> list[tuple[str, list[int]]]:
    """Letters of each class by the ages AGES."""
    found: dict[str, list[int]] = defaultdict(lambda: [0] * len(AGES))
    for row in rows:
        step = row["step"]
        place = 0 if step < 1 else 1 if step < 4 else 2 if step < STEPS else step - STEPS + 3
        found[row["class"]][place] += row["count"]
    return sorted(found.items())
