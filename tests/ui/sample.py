"""Numbers of a busy pool as services.overview gives them, for tests of cells and templates."""

from datetime import UTC, datetime, timedelta
from typing import Any

NOW = datetime(2026, 11, 30, 14, 32, 8, tzinfo=UTC)

CLASSES = [
    # slug, weight, min, max, slo, queued, running, oldest, per s, arriving, target, achieved, deficit
    ("critical", 8, 24, 120, 30, 3, 24, 4.2, 0.9, 0.9, 0.10, 0.10, 0.0),
    ("interactive", 6, 40, 160, 60, 161, 113, 38.4, 5.1, 5.3, 0.45, 0.476, -30.7),
    ("standard", 4, 24, 120, 600, 388, 72, 408, 2.2, 2.2, 0.30, 0.305, -5.9),
    ("batch", 2, 12, 120, 1800, 732, 27, 2472, 0.4, 0.5, 0.15, 0.119, 36.6),
    ("maintenance", 1, 8, 40, 21_600, 0, 0, None, 0.0, 0.0, 0.0, 0.0, None),
]
TENANTS = [("sales", 250, 52, 1040, 48), ("support", 137, 56, 220, 48), ("finance", 275, 32, 1548, 36)]
TENANTS += [("engineering", 238, 56, 845, 48), ("legal", 213, 10, 2472, 24), ("research", 171, 24, 1170, 36)]
GRID = {
    "critical": [None, (2, 8, 4.2), None, (1, 6, 2), None, None],
    "interactive": [(42, 28, 21), (61, 36, 38.4), (9, 11, 9), (31, 26, 27), (6, 4, 12), (12, 8, 16)],
    "standard": [(88, 16, 252), (74, 12, 220), (52, 14, 175), (110, 18, 408), (21, 5, 91), (43, 7, 186)],
    "batch": [(120, 4, 1040), None, (214, 7, 1548), (96, 6, 845), (186, 1, 2472), (116, 9, 1170)],
}
WORKERS = [
    ("ocr-02", "lost", 8, "", "ocr,pdf", 846),
    ("gen-07", "late", 10, "1122223334", "general", 21),
    ("gen-09", "draining", 10, "1222233334", "general", 6),
    ("code-03", "live", 10, "1222223334", "code,git", 4),
    ("crm-02", "live", 8, "12222344", "crm", 2),
    ("gen-01", "live", 10, "2222233444", "general", 3),
    ("gen-02", "live", 10, "2222333344", "general", 8),
    ("gen-03", "live", 12, "2222222344", "general", 1),
    ("code-01", "live", 10, "1122222223", "code,git", 5),
]
DEAD = [
    ("contract-extract", "batch", "legal", "max_attempts", "ocr: page render exceeded 120 s", 3),
    ("crm-sync", "standard", "sales", "permanent", "crm: 422 field account_id is required", 1),
    ("summarise", "interactive", "support", "max_attempts", "prompt of 131,412 tokens exceeds 128,000", 3),
    ("merge", "standard", "engineering", "max_attempts", "git: merge conflict in services/ledger.py", 3),
]
COMMANDS = [
    ("14:24", "A. Ruiz", "acknowledged Worker lost on ocr-02", "Restarting the host, back by 15:00"),
    ("14:11", "M. Lindqvist", "requeued 40 tasks, standard · sales", "Rate limit is over"),
    ("13:30", "M. Lindqvist", "changed batch weight 3 → 2", "Quarter end: invoices first"),
]


def numbers(now: datetime = NOW) -> dict[str, Any]:
    """The whole answer."""
    return {
        "at": now.isoformat(),
        "pool": "default",
        "policy_version": 41,
        "cycle_ms": 18.2,
        "classes": [_class(row) for row in CLASSES],
        "tenants": [
            {"slug": slug, "weight": 1, "version": 1, "queued": queued, "running": running, "oldest_age_s": age}
            | {"nominal": nominal, "max": None}
            for slug, queued, running, age, nominal in TENANTS
        ],
        "grid": [
            {"class": name, "tenant": TENANTS[place][0], "queued": cell[0], "running": cell[1], "oldest_age_s": cell[2]}
            for name, cells in GRID.items()
            for place, cell in enumerate(cells)
            if cell
        ],
        "workers": [_worker(place, row, now) for place, row in enumerate(WORKERS)],
        "dead": {"total": 148, "new_1h": 12, "items": [_dead(place, row, now) for place, row in enumerate(DEAD)]},
        "totals": {
            "queued": 1284,
            "running": 236,
            "slots": 240,
            "free": 4,
            "workers_live": 8,
            "workers": 9,
            "dispatched_per_s": 8.6,
            "oldest_age_s": 2472,
            "oldest": {"class": "batch", "tenant": "legal"},
        },
        "leader": {"epoch": 3, "beat_age_s": 0.4},
        "commands": [
            {"at": f"2026-11-30T{at}:00+00:00", "actor": actor, "text": text, "reason": reason}
            for at, actor, text, reason in COMMANDS
        ],
    }


def _class(row: tuple[Any, ...]) -> dict[str, Any]:
    names = ["slug", "weight", "min", "max", "slo_queue_s", "queued", "running", "oldest_age_s", "dispatched_per_s"]
    names += ["arrived_per_s", "share_target", "share_achieved", "deficit"]
    found = dict(zip(names, row, strict=True))
    return found | {"version": 7, "scheduled": 0, "held": 0, "demand": found["queued"] + found["running"] > 0}


def _worker(place: int, row: tuple[str, str, int, str, str, int], now: datetime) -> dict[str, Any]:
    name, state, slots, marks, capabilities, seen = row
    classes = ["critical", "interactive", "standard", "batch"]
    expires = now + timedelta(seconds=30 - seen)
    leases = [
        {"task_id": 480_000 + place * 20 + slot, "class": classes[int(mark) - 1], "ttl_s": 30.0, "progress": None}
        | {"expires_at": expires.isoformat(), "renewed_at": (now - timedelta(seconds=seen)).isoformat()}
        | {"progress_age_s": 12.0 + 11 * slot}
        for slot, mark in enumerate(marks)
    ]
    return {"id": place + 1, "name": name, "state": state, "slots": slots, "running": len(marks), "deficit": 0.0} | {
        "capabilities": capabilities.split(","),
        "last_seen_s": float(seen),
        "leases": leases,
    }


def _dead(place: int, row: tuple[str, str, str, str, str, int], now: datetime) -> dict[str, Any]:
    kind, name, tenant, reason, error, attempts = row
    return {"id": 481_377 - 7 * place, "type": kind, "class": name, "tenant": tenant, "reason": reason} | {
        "error": {"message": error},
        "finished_at": (now - timedelta(minutes=3 + 9 * place)).isoformat(),
        "attempts": attempts,
        "fingerprint": f"{place:016x}",
    }
