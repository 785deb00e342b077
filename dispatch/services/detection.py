"""Looks at every pool with every detector, raises what is found and resolves what is not any more.

Run by the reconciler every few seconds. Cost: the samples of the last minutes (bounded by classes and tenants), the
workers, and what died or stalled lately; never the backlog.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from dispatch.core.alerting import Finding
from dispatch.core.detectors import RULES, Deaths, Line, Point, Stalls, View
from dispatch.models import Pool
from dispatch.services import access, alerts, numbers, rules
from dispatch.store import db

STEP_S = 5  # width of a point of a class
TENANT_STEP_S = 10  # and of a tenant
SPAN_S = 600  # the longest window that a rule can have
CARRY = 3  # steps for which the last known point stands where nobody sampled

logger = logging.getLogger(__name__)

Row = Mapping[str, Any]


def detect() -> int:
    """One round over all pools; how many findings there are."""
    found = 0
    for first, slug in enumerate(Pool.objects.filter(archived_at=None).order_by("pk").values_list("slug", flat=True)):
        with db.atomic():
            view = read(slug)
            found += sum(_settle(view, name, findings) for name, findings in scan(view, fleet=not first).items())
    return found


def scan(view: View, *, fleet: bool = True) -> dict[str, list[Finding]]:
    """What each rule finds in a view; `fleet`: also the rules that are about no pool."""
    open_subjects: dict[str, set[str]] = defaultdict(set)
    for name, subject in db.tuples("open_subjects", {"rules": list(RULES)}):
        open_subjects[name].add(subject)
    told = rules.dials({name: frozenset(subjects) for name, subjects in open_subjects.items()})
    found: dict[str, list[Finding]] = {}
    for name, rule in RULES.items():
        if fleet or rule.scope != "fleet":
            try:
                found[name] = rule.scan(view, told[name])
            except Exception:  # one detector that fails leaves its alerts as they are, and the others at work
                logger.exception("the detector %s failed", name, extra={"action": "detector_failed"})
    return found


def _settle(view: View, name: str, findings: list[Finding]) -> int:
    pool_id = None if RULES[name].scope == "fleet" else view.pool_id
    for fresh in alerts.settle(name, findings, pool_id):
        logger.warning("%s", fresh.text, extra={"action": "alert", "rule": name})
    return len(findings)


def read(slug: str) -> View:
    """A pool as the detectors see it now."""
    pool = numbers.find_pool(access.system("detectors"), slug)
    alive = numbers.live_slots(pool)
    windows = {name: told.defaults.get("window_s", 0) for name, told in rules.dials({}).items()}
    of = {"pool_id": pool["id"]}
    lag_s = db.rows("reconciler_lag")[0]["lag_s"]
    row = Pool.objects.get(pk=pool["id"])
    return View(
        pool_id=pool["id"],
        pool=slug,
        classes=_classes(pool["id"]),
        tenants=_tenants(pool["id"]),
        slots=alive if row.budget is None else min(alive, row.budget),
        promotion_slots=row.promotion_slots or 0,
        paused=row.paused,
        beat_age_ms=_ms(pool["beat_age_s"]),
        cycle_ms=None if pool["cycle_ms"] is None else round(pool["cycle_ms"]),
        late_ms=_ms(lag_s),
        deaths=tuple(
            Deaths(**death)
            for death in db.rows(
                "detector_deaths",
                {**of, "window_s": windows["dead_letters_rising"], "lost_window_s": windows["poison_tasks"]},
            )
        ),
        stalls=tuple(
            Stalls(**stall) for stall in db.rows("detector_stalls", {**of, "window_s": windows["stalled_agents"]})
        ),
    )


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def _classes(pool_id: int) -> tuple[Line, ...]:
    points: dict[int, dict[int, Point]] = defaultdict(dict)
    for row in db.rows("detector_classes", {"pool_id": pool_id, "step_s": STEP_S, "span_s": SPAN_S}):
        points[row["id"]][row["back"]] = point(row)
    return tuple(replace(line, points=_filled(points[line.id]), step_ms=STEP_S * 1000) for line in class_lines(pool_id))


def point(row: Row) -> Point:
    """One step of a class out of a row."""
    return Point(
        queued=row["queued"],
        running=row["running"],
        age_ms=_ms(row["oldest_age_s"]),
        dispatched=row["dispatched"],
        slot_ms=round(row["slot_s"] * 1000),
        target=round(row["target"] * 1000),
        waits=tuple(row["waits"]),
        **{name: row[name] for name in ("queue_n", "queue_met", "done_n", "done_met")},
    )


def class_lines(pool_id: int) -> list[Line]:
    """The classes of a pool, without points."""
    return [
        Line(
            id=row["id"],
            slug=row["slug"],
            weight=round(row["weight"] * 1_000_000),
            level=row["level"],
            min=row["min"],
            max=row["max"],
            slo_queue_ms=_ms(row["slo_queue_s"]),
            slo_done_ms=_ms(row["slo_done_s"]),
        )
        for row in db.rows("numbers_classes", {"pool_id": pool_id})
    ]


def tenant_lines() -> list[Line]:
    """All tenants, without points; their floor is what is nominally theirs."""
    return [
        Line(
            id=row["id"],
            slug=row["slug"],
            weight=round(row["weight"] * 1_000_000),
            min=row["nominal"],
            max=row["max"],
            step_ms=TENANT_STEP_S * 1000,
        )
        for row in db.rows("numbers_tenants", {"tenants": None})
    ]


def _filled(points: Mapping[int, Point]) -> tuple[Point | None, ...]:
    """Points by steps back as a line, the newest last; a short gap keeps what was known, without flows."""
    line: list[Point | None] = []
    seen, carried = None, 0
    for back in range(max(points, default=-1), -1, -1):
        known = points.get(back)
        carried = 0 if known else carried + 1
        seen = known or seen
        if known is None and seen is not None and carried <= CARRY:
            known = replace(seen, dispatched=0, slot_ms=0, waits=(), queue_n=0, queue_met=0, done_n=0, done_met=0)
        line.append(known)
    return tuple(line)


def _tenants(pool_id: int) -> tuple[Line, ...]:
    """A tenant that has no line in a step which the pool has had nothing in it."""
    steps: set[int] = set()
    points: dict[int, dict[int, Point]] = defaultdict(dict)
    for row in db.rows("detector_tenants", {"pool_id": pool_id, "span_s": SPAN_S + 3 * TENANT_STEP_S}):
        if row["id"] is None:
            steps.add(row["at"])
        else:
            points[row["id"]][row["at"]] = Point(queued=row["queued"], running=row["running"])
    whole = range(min(steps, default=0), max(steps, default=-1) + 1, TENANT_STEP_S)
    return tuple(
        replace(line, points=_line(points[line.id], steps, whole)) for line in tenant_lines() if line.id in points
    )


def _line(points: Mapping[int, Point], steps: set[int], whole: Iterable[int]) -> tuple[Point | None, ...]:
    return tuple(points.get(at, Point()) if at in steps else None for at in whole)
