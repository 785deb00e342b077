"""Sign 4: the same tenant or class has most of the slots step after step, more than it should, while others wait.

What each should have is max-min by weight over what they could use now (core/fluid.py). The evidence says who borrows
how many slots, and who lends them.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from dispatch.core import fluid
from dispatch.core.alerting import Finding
from dispatch.core.detectors.rule import WINDOW, Dials, Rule, Threshold
from dispatch.core.detectors.view import Line, Point, View

NAME = "capacity_consumed"

Slots = dict[int, Fraction]


def scan(view: View, dials: Dials) -> list[Finding]:
    """At most one finding among the classes and one among the tenants: who has the most."""
    found = [_judge(view, kind, lines, dials) for kind, lines in (("class", view.classes), ("tenant", view.tenants))]
    return [finding for finding in found if finding]


def _judge(view: View, kind: str, lines: Sequence[Line], dials: Dials) -> Finding | None:
    window = dials.defaults["window_s"] * 1000
    points = {line.id: found for line in lines if (found := line.last(window))}
    seen = [line for line in lines if line.id in points]
    if len(seen) < 2 or not view.slots:
        return None
    holder = max(seen, key=lambda line: (sum(point.running for point in points[line.id]), -line.id))
    subject = f"{kind}:{holder.slug}"
    limits = dials.of(subject, holder.id if kind == "class" else None)
    if limits is None:
        return None
    steps = [_targets(seen, {id_: found[n] for id_, found in points.items()}) for n in range(len(points[holder.id]))]
    taken = [_takes(holder, seen, points, n, target, limits) for n, target in enumerate(steps)]
    if sum(taken) * 100 < len(taken) * limits["steps_percent"]:
        return None
    newest = {id_: found[-1] for id_, found in points.items()}
    return _finding(view, kind, holder, seen, newest, steps[-1], limits)


def _targets(lines: Sequence[Line], points: Mapping[int, Point]) -> Slots:
    """The slots that each should have in one step, out of those that all of them have together."""
    wants = {
        line.id: fluid.Want(
            demand=points[line.id].running + points[line.id].queued,
            weight=Fraction(line.weight),
            min=line.min,
            max=line.max,
            level=line.level,
        )
        for line in lines
    }
    return fluid.fill(sum(point.running for point in points.values()), wants)


def _takes(
    holder: Line,
    lines: Sequence[Line],
    points: Mapping[int, tuple[Point, ...]],
    n: int,
    target: Slots,
    limits: Mapping[str, int],
) -> bool:
    """Whether in one step the holder had most of the slots and more than it should, and somebody who should waited."""
    mine = points[holder.id][n].running
    whole = sum(found[n].running for found in points.values())
    victims = any(
        points[line.id][n].queued and points[line.id][n].running + 1 <= target[line.id]
        for line in lines
        if line is not holder
    )
    above = mine * 100 >= target[holder.id] * limits["above_percent"] and mine > target[holder.id]
    return bool(whole and mine * 100 >= whole * limits["share_percent"] and above and victims)


def _finding(
    view: View,
    kind: str,
    holder: Line,
    lines: Sequence[Line],
    points: Mapping[int, Point],
    target: Slots,
    limits: Mapping[str, int],
) -> Finding:
    gap = {line.slug: round(float(points[line.id].running - target[line.id]), 2) for line in lines}
    borrows = {slug: slots for slug, slots in gap.items() if slots > 0}
    lends = {slug: -slots for slug, slots in gap.items() if slots < 0}
    whole = sum(point.running for point in points.values())
    mine = points[holder.id].running
    text = (
        f"The {kind} {holder.slug} runs {mine} of {whole} busy slots and should have {float(target[holder.id]):.1f};"
        f" it borrows from {', '.join(lends) or 'nobody now'}."
    )
    evidence = {
        "running": {line.slug: points[line.id].running for line in lines},
        "should_have": {line.slug: round(float(target[line.id]), 2) for line in lines},
        "queued": {line.slug: points[line.id].queued for line in lines},
        "borrows": borrows,
        "lends": lends,
        "window_s": limits["window_s"],
    }
    return Finding(
        rule=NAME,
        subject=f"{kind}:{holder.slug}",
        severity="warning",
        text=text,
        evidence=evidence,
        pool_id=view.pool_id,
        class_id=holder.id if kind == "class" else None,
        # other tenants' numbers are in the evidence, so a tenant's own people do not get to see it
    )


RULE = Rule(
    name=NAME,
    scope="class or tenant",
    text="The same class or tenant has most of the slots, more than it should, while others wait.",
    thresholds=(
        Threshold("window_s", 120, 10, 600, WINDOW.text),
        Threshold("share_percent", 60, 1, 100, "part of the busy slots that counts as most", eases=True),
        Threshold("above_percent", 120, 100, 10_000, "slots against those that it should have", eases=False),
        Threshold("steps_percent", 80, 1, 100, "part of the window in which it has to be so", eases=True),
    ),
    scan=scan,
)
