"""Sign 1: the oldest wait of a class rises all the time while classes that go before it are served as usual."""

from itertools import pairwise

from dispatch.core.alerting import Finding
from dispatch.core.detectors.rule import WINDOW, Dials, Rule, Threshold, seconds
from dispatch.core.detectors.view import Line, Point, View, total

NAME = "queue_age_rising"


def scan(view: View, dials: Dials) -> list[Finding]:
    """One finding for each class that ages behind others."""
    return [finding for line in view.classes if (finding := _judge(view, line, dials))]


def _judge(view: View, line: Line, dials: Dials) -> Finding | None:
    window = dials.window(line)
    if window is None:
        return None
    limits, points = window
    first, last = points[0].age_ms, points[-1].age_ms
    if first is None or last is None or last < limits["age_s"] * 1000 or not _rises(points, line.step_ms):
        return None
    before = {other.slug: total(other.last(limits["window_s"] * 1000), "dispatched") for other in view.above(line)}
    served = sum(before.values())
    if served < limits["served"]:
        return None
    text = (
        f"The oldest task of {line.slug} has waited {seconds(last)} and gets older, while {served} tasks of classes"
        f" before it started within {limits['window_s']} s."
    )
    evidence = {
        "oldest_age_s": last / 1000,
        "oldest_age_before_s": first / 1000,
        "queued": points[-1].queued,
        "own_dispatched": total(points, "dispatched"),
        "dispatched_before_it": before,
        "window_s": limits["window_s"],
    }
    severity = "critical" if last >= 4 * limits["age_s"] * 1000 else "warning"
    return Finding(
        rule=NAME,
        subject=line.subject,
        severity=severity,
        text=text,
        evidence=evidence,
        pool_id=view.pool_id,
        class_id=line.id,
    )


def _rises(points: tuple[Point, ...], step_ms: int) -> bool:
    """Never younger than a step before, and in all nearly as much older as time went by: its head is not served."""
    ages = [point.age_ms for point in points]
    if len(ages) < 2 or any(age is None for age in ages):
        return False
    known = [age for age in ages if age is not None]
    climbs = all(later >= earlier for earlier, later in pairwise(known))
    return climbs and (known[-1] - known[0]) * 10 >= step_ms * (len(known) - 1) * 8


RULE = Rule(
    name=NAME,
    scope="class",
    text="The oldest wait of a class rises while classes before it are served.",
    thresholds=(
        WINDOW,
        Threshold("age_s", 60, 1, 604_800, "from this oldest wait on", eases=True),
        Threshold("served", 5, 1, 1_000_000, "starts of the classes before it that count as served"),
    ),
    scan=scan,
)
