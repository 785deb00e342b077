"""Sign 3: the waits of a class (their 95th percentile) grow from third to third of the window, without an end."""

from itertools import pairwise

from dispatch.core.alerting import Finding
from dispatch.core.detectors.rule import WINDOW, Dials, Rule, Threshold, seconds
from dispatch.core.detectors.view import Line, Point, View
from dispatch.core.samples import add_counts, percentile

NAME = "queue_time_growing"


def scan(view: View, dials: Dials) -> list[Finding]:
    """One finding for each class whose waits grow."""
    return [finding for line in view.classes if (finding := _judge(view, line, dials))]


def _judge(view: View, line: Line, dials: Dials) -> Finding | None:
    window = dials.window(line)
    if window is None or len(window[1]) < 3:
        return None
    limits, points = window
    third = len(points) // 3
    parts = [points[:third], points[third : 2 * third], points[2 * third :]]
    counts = [add_counts(point.waits for point in part) for part in parts]
    if any(sum(count) < limits["starts"] for count in counts) or not points[-1].queued:
        return None
    p95 = [_ms(count, 95) for count in counts]
    grows = all(later * 100 >= earlier * limits["growth_percent"] for earlier, later in pairwise(p95))
    if not grows or p95[-1] < limits["wait_s"] * 1000:
        return None
    text = (
        f"95 of 100 tasks of {line.slug} waited up to {seconds(p95[0])}, then {seconds(p95[1])}, now {seconds(p95[2])}:"
        " it grows without an end."
    )
    evidence = {
        "wait_p95_s": [ms / 1000 for ms in p95],
        "wait_p99_s": [_ms(count, 99) / 1000 for count in counts],
        "starts": [sum(count) for count in counts],
        "queued": [_queued(part) for part in parts],
        "window_s": limits["window_s"],
    }
    return Finding(
        rule=NAME,
        subject=line.subject,
        severity="warning",
        text=text,
        evidence=evidence,
        pool_id=view.pool_id,
        class_id=line.id,
    )


def _ms(counts: list[int], part: int) -> int:
    return round((percentile(counts, part / 100) or 0) * 1000)


def _queued(points: tuple[Point, ...]) -> int:
    return points[-1].queued


RULE = Rule(
    name=NAME,
    scope="class",
    text="The waits of a class grow from third to third of the window.",
    thresholds=(
        Threshold("window_s", 300, 15, 600, WINDOW.text),
        Threshold("growth_percent", 130, 101, 1000, "a third's wait against the one before", eases=False),
        Threshold("wait_s", 30, 1, 604_800, "from this wait (95 of 100) on", eases=True),
        Threshold("starts", 10, 1, 1_000_000, "starts in each third that are enough to judge"),
    ),
    scan=scan,
)
