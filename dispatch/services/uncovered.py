"""Alert on queued work that no live worker can do: one alert per pool and capability set, resolved by itself.

Called by the reconciler each second. A paused worker counts as able (its pause ends), a draining or quarantined one
does not. With no agent at all the sets that wait are named just the same: nobody can do the work.
"""

import json
from typing import Any

from dispatch import events
from dispatch.store import db

RULE = "no_capable_worker"
MOST = 100  # alerts raised in one round: a submitter of nonsense sets must not flood the list


def watch() -> int:
    """Raise and resolve the alerts; how many sets are uncovered."""
    with db.atomic():
        found = db.rows("uncovered_work")
        for row in found[:MOST]:
            alert = {"rule": RULE, "subject": _subject(row), "severity": "warning", "text": _text(row)}
            evidence = {"capabilities": row["names"], "missing": row["missing"], "queues": row["lanes"]}
            db.execute("raise_alert", {**alert, "evidence": json.dumps(evidence), "pool_id": row["pool_id"]})
        resolved = db.execute("resolve_other_alerts", {"rule": RULE, "subjects": [_subject(row) for row in found]})
        if found or resolved:
            db.hint(events.LIVE, "alerts")
    return len(found)


def _subject(row: dict[str, Any]) -> str:
    return f"capset:{row['pool_id']}/{row['capset_id']}"


def _text(row: dict[str, Any]) -> str:
    queues = "1 queue waits" if row["lanes"] == 1 else f"{row['lanes']} queues wait"
    if row["missing"]:
        return f"No eligible worker: {', '.join(row['missing'])}. {queues}."
    if row["names"]:
        return f"No live worker offers {' and '.join(row['names'])} together. {queues}."
    return f"No live worker. {queues}."
