"""Lines over time out of the samples: what charts draw, reports add up and rules are tried on.

The resolution is picked so that a line has at most about `points` values; a query reads at most some thousand rows of
an index per line, however long the span (tests/store/test_sample_plans.py).
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from dispatch.core import validate
from dispatch.core.samples import percentile, step_for
from dispatch.core.states import COUNTED, Outcome
from dispatch.errors import Invalid
from dispatch.services import access, numbers
from dispatch.services.messages import Caller
from dispatch.store import db

LINES = ("class", "tenant", "queue", "pool")
MAX_SPAN_S = 400 * 86400.0
MAX_POINTS = 2000


def series(
    caller: Caller,
    pool: str | None = None,
    *,
    span_s: float = 3600,
    until: datetime | None = None,
    points: int = 300,
    by: str = "class",
) -> dict[str, Any]:
    """Lines of a pool over the `span_s` seconds before `until` (None: now), by class, tenant, queue or pool.

    Answer: `{"pool", "step_s", "since", "until", "lines": {slug: [point, …]}}`, each line oldest first, points `step_s`
    seconds apart with gaps where nobody sampled. A point: `at` (begin of the step), `queued`, `limited`, `running`
    (means), `oldest_age_s` (largest, None: nothing waited), `dispatched_per_s`, `wait_p50_s`, `wait_p95_s`,
    `wait_p99_s` (first starts, None: none), `share` (part 0..1 of the slot-seconds of all lines), `share_target`
    (classes only), `slots` (pool only), `succeeded`, `failed`, `dead` (counts), `queue_met`, `done_met` (parts 0..1
    that kept the SLO, None: no SLO or nothing to judge). Scope `read`; callers of some tenants see lines of those
    tenants only, and nothing by class or pool: by queue they see what they have in each class.
    """
    access.require(caller, "read")
    problems = [
        ("span_s", validate.number(span_s, 1, MAX_SPAN_S)),
        ("points", validate.whole(points, 1, MAX_POINTS)),
        ("by", None if by in LINES else f"must be one of {', '.join(LINES)}"),
        ("until", None if until is None else validate.moment(until)),
    ]
    if found := [(name, problem) for name, problem in problems if problem]:
        raise Invalid(*found)
    with db.atomic():
        of = numbers.find_pool(caller, pool)
        step = step_for(span_s, points, 1 if by == "class" else 10)
        bin_s = step * max(1, -(-int(span_s) // (step * points)))
        end = until or of["at"]
        since = end - timedelta(seconds=span_s)
        visible = access.visible_tenants(caller)
        answer = {"pool": of["slug"], "step_s": bin_s, "since": since, "until": end, "lines": {}}
        if visible is not None and by not in ("tenant", "queue"):
            return answer
        asked = {"pool_id": of["id"], "step": step, "bin_s": bin_s, "by": by, "since": since, "until": end}
        rows = db.rows("sample_series", {**asked, "tenants": visible})
        names = {"class": "numbers_classes", "queue": "numbers_classes", "tenant": "numbers_tenants"}
        scope = {"pool_id": of["id"], "tenants": visible}
        slugs = {row["id"]: row["slug"] for row in db.rows(names[by], scope)} if by in names else {None: of["slug"]}
    answer["lines"] = _lines(rows, slugs)
    return answer


def _lines(rows: list[dict[str, Any]], slugs: Mapping[Any, str]) -> dict[str, list[dict[str, Any]]]:
    served: dict[datetime, float] = {}
    for row in rows:
        served[row["at"]] = served.get(row["at"], 0.0) + row["slot_s"]
    lines: dict[str, list[dict[str, Any]]] = {slug: [] for slug in slugs.values()}
    for row in rows:
        if row["key"] in slugs:
            lines[slugs[row["key"]]].append(_point(row, served[row["at"]]))
    return lines


def _point(row: Mapping[str, Any], served: float) -> dict[str, Any]:
    ends = row["ends"] + [0] * (len(Outcome) - len(row["ends"]))
    return {
        **{name: row[name] for name in ("at", "queued", "limited", "running", "oldest_age_s", "slots", "dead")},
        "dispatched_per_s": row["dispatched"] / row["covered_s"] if row["covered_s"] else 0.0,
        **{f"wait_p{part}_s": percentile(row["waits"], part / 100) for part in (50, 95, 99)},
        "share": row["slot_s"] / served if served else 0.0,
        "share_target": row["target"],
        "succeeded": ends[Outcome.SUCCEEDED],
        "failed": sum(ends[outcome] for outcome in COUNTED),
        "queue_met": row["queue_met"] / row["queue_n"] if row["queue_n"] else None,
        "done_met": row["done_met"] / row["done_n"] if row["done_n"] else None,
    }
