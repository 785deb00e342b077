"""A guaranteed minimum is not there: the floors do not fit into the live slots, or a class stays below its own."""

from dispatch.core.alerting import Finding
from dispatch.core.detectors.rule import WINDOW, Dials, Rule
from dispatch.core.detectors.view import Line, View

NAME = "floor_unmet"


def scan(view: View, dials: Dials) -> list[Finding]:
    """One finding for each class below its floor; one for the pool whose floors cannot all be kept."""
    found = [finding for line in view.classes if (finding := _class(view, line, dials))]
    return found + _pool(view, dials)


def _class(view: View, line: Line, dials: Dials) -> Finding | None:
    window = dials.window(line)
    if window is None or not line.min or view.paused:
        return None
    limits, points = window
    if any(not point.queued or point.running >= line.min for point in points):
        return None
    running = points[-1].running
    return Finding(
        rule=NAME,
        subject=line.subject,
        severity="warning",
        text=f"{line.slug} runs {running} tasks of its guaranteed {line.min}, and more wait.",
        evidence={
            "running": running,
            "min": line.min,
            "queued": points[-1].queued,
            "slots": view.slots,
            "window_s": limits["window_s"],
        },
        pool_id=view.pool_id,
        class_id=line.id,
    )


def _pool(view: View, dials: Dials) -> list[Finding]:
    subject = f"pool:{view.pool}"
    limits = dials.of(subject)
    waiting = [line for line in view.classes if line.min and line.points and line.points[-1] and line.points[-1].queued]
    promised = sum(line.min for line in view.classes)
    if limits is None or not waiting or not view.slots or promised + view.promotion_slots <= view.slots:
        return []
    room = f" and {view.promotion_slots} for promotions" if view.promotion_slots else ""
    return [
        Finding(
            rule=NAME,
            subject=subject,
            severity="warning",
            text=f"{promised} slots are guaranteed{room}, and {view.slots} live: every minimum shrinks in proportion.",
            evidence={
                "slots": view.slots,
                "promotion_slots": view.promotion_slots,
                "min": {line.slug: line.min for line in view.classes if line.min},
            },
            pool_id=view.pool_id,
        )
    ]


RULE = Rule(
    name=NAME,
    scope="class or pool",
    text="A guaranteed minimum is not kept, or the minimums do not fit into the live slots.",
    thresholds=(WINDOW,),
    scan=scan,
)
