"""Sign 2: a class has startable work all the time and next to nothing of it starts, though it is owed slots.

A class whose few long tasks fill its share is served, however seldom one starts; so is one in a pool without slots.
"""

from dispatch.core.alerting import Finding
from dispatch.core.detectors.rule import WINDOW, Dials, Rule, Threshold
from dispatch.core.detectors.view import Line, View, total

NAME = "near_zero_dispatch"


def scan(view: View, dials: Dials) -> list[Finding]:
    """One finding for each class that stands still."""
    return [finding for line in view.classes if (finding := _judge(view, line, dials))]


def _judge(view: View, line: Line, dials: Dials) -> Finding | None:
    window = dials.window(line)
    if window is None or view.paused or not view.slots:
        return None
    limits, points = window
    if any(point.queued < limits["load"] for point in points):
        return None
    started = total(points, "dispatched")
    held = sum(point.running for point in points) * 1000
    owed = sum(view.target_slots(point) for point in points)
    if started > limits["starts"] or held * 100 >= owed * limits["below_percent"]:
        return None
    text = (
        f"{points[-1].queued} tasks of {line.slug} can start, and {started} did within {limits['window_s']} s."
        f" It runs {points[-1].running} of the {owed / len(points) / 1000:.1f} slots that it should have."
    )
    evidence = {
        "queued": points[-1].queued,
        "dispatched": started,
        "running": points[-1].running,
        "target_slots": round(owed / len(points) / 1000, 2),
        "slots": view.slots,
        "window_s": limits["window_s"],
    }
    severity = "critical" if not started and not held else "warning"
    return Finding(
        rule=NAME,
        subject=line.subject,
        severity=severity,
        text=text,
        evidence=evidence,
        pool_id=view.pool_id,
        class_id=line.id,
    )


RULE = Rule(
    name=NAME,
    scope="class",
    text="A class has startable work, and next to nothing of it starts.",
    thresholds=(
        Threshold("window_s", 120, 5, 600, WINDOW.text),
        Threshold("load", 1, 1, 1_000_000, "startable tasks that count as load"),
        Threshold("starts", 0, 0, 1_000_000, "starts within the window that are still next to nothing"),
        Threshold("below_percent", 50, 1, 100, "only while it runs less than this part of its share"),
    ),
    scan=scan,
)
