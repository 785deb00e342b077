"""Tries a rule on recorded samples: when would it have fired, about what, for how long.

Spans up to three hours are looked at every 10 seconds, longer ones (up to two days) every minute, each time as the
detector would have been then, with what it had open. What waited in a step is its mean here and its least in the live
detector, so a back-test may ring a little earlier. Rules that look at other facts than samples cannot be tried.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from dispatch.core import validate
from dispatch.core.alerting import Finding
from dispatch.core.detectors import RULES, Line, Point, Rule, View
from dispatch.core.samples import KEEP_S
from dispatch.errors import Invalid, NotFound
from dispatch.services import access, detection, numbers, rules
from dispatch.services.messages import Caller
from dispatch.store import db

MAX_SPAN_S = float(KEEP_S[60])
SHOWN = 200  # incidents in an answer; all are counted


def backtest(
    caller: Caller,
    name: str,
    thresholds: Mapping[str, Any] | None = None,
    *,
    pool: str | None = None,
    span_s: float = 3600,
) -> dict[str, Any]:
    """Try a rule, with some thresholds changed, on the last `span_s` seconds (scope `read` for all tenants).

    Answer: `{"rule", "pool", "since", "until", "step_s", "looked", "count", "firing_s", "incidents"}`; an incident has
    `subject`, `severity` (its worst), `began`, `ended` (None: it still fired at the end) and the `text` it began with.
    What is set for single classes holds; what the rule is told in general is replaced by `thresholds`.
    """
    access.require_everywhere(caller, "read")
    rule = _rule(name)
    changed = dict(thresholds or {})
    problems = rules.threshold_problems(rule, changed)
    if problem := validate.number(span_s, 60, MAX_SPAN_S):
        problems.append(("span_s", problem))
    if problems:
        raise Invalid(*problems)
    step = 10 if span_s <= KEEP_S[10] else 60
    with db.atomic():
        of = numbers.find_pool(caller, pool)
        dials = rules.made(rule, rules.stored(name))
        told = replace(dials, defaults={**dials.defaults, **changed}, off=frozenset())
        moments, views = _views(of, step, span_s, told.defaults.get("window_s", step))
    incidents = _incidents(rule, told, moments, views)
    ends = [(one["ended"] or of["at"]) - one["began"] for one in incidents]
    return {
        "rule": name,
        "pool": of["slug"],
        "since": of["at"] - timedelta(seconds=span_s),
        "until": of["at"],
        "step_s": step,
        "looked": len(views),
        "count": len(incidents),
        "firing_s": sum(end.total_seconds() for end in ends),
        "incidents": incidents[-SHOWN:][::-1],
    }


def _rule(name: str) -> Rule:
    rule = RULES.get(name)
    if rule is None:
        raise NotFound(rules.MISSING)
    if not rule.replays:
        raise Invalid(("rule", "looks at more than samples, so it cannot be tried on them"))
    return rule


def _incidents(rule: Rule, dials: Any, moments: list[datetime], views: list[View]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    open_now: dict[str, dict[str, Any]] = {}
    for at, view in zip(moments, views, strict=True):
        findings = {one.subject: one for one in rule.scan(view, replace(dials, open=frozenset(open_now)))}
        for subject in open_now.keys() - findings.keys():
            open_now.pop(subject)["ended"] = at
        for subject, finding in findings.items():
            incident = open_now.get(subject)
            if incident is None:
                incident = open_now[subject] = _began(finding, at)
                found.append(incident)
            elif finding.severity == "critical":
                incident["severity"] = "critical"
    return found


def _began(finding: Finding, at: datetime) -> dict[str, Any]:
    return {
        "subject": finding.subject,
        "severity": finding.severity,
        "began": at,
        "ended": None,
        "text": finding.text,
    }


def _views(pool: Mapping[str, Any], step: int, span_s: float, window_s: int) -> tuple[list[datetime], list[View]]:
    """The pool at the end of every step of the span, each with the points that a window needs."""
    asked = {"pool_id": pool["id"], "step": step, "span_s": span_s + window_s}
    grid: list[datetime] = []
    slots: list[int] = []
    classes: dict[int, dict[datetime, Point]] = defaultdict(dict)
    tenants: dict[int, dict[datetime, Point]] = defaultdict(dict)
    for row in db.rows("backtest_points", asked):
        if row["class_id"] is not None:
            classes[row["class_id"]][row["at"]] = detection.point(row)
        elif row["tenant_id"] is not None:
            tenants[row["tenant_id"]][row["at"]] = detection.point(row)
        else:
            grid.append(row["at"])
            slots.append(row["slots"] or 0)
    of_classes = {line.id: (line, _along(grid, classes[line.id])) for line in detection.class_lines(pool["id"])}
    of_tenants = {
        line.id: (line, [tenants[line.id].get(at, Point()) for at in grid])
        for line in detection.tenant_lines()
        if line.id in tenants
    }
    deep = max(1, -(-window_s // step))
    first = next((n for n, at in enumerate(grid) if at > pool["at"] - timedelta(seconds=span_s)), len(grid))
    views = [
        View(
            pool_id=pool["id"],
            pool=pool["slug"],
            classes=_cut(of_classes, n, deep, step),
            tenants=_cut(of_tenants, n, deep, step),
            slots=slots[n],
            beat_age_ms=0,
        )
        for n in range(first, len(grid))
    ]
    return [at + timedelta(seconds=step) for at in grid[first:]], views


def _along(grid: list[datetime], points: Mapping[datetime, Point]) -> list[Point | None]:
    return [points.get(at) for at in grid]


def _cut(lines: Mapping[int, tuple[Line, list[Any]]], n: int, deep: int, step: int) -> tuple[Line, ...]:
    return tuple(
        replace(line, points=tuple(points[max(0, n + 1 - deep) : n + 1]), step_ms=step * 1000)
        for line, points in lines.values()
    )
