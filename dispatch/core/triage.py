"""The state of a group of dead letters, from what was decided about it and what happened since. Pure.

Decided states do not stand for ever: a resolved group comes back when one more task dies of it, an ignored one when
more die in an hour, or in all, than it was ignored up to.
"""

from dataclasses import dataclass

NEW_S = 3600.0  #: a group whose first letter is younger is new
QUIET_S = 1800.0  #: one whose last letter is older is quiet
RISING = 2.0  #: this hour against the mean of the five hours before
RISING_LEAST = 3  #: letters in this hour
STEPS_PER_H = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """What happened: ages in seconds, letters of each quarter of an hour, the newest first."""

    count: int
    first_age_s: float
    last_age_s: float
    steps: tuple[int, ...]

    @property
    def last_hour(self) -> int:
        """Letters of the last hour."""
        return sum(self.steps[:STEPS_PER_H])


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What was decided, and how long ago."""

    status: str = "open"
    age_s: float = 0.0
    above_per_h: float | None = None
    above_total: int | None = None
    assignee: str = ""


def state(group: Group, mark: Mark) -> str:
    """One of: came_back, resolved, ignore_ended, ignored, new, rising, assigned, quiet, steady."""
    if mark.status == "resolved":
        return "came_back" if group.last_age_s < mark.age_s else "resolved"
    if mark.status == "ignored":
        return "ignore_ended" if _outgrown(group, mark) else "ignored"
    if group.first_age_s < NEW_S:
        return "new"
    before = sum(group.steps[STEPS_PER_H:]) * STEPS_PER_H / max(1, len(group.steps) - STEPS_PER_H)
    if group.last_hour >= RISING_LEAST and group.last_hour > RISING * before:
        return "rising"
    if mark.assignee:
        return "assigned"
    return "quiet" if group.last_age_s > QUIET_S else "steady"


def wants_a_hand(found: str) -> bool:
    """Whether a group in this state is shown among the open ones."""
    return found not in {"resolved", "ignored"}


def _outgrown(group: Group, mark: Mark) -> bool:
    fast = mark.above_per_h is not None and group.last_hour > mark.above_per_h
    return fast or (mark.above_total is not None and group.count > mark.above_total)
