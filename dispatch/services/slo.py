"""How well each class keeps its targets: attainment and burn rate over 5 minutes, an hour, a day and 28 days.

Targets are the class's `slo_queue_s` (wait for the first start) and `slo_done_s` (from enqueueing to success). The
objective, EVENFLOW_SLO_OBJECTIVE per cent, is the part that should keep them. Burn rate 1 uses up what may miss them
exactly over the window; 14 over an hour uses up two days of it. Counted by the sampler with the target of that moment.
Readings are kept for KEEP_S seconds, for all viewers.
"""

import threading
import time
from typing import Any

from django.conf import settings

from dispatch.store import db

WINDOWS = {"5m": 300, "1h": 3600, "24h": 86400, "28d": 28 * 86400}
KINDS = ("queue", "done")
KEEP_S = 10.0

Windows = dict[str, dict[str, Any]]

_lock = threading.Lock()
_kept: dict[int, tuple[float, dict[int, dict[str, Windows]]]] = {}


def of_classes(pool_id: int) -> dict[int, dict[str, Windows]]:
    """By class id: `{"queue": windows, "done": windows}`; windows: `{"5m": {"n", "met", "attained", "burn"}, …}`.

    `n`: tasks that were judged, `met`: those that kept the target, `attained`: their part 0..1, `burn`: the burn rate;
    both None where nothing was judged (no target, or no task). Classes that never judged anything are missing.
    """
    with _lock:
        kept = _kept.get(pool_id)
    if kept and kept[0] > time.monotonic():
        return kept[1]
    found = _read(pool_id)
    with _lock:
        _kept[pool_id] = (time.monotonic() + KEEP_S, found)
    return found


def forget() -> None:
    """Read afresh next time."""
    with _lock:
        _kept.clear()


def objective() -> float:
    """The part 0..1 of the tasks that should keep their targets."""
    return float(settings.EVENFLOW_SLO_OBJECTIVE) / 100


def _read(pool_id: int) -> dict[int, dict[str, Windows]]:
    found: dict[int, dict[str, Windows]] = {}
    for row in db.rows("slo_windows", {"pool_id": pool_id}):
        of = found.setdefault(row["class_id"], {kind: dict.fromkeys(WINDOWS, _window(0, 0)) for kind in KINDS})
        for kind in of:
            of[kind][row["name"]] = _window(row[f"{kind}_n"], row[f"{kind}_met"])
    return found


def _window(n: int, met: int) -> dict[str, Any]:
    attained = met / n if n else None
    burn = None if attained is None else (1 - attained) / (1 - objective())
    return {"n": n, "met": met, "attained": attained, "burn": burn}
