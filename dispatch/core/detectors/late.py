"""The dispatcher of a pool or the reconciler does not keep its time."""

from dispatch.core.alerting import DISPATCHER_LATE, Finding
from dispatch.core.detectors.rule import Dials, Rule, Threshold, seconds
from dispatch.core.detectors.view import View


def scan_dispatcher(view: View, dials: Dials) -> list[Finding]:
    """One finding when the pool's dispatcher does not beat, or needs too long for a cycle."""
    subject = f"pool:{view.pool}"
    limits = dials.of(subject)
    if limits is None:
        return []
    silent = view.beat_age_ms is not None and view.beat_age_ms >= limits["silent_s"] * 1000
    slow = view.cycle_ms is not None and view.cycle_ms >= limits["cycle_ms"]
    if not silent and not slow:
        return []
    told = f"has not been heard of for {seconds(view.beat_age_ms or 0)}" if silent else f"needed {view.cycle_ms} ms"
    return [
        Finding(
            rule=DISPATCHER_LATE,
            subject=subject,
            severity="critical" if silent else "warning",
            text=f"The dispatcher of {view.pool} {told}{'' if silent else ' for its last cycle'}.",
            evidence={"beat_age_ms": view.beat_age_ms, "cycle_ms": view.cycle_ms},
            pool_id=view.pool_id,
        )
    ]


def scan_reconciler(view: View, dials: Dials) -> list[Finding]:
    """One finding when the reconciler ran its last sweep too late."""
    limits = dials.of("reconciler")
    if limits is None or view.late_ms is None or view.late_ms < limits["late_s"] * 1000:
        return []
    return [
        Finding(
            rule="reconciler_late",
            subject="reconciler",
            severity="warning",
            text=f"The reconciler ran {seconds(view.late_ms)} late: lost leases are found later.",
            evidence={"late_ms": view.late_ms},
        )
    ]


DISPATCHER = Rule(
    name=DISPATCHER_LATE,
    scope="pool",
    text="A pool's dispatcher is silent, or its cycles take too long.",
    thresholds=(
        Threshold("silent_s", 5, 2, 3600, "without a sign of life"),
        Threshold("cycle_ms", 1000, 10, 600_000, "of one cycle", eases=True),
    ),
    scan=scan_dispatcher,
    replays=False,
)
RECONCILER = Rule(
    name="reconciler_late",
    scope="fleet",
    text="The reconciler sweeps too late.",
    thresholds=(Threshold("late_s", 5, 1, 3600, "after its time", eases=True),),
    scan=scan_reconciler,
    replays=False,
)
