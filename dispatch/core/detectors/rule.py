"""What a detector is: its name, what it can be told, and the function that looks. Register it in __init__.py.

`scan(view, dials)` is pure. A finding that is open is looked at with `dials.eased`: it ends only when things are
clearly better again, so that a number at the edge does not ring twice a minute.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dispatch.core.alerting import Finding
from dispatch.core.detectors.view import Line, Point, View

EASE = 80  # per cent of a threshold that an open finding still has to reach


@dataclass(frozen=True, slots=True)
class Threshold:
    """One number that operators may set: default, range and what it means. Whole numbers; the name ends in the unit."""

    name: str
    default: int
    low: int
    high: int
    text: str
    eases: bool = False  #: the finding fires from here upwards, so it eases while open


@dataclass(frozen=True, slots=True)
class Dials:
    """The thresholds in force for one scan: per class where somebody set them, else the rule's."""

    defaults: Mapping[str, int]
    classes: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    off: frozenset[int | None] = frozenset()  #: classes for which the rule is switched off; None: altogether
    open: frozenset[str] = frozenset()  #: subjects of open findings of this rule
    easing: frozenset[str] = frozenset()

    def of(self, subject: str, class_id: int | None = None) -> Mapping[str, int] | None:
        """The thresholds for a subject, eased while it is open; None: the rule is switched off here."""
        if None in self.off or class_id in self.off:
            return None
        found = {**self.defaults, **self.classes.get(class_id or 0, {})}
        if subject in self.open:
            found |= {name: found[name] * EASE // 100 for name in self.easing}
        return found

    def window(self, line: Line) -> tuple[Mapping[str, int], tuple[Point, ...]] | None:
        """The thresholds for a class and its points of their `window_s`; None: switched off, or no whole window."""
        limits = self.of(line.subject, line.id)
        points = line.last(limits["window_s"] * 1000) if limits else ()
        return (limits, points) if limits and points else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One detector. `scope` is class, tenant, type, worker or pool: what its subjects are."""

    name: str
    scope: str
    text: str
    thresholds: tuple[Threshold, ...]
    scan: Callable[[View, Dials], list[Finding]]
    replays: bool = True  #: looks at samples only, so that it can be tried on recorded ones

    def dials(
        self,
        classes: Mapping[int, Mapping[str, int]] | None = None,
        off: frozenset[int | None] = frozenset(),
        open_subjects: frozenset[str] = frozenset(),
        changed: Mapping[str, int] | None = None,
    ) -> Dials:
        """The dials with what was set: for everything (`changed`) and for single classes."""
        return Dials(
            defaults={one.name: one.default for one in self.thresholds} | dict(changed or {}),
            classes=classes or {},
            off=off,
            open=open_subjects,
            easing=frozenset(one.name for one in self.thresholds if one.eases),
        )


WINDOW = Threshold("window_s", 60, 5, 600, "how long it has to be so")


def seconds(ms: int) -> str:
    """A duration for a sentence: 45 s, 12 min, 3 h 5 min."""
    whole = round(ms / 1000)
    if whole < 120:
        return f"{whole} s"
    minutes = whole // 60
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
