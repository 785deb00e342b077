"""What every page shows around its content: clock, pool, policy version, cycle time, counts beside the navigation."""

from collections.abc import Mapping
from typing import Any

from dispatch.live import words
from dispatch.live.cells import alerts


def cells(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """Cells of the frame."""
    cycle = snapshot.get("cycle_ms")
    dead = snapshot.get("dead_kinds", {}).get("groups", 0)
    firing = snapshot.get("alerts", {}).get("firing", 0)
    totals = snapshot["totals"]
    return {
        "at": words.millis(snapshot["at"]),
        "iso": snapshot["at"],
        "pool": f"pool {snapshot['pool']}",
        "policy": f"policy v{snapshot['policy_version']}"
        + ("" if cycle is None else f" · cycle {words.decimal(cycle, 0 if cycle >= 10 else 1)} ms"),
        "badge.dead": words.count(dead) if dead else "",
        "badge.alerts": words.count(firing) if firing else "",
        **alerts.frame(snapshot),
        "spoken": f"{words.count(totals['queued'])} queued, {words.count(totals['running'])} running, "
        f"oldest wait {words.age(totals['oldest_age_s'])}",
    }
