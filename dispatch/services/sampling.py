"""The sampler: one line a second for each class, every ten seconds one for each tenant of a class and for the pool.

Run by the reconciler. Ages are those of services/numbers.py, so page, API, alert and metric mean the same wait. Flows
are counted once: SampleMark says up to when. Cost: as the live page (lanes with work, leases, what ended since); where
a reading takes long, the next one waits REST times as long. `roll_up` makes the coarser resolutions, `prune` forgets.
"""

import json
import logging
import time
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from datetime import timedelta
from itertools import pairwise
from typing import Any

from django.conf import settings

from dispatch.core.samples import KEEP_S, STEPS, WAIT_BUCKETS_S, add_counts
from dispatch.services import access, numbers
from dispatch.services.numbers import Numbers, Waiting
from dispatch.store import db

LAG_S = 2.0  # flows are counted so far behind the clock: what ended before has been committed
MOST_S = 60.0  # and at most so far back: what happened while nobody sampled is not put into one second
REST = 4  # a reading that takes long is followed by a pause of so many times its duration
LONG_S = 0.25
ROLL = 500  # steps of one resolution rolled up at once
DAY_S = 86400
SUMS = ("started", "dead", "slot_s", "wait_s", "queue_n", "queue_met", "done_n", "done_met")
COUNTS = {"waits": len(WAIT_BUCKETS_S) + 1, "ends": 12}  # lists of counts and their longest
TIERS = {"W": "w", "G": "g", "P": "p", "R": "w"}  # a restart after a loss counts as a turn by weight
NOTHING = Waiting()

logger = logging.getLogger(__name__)

_rest_until: dict[int, float] = {}  # pool → monotonic time
_workers: dict[int, list[dict[str, Any]]] = {}  # pool → workers as they were when tenants were sampled last

Row = dict[str, Any]


def sample() -> None:
    """One sample of every pool."""
    for pool_id, slug in db.tuples("sampled_pools"):
        begun = time.monotonic()
        if begun < _rest_until.get(pool_id, 0):
            continue
        with db.atomic():
            _sample(pool_id, slug)
        took = time.monotonic() - begun
        if took > LONG_S:
            _rest_until[pool_id] = begun + (1 + REST) * took


def _sample(pool_id: int, slug: str) -> None:
    mark = db.rows("advance_sample_mark", {"pool_id": pool_id, "lag_s": LAG_S, "most_s": MOST_S})[0]
    found = numbers.waiting(access.system("sampler"), slug)
    if mark["crossed"] or pool_id not in _workers:
        _workers[pool_id] = numbers.live_workers(found.pool)
    found.workers = _workers[pool_id]
    numbers.divide(found)
    flows = _flows(pool_id, mark["flow_from"], mark["flow_to"])
    classes, totals = _decided(pool_id, mark)
    _add_totals(pool_id, flows, totals)
    per_class = _grouped(flows, lambda key: key[0])
    ages = found.by(lambda lane: lane["class_id"])
    lines = [
        {"class_id": row["id"], "target": found.targets.get(row["id"], 0.0), "dispatched": classes.get(row["id"], 0)}
        | _line(ages.get(row["id"], NOTHING), per_class.get(row["id"], {}))
        for row in found.classes
    ]
    _insert(pool_id, 1, mark["at"], mark["flow_to"] - mark["flow_from"], lines)
    if mark["crossed"]:
        _sample_tenants(pool_id, mark, found)


def _sample_tenants(pool_id: int, mark: Row, found: Numbers) -> None:
    """The lines of tenants that have or did anything, and the line of the pool, for the ten seconds that ended."""
    flows = _flows(pool_id, mark["tenants_from"], mark["flow_to"])
    ages = found.by(lambda lane: (lane["class_id"], lane["tenant_id"]))
    known = {row["id"] for row in found.classes}
    lines = [
        {"class_id": class_id, "tenant_id": tenant_id, "dispatched": flow.get("started", 0)} | _line(count, flow)
        for class_id, tenant_id in sorted(ages.keys() | flows.keys())
        if class_id in known
        for count, flow in [(ages.get((class_id, tenant_id), NOTHING), flows.get((class_id, tenant_id), {}))]
    ]
    whole = found.by(lambda lane: None).get(None, NOTHING)
    flow = _grouped(flows, lambda key: None).get(None, {})
    lines.append({"slots": found.slots, "dispatched": flow.get("started", 0)} | _line(whole, flow))
    _insert(pool_id, 10, mark["step_at"], mark["flow_to"] - mark["tenants_from"], lines)


def _flows(pool_id: int, since: Any, until: Any) -> dict[tuple[int, int], Row]:
    """What happened between two times, by class and tenant."""
    asked = {"pool_id": pool_id, "since": since, "until": until, "buckets": list(WAIT_BUCKETS_S)}
    return {
        (row["class_id"], row["tenant_id"]): row | {name: _list(row[name], most) for name, most in COUNTS.items()}
        for row in db.rows("sample_flow", asked)
    }


def _list(counts: Mapping[str, int], most: int) -> list[int]:
    """Counts by number as a list, without the zeros at its end."""
    length = min(most, max(map(int, counts), default=-1) + 1)
    return [counts.get(str(number), 0) for number in range(length)]


def _grouped(flows: Mapping[tuple[int, int], Row], key: Any) -> dict[Hashable, Row]:
    groups: dict[Hashable, list[Row]] = defaultdict(list)
    for of, flow in flows.items():
        groups[key(of)].append(flow)
    return {of: _sum(found) for of, found in groups.items()}


def _sum(flows: Iterable[Row]) -> Row:
    found = list(flows)
    sums: Row = {name: sum(flow[name] for flow in found) for name in SUMS}
    return sums | {name: add_counts(flow[name] for flow in found) for name in COUNTS}


def _line(count: Waiting, flow: Row) -> Row:
    empty: Row = dict.fromkeys(SUMS, 0) | {name: [] for name in COUNTS}
    return {
        "queued": count.queued,
        "limited": count.limited,
        "scheduled": count.scheduled,
        "held": count.held,
        "running": count.running,
        "oldest_age_s": count.oldest_age_s,
        "limited_oldest_age_s": count.limited_oldest_age_s,
        **{name: flow.get(name, nothing) for name, nothing in empty.items()},
    }


def _decided(pool_id: int, mark: Row) -> tuple[dict[int, int], dict[tuple[int, int], dict[str, int]]]:
    """What the dispatcher handed out since the last sample: by class, and by class, tenant and tier."""
    classes: dict[int, int] = {}
    tiers: dict[tuple[int, int], dict[str, int]] = defaultdict(lambda: dict.fromkeys(TIERS.values(), 0))
    asked = {"pool_id": pool_id, "after": mark["decision_from"], "upto": mark["decision_id"]}
    for key, count, of_class in db.tuples("sample_decisions", asked):
        if of_class:
            classes[int(key)] = classes.get(int(key), 0) + count
        else:
            class_id, tenant_id, tier = key.split("/")
            tiers[int(class_id), int(tenant_id)][TIERS[tier]] += count
    return classes, tiers


def _add_totals(
    pool_id: int, flows: Mapping[tuple[int, int], Row], tiers: Mapping[tuple[int, int], dict[str, int]]
) -> None:
    none = dict.fromkeys(TIERS.values(), 0)
    rows = [
        {"class_id": key[0], "tenant_id": key[1], **_line(NOTHING, flows.get(key, {})), **tiers.get(key, none)}
        for key in sorted(flows.keys() | tiers.keys())
    ]
    if rows:
        db.execute("add_flow_totals", {"pool_id": pool_id, "rows": json.dumps(rows)})


def _insert(pool_id: int, step: int, at: Any, covered: timedelta, lines: list[Row]) -> None:
    given = {"at": at, "step": step, "pool_id": pool_id, "covered_s": covered.total_seconds()}
    db.execute("insert_samples", given | {"rows": json.dumps(lines)})


def roll_up() -> int:
    """Fill the coarser resolutions as far as the finer ones reach; lines written."""
    written = 0
    for source, target in pairwise(STEPS):
        with db.atomic():
            written += db.execute("roll_up_samples", {"source": source, "target": target, "most": ROLL})
    return written


def prune() -> int:
    """Forget samples past their time; lines dropped."""
    dropped = 0
    for step, after in zip(STEPS, (*STEPS[1:], None), strict=True):
        keep_s = KEEP_S.get(step, settings.EVENFLOW_SAMPLES_DAYS * DAY_S)
        with db.atomic():
            dropped += db.execute("drop_old_samples", {"step": step, "keep_s": keep_s, "next": after})
    return dropped
