"""Detectors: small pure functions that find trouble in the last minutes of a pool. One file each, registered here.

The first five are the known signs of starvation: an oldest wait that rises while classes before it are served, next to
no starts under load, waits that grow without an end, capacity that the same ones take, and completion targets missed
while the system is there.
"""

from collections.abc import Mapping

from dispatch.core.detectors import (
    capacity_consumed,
    dead_letters_rising,
    floor_unmet,
    late,
    near_zero_dispatch,
    poison_tasks,
    queue_age_rising,
    queue_time_growing,
    slo,
    stalled_agents,
)
from dispatch.core.detectors.rule import Dials, Rule, Threshold
from dispatch.core.detectors.view import Deaths, Line, Point, Stalls, View

__all__ = ["RULES", "Deaths", "Dials", "Line", "Point", "Rule", "Stalls", "Threshold", "View"]

RULES: Mapping[str, Rule] = {
    rule.name: rule
    for rule in (
        queue_age_rising.RULE,
        near_zero_dispatch.RULE,
        queue_time_growing.RULE,
        capacity_consumed.RULE,
        slo.DONE,
        slo.QUEUE,
        floor_unmet.RULE,
        dead_letters_rising.RULE,
        poison_tasks.RULE,
        stalled_agents.RULE,
        late.DISPATCHER,
        late.RECONCILER,
    )
}
