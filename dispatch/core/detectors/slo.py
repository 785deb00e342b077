"""Sign 5, and the limit on the oldest wait: a class misses its own targets although the system is there.

`queue_slo`: something startable waits longer than the class's `slo_queue_s`. `completion_slo`: too small a part of
what ended kept `slo_done_s`. A class without the target never rings.
"""

from dispatch.core.alerting import Finding
from dispatch.core.detectors.rule import WINDOW, Dials, Rule, Threshold, seconds
from dispatch.core.detectors.view import Line, View, total


def scan_queue(view: View, dials: Dials) -> list[Finding]:
    """One finding for each class whose oldest wait is past its target."""
    return [finding for line in view.classes if (finding := _oldest(view, line, dials))]


def _oldest(view: View, line: Line, dials: Dials) -> Finding | None:
    limits = dials.of(line.subject, line.id)
    newest = line.points[-1] if line.points else None
    if limits is None or newest is None or newest.age_ms is None or line.slo_queue_ms is None:
        return None
    limit = line.slo_queue_ms * limits["of_percent"] // 100
    if newest.age_ms < limit:
        return None
    severity = "critical" if newest.age_ms >= line.slo_queue_ms * limits["critical_percent"] // 100 else "warning"
    waited, target = seconds(newest.age_ms), seconds(line.slo_queue_ms)
    text = f"The oldest task of {line.slug} has waited {waited}; the target is {target}."
    evidence = {
        "oldest_age_s": newest.age_ms / 1000,
        "slo_queue_s": line.slo_queue_ms / 1000,
        "queued": newest.queued,
        "running": newest.running,
    }
    return Finding(
        rule="queue_slo",
        subject=line.subject,
        severity=severity,
        text=text,
        evidence=evidence,
        pool_id=view.pool_id,
        class_id=line.id,
    )


def scan_done(view: View, dials: Dials) -> list[Finding]:
    """One finding for each class whose tasks end too late or die, while workers and dispatcher are there."""
    if not view.slots or view.beat_age_ms is None or view.beat_age_ms > 5000:
        return []
    return [finding for line in view.classes if (finding := _done(view, line, dials))]


def _done(view: View, line: Line, dials: Dials) -> Finding | None:
    window = dials.window(line)
    if window is None or line.slo_done_ms is None:
        return None
    limits, points = window
    ended, met = total(points, "done_n"), total(points, "done_met")
    if ended < limits["ended"] or (ended - met) * 100 < ended * limits["missed_percent"]:
        return None
    text = (
        f"{ended - met} of {ended} tasks of {line.slug} that ended within {limits['window_s']} s died or took longer"
        f" than {seconds(line.slo_done_ms)}."
    )
    evidence = {
        "ended": ended,
        "met": met,
        "slo_done_s": line.slo_done_ms / 1000,
        "slots": view.slots,
        "window_s": limits["window_s"],
    }
    return Finding(
        rule="completion_slo",
        subject=line.subject,
        severity="critical" if met * 2 < ended else "warning",
        text=text,
        evidence=evidence,
        pool_id=view.pool_id,
        class_id=line.id,
    )


QUEUE = Rule(
    name="queue_slo",
    scope="class",
    text="Something startable waits longer than the class's target.",
    thresholds=(
        Threshold("of_percent", 100, 1, 10_000, "of the target from which it fires"),
        Threshold("critical_percent", 400, 100, 100_000, "of the target from which it is critical"),
    ),
    scan=scan_queue,
)
DONE = Rule(
    name="completion_slo",
    scope="class",
    text="Too many tasks of a class end after its target although workers and dispatcher are there.",
    thresholds=(
        Threshold("window_s", 300, 5, 600, WINDOW.text),
        Threshold("missed_percent", 10, 1, 100, "part of the ended tasks that missed it", eases=True),
        Threshold("ended", 5, 1, 1_000_000, "ended tasks that are enough to judge"),
    ),
    scan=scan_done,
)
