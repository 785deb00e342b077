"""Agents that beat on and make no progress, again and again."""

from dispatch.core.alerting import Finding
from dispatch.core.detectors.rule import WINDOW, Dials, Rule, Threshold
from dispatch.core.detectors.view import View

NAME = "stalled_agents"


def scan(view: View, dials: Dials) -> list[Finding]:
    """One finding for each worker whose attempts stall."""
    found = []
    for worker in view.stalls:
        subject = f"worker:{worker.worker_id}"
        limits = dials.of(subject)
        if limits is None or worker.stalled < limits["stalls"]:
            continue
        found.append(
            Finding(
                rule=NAME,
                subject=subject,
                severity="warning",
                text=f"{worker.stalled} attempts at {worker.worker} stalled within {limits['window_s']} s.",
                evidence={"stalled": worker.stalled, "window_s": limits["window_s"]},
                pool_id=view.pool_id,
            )
        )
    return found


RULE = Rule(
    name=NAME,
    scope="worker",
    text="Attempts at a worker stall: heartbeats go on, progress does not.",
    thresholds=(
        Threshold("window_s", 600, 60, 600, WINDOW.text),
        Threshold("stalls", 3, 1, 10_000, "stalled attempts within the window from which it fires"),
    ),
    scan=scan,
    replays=False,
)
