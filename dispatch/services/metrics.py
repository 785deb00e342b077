"""The numbers of /metrics: gauges of now, totals since the beginning, shares over windows.

Gauges and totals come from the database, so every web process tells the same: take one of them, never add them up.
`evenflow_lease_renewals_total` alone is each process's own count and may be added. One reading is kept for KEEP_S
seconds. Labels are names of policy objects, states and the DEAD_TOP most frequent fingerprints, never tasks or users.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dispatch.core.samples import add_counts
from dispatch.core.states import Outcome
from dispatch.models import Pool
from dispatch.services import access, numbers, slo, stats, tally
from dispatch.services.heartbeat import RENEWALS
from dispatch.services.messages import Caller
from dispatch.services.numbers import Numbers
from dispatch.store import db

KEEP_S = 5.0
DEAD_TOP = 10
RECLAIMS = (Outcome.LOST, Outcome.STALLED, Outcome.TIMED_OUT, Outcome.EXPIRED, Outcome.PREEMPTED)
TIERS = {"dispatched_w": "weight", "dispatched_g": "guarantee", "dispatched_p": "promotion"}

Labels = tuple[str, ...]


@dataclass(slots=True)
class Family:
    """One metric: `kind` gauge, counter or histogram; samples by their labels' values.

    A histogram's value is (counts by bucket of core/samples.py, their sum in seconds).
    """

    name: str
    kind: str
    text: str
    labels: Labels = ()
    samples: dict[Labels, Any] = field(default_factory=dict)


_lock = threading.Lock()
_kept: dict[int | None, tuple[float, list[Family]]] = {}


def collect(caller: Caller) -> list[Family]:
    """All metrics (scope `read` for all tenants); a key that is bound to a pool gets that pool's."""
    access.require_everywhere(caller, "read")
    with _lock:  # of many scrapers one reads, the others wait for it
        kept = _kept.get(caller.pool_id)
        if kept is None or kept[0] <= time.monotonic():
            with db.atomic():
                kept = time.monotonic() + KEEP_S, _read(caller)
            _kept[caller.pool_id] = kept
    return [*kept[1], _renewals()]


def forget() -> None:
    """Read afresh next time."""
    with _lock:
        _kept.clear()


def _renewals() -> Family:
    text = "Leases in heartbeats that this process answered, by result."
    found = {"renewed": 0, "lost": 0} | tally.of(RENEWALS)
    return Family("evenflow_lease_renewals", "counter", text, ("result",), {(k,): n for k, n in found.items()})


def _read(caller: Caller) -> list[Family]:
    found = Pool.objects.filter(archived_at=None, **({"pk": caller.pool_id} if caller.pool_id else {}))
    slugs = found.order_by("pk").values_list("slug", flat=True)
    pools = [numbers.read(caller, slug, stats.DEFAULT_WINDOW_S) for slug in slugs]
    scope = {"pool_id": caller.pool_id}
    return [
        *_queues(pools),
        *_shares(pools),
        *_workers(pools),
        *_totals(db.rows("metric_totals", scope)),
        _dead(scope),
        Family(
            "evenflow_alerts_firing",
            "gauge",
            "Alerts that fire: open, not acknowledged, not muted.",
            ("rule",),
            {(row["rule"],): row["count"] for row in db.rows("metric_alerts", scope)},
        ),
    ]


def _queues(pools: Sequence[Numbers]) -> list[Family]:
    of = ("class", "tenant")
    depth = Family("evenflow_queue_depth", "gauge", "Tasks by state; queued ones can start.", (*of, "state"))
    oldest = Family("evenflow_queue_oldest_age_seconds", "gauge", "How long the oldest startable task has waited.", of)
    for found in pools:
        classes = {row["id"]: row["slug"] for row in found.classes}
        tenants = {row["id"]: row["slug"] for row in found.tenants}
        for (class_id, tenant_id), count in found.by(lambda lane: (lane["class_id"], lane["tenant_id"])).items():
            if class_id not in classes or tenant_id not in tenants:
                continue
            key = classes[class_id], tenants[tenant_id]
            states = {"queued": count.startable, "limited": count.limited, "scheduled": count.scheduled}
            for state, number in (states | {"held": count.held, "leased": count.running}).items():
                depth.samples[*key, state] = number
            oldest.samples[key] = count.oldest_age_s or 0.0
    return [depth, oldest]


def _shares(pools: Sequence[Numbers]) -> list[Family]:
    of = ("class", "tenant", "window")
    target = Family("evenflow_share_target_ratio", "gauge", "Share of the slots that a class is heading for.", of)
    achieved = Family(
        "evenflow_share_achieved_ratio", "gauge", "Share of the slot-seconds: of a class, or of a tenant inside it.", of
    )
    deficit = Family(
        "evenflow_deficit_credits", "gauge", "Cost that a class is owed; negative: it is ahead.", ("class",)
    )
    burn = Family(
        "evenflow_slo_burn_rate",
        "gauge",
        "How fast a class uses up what may miss its target; 1: exactly as fast as it may.",
        ("class", "target", "window"),
    )
    for found in pools:
        slugs = {row["id"]: row["slug"] for row in found.classes}
        served: dict[str, float] = defaultdict(float)
        rows = db.rows("metric_shares", {"pool_id": found.pool["id"]})
        for row in rows:
            if row["tenant"] is None:
                served[row["name"]] += row["slot_s"]
        for row in rows:
            key = row["class"], row["tenant"] or "", row["name"]
            achieved.samples[key] = row["slot_s"] / served[row["name"]] if served[row["name"]] else 0.0
            if row["tenant"] is None and row["target"] is not None:
                target.samples[key] = row["target"]
        for class_id, owed in numbers.deficits(found.pool["id"], found.classes).items():
            deficit.samples[slugs[class_id],] = owed
        for class_id, kinds in slo.of_classes(found.pool["id"]).items():
            for kind, windows in kinds.items():
                for name, window in windows.items():
                    if class_id in slugs and window["burn"] is not None:
                        burn.samples[slugs[class_id], kind, name] = window["burn"]
    return [target, achieved, deficit, burn]


def _workers(pools: Sequence[Numbers]) -> list[Family]:
    slots = Family("evenflow_worker_slots", "gauge", "Slots of workers by what they do.", ("pool", "state"))
    wanted = Family(
        "evenflow_slots_wanted",
        "gauge",
        "Slots that could be used now: running plus startable tasks; what an autoscaler should aim at.",
        ("pool", "capabilities"),
    )
    cycle = Family("evenflow_dispatch_cycle_seconds", "gauge", "How long the last dispatch cycle took.", ("pool",))
    beat = Family(
        "evenflow_dispatcher_beat_age_seconds", "gauge", "Since the dispatcher's last sign of life.", ("pool",)
    )
    for found in pools:
        pool = found.pool["slug"]
        states = {"busy": 0, "free": 0, "unavailable": 0, "stale": 0}
        for worker in found.workers:
            busy = min(worker["running"], worker["slots"])
            rest = "free" if numbers.counts(worker) else "unavailable" if worker["alive"] else "stale"
            states["busy"] += busy
            states[rest] += worker["slots"] - busy
        slots.samples |= {(pool, state): number for state, number in states.items()}
        for row in stats.wanted(found):
            wanted.samples[pool, ",".join(row["capabilities"])] = row["slots"]
        if found.pool["cycle_ms"] is not None:
            cycle.samples[pool,] = found.pool["cycle_ms"] / 1000
        if found.pool["beat_age_s"] is not None:
            beat.samples[pool,] = max(0.0, found.pool["beat_age_s"])
    return [slots, wanted, cycle, beat]


def _totals(rows: Sequence[dict[str, Any]]) -> list[Family]:
    of = ("class", "tenant")
    dispatched = Family("evenflow_dispatches", "counter", "Tasks handed out, by what they won by.", (*of, "reason"))
    ended = Family("evenflow_attempts", "counter", "Attempts that ended, by outcome.", (*of, "outcome"))
    reclaimed = Family("evenflow_reclaims", "counter", "Leases taken back, by cause.", ("cause",))
    waits = Family("evenflow_queue_wait_seconds", "histogram", "Wait of tasks for their first start.", ("class",))
    reclaimed.samples = {(outcome.word,): 0 for outcome in RECLAIMS}
    for row in rows:
        key = row["class"], row["tenant"]
        for column, reason in TIERS.items():
            dispatched.samples[*key, reason] = row[column]
        for number, count in enumerate(row["ends"]):
            ended.samples[*key, Outcome(number).word] = count
            if Outcome(number) in RECLAIMS:
                reclaimed.samples[Outcome(number).word,] += count
        counts, total = waits.samples.get((row["class"],), ([], 0.0))
        waits.samples[row["class"],] = add_counts([counts, row["waits"]]), total + row["wait_s"]
    return [dispatched, ended, reclaimed, waits]


def _dead(scope: dict[str, Any]) -> Family:
    """Dead letters by class; the most frequent fingerprints by name, the others together."""
    dead = Family(
        "evenflow_dead_letters", "gauge", "Dead letters by class and fingerprint.", ("class", "fingerprint_top")
    )
    rest: dict[str, int] = defaultdict(int)
    for row in db.rows("metric_depths", scope):
        rest[row["class"]] += row["dead"]
    for row in db.rows("metric_dead_groups", {**scope, "limit": DEAD_TOP}):
        count = min(row["count"], rest[row["class"]])
        rest[row["class"]] -= count
        dead.samples[row["class"], row["fingerprint"] or "-"] = count
    dead.samples |= {(slug, "other"): count for slug, count in rest.items()}
    return dead
