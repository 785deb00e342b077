"""Upkeep: what the reconciler does beside reclaiming. Each function is one transaction and may fail on its own."""

from dispatch import events
from dispatch.core.alerting import Finding
from dispatch.services import alerts
from dispatch.store import db

FOLD = 20_000  # appended changes of lane counts folded at once
RECENT = 100_000  # newest tasks looked at for leases that are missing
DEPTH = 10_000  # queued tasks: lanes deeper than this are not recounted
BOUND = 50_000  # scheduled, held, dead tasks: a state with more of them is not recounted
INVARIANT = "invariant"
KINDS = ("pool", "class", "tenant", "tool", "worker")


def fold() -> None:
    """Fold appended changes of lane counts, so that reading a depth stays cheap."""
    with db.atomic():
        db.execute("fold_lane_deltas", {"limit": FOLD})


def end_pauses() -> int:
    """Take off pauses whose time is over; how many there were."""
    ended = 0
    for kind in KINDS:
        with db.atomic():
            found = len(db.rows(f"end_pauses_{kind}"))
            if found:
                db.hint(events.POOL, "")
                db.hint(events.LIVE, "policy")
        ended += found
    return ended


def drop_dead_demand() -> int:
    """Forget parked claims that nobody waits behind any more; how many there were."""
    with db.atomic():
        return db.execute("drop_dead_demand")


def close_silent_sessions() -> int:
    """End sessions that have not called for 24 h; how many there were."""
    with db.atomic():
        return db.execute("close_silent_sessions")


def prune() -> int:
    """Forget old decisions, idempotency keys, pulses and stray settlements; rows dropped."""
    dropped = 0
    for name in (
        "drop_stale_processes",
        "drop_old_decisions",
        "drop_old_idempotency_keys",
        "drop_orphan_settlements",
    ):
        with db.atomic():
            dropped += db.execute(name)
    return dropped


def check_invariants() -> dict[str, int]:
    """Compare leases with leased tasks and counted depths with rows; what is broken raises an alert, by name."""
    found = {}
    for name, params in (
        ("broken_leases", {}),
        ("orphan_tasks", {"window": RECENT}),
        ("drifted_lanes", {"deep": DEPTH, "bound": BOUND}),
    ):
        with db.atomic():
            found[name] = int(db.tuples(name, params)[0][0])
    alerts.settle(INVARIANT, [_broken(name, count) for name, count in found.items() if count])
    return {name: count for name, count in found.items() if count}


def _broken(name: str, count: int) -> Finding:
    texts = {
        "broken_leases": f"{count} leases name a task that is not leased.",
        "orphan_tasks": f"{count} leased tasks have no lease.",
        "drifted_lanes": f"The counted tasks of {count} lanes are not the number of their rows.",
    }
    return Finding(rule=INVARIANT, subject=name, severity="critical", text=texts[name], evidence={"count": count})
