"""The limits of a tenant on submitting: waiting tasks, submits a minute (over all pools), lanes (per pool).

Where a tenant has a limit its submits run one after another (a transaction-long lock), so two never pass it together.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dispatch.errors import RateLimited
from dispatch.store import db

MINUTE_S = 60.0
ROOMY_S = 10.0
STOPPABLE = ("tenants", "classes", "users")
RETRY_FULL_S = 5.0  # when a full queue will have room again is unknown


def check_rates(tenant_ids: Sequence[int], tenants: Mapping[int, Mapping[str, Any]]) -> None:
    """Raise RateLimited when these new tasks pass their tenant's `max_queued` or `submit_per_minute`."""
    wanted = Counter(tenant_ids)
    limited = sorted(
        tenant
        for tenant in wanted
        if tenants[tenant]["max_queued"] is not None or tenants[tenant]["submit_per_minute"] is not None
    )
    if not limited:
        return
    db.rows("lock_tenant_limits", {"tenants": limited})
    waiting = dict(db.tuples("tenant_waiting", {"tenants": limited}))
    for tenant in limited:
        _check_queued(tenants[tenant], waiting.get(tenant, 0), wanted[tenant])
        _check_minute(tenants[tenant], wanted[tenant])


def check_stopped(tasks: Iterable[tuple[int, int, str]], tenants: Mapping[int, Mapping[str, Any]]) -> None:
    """Raise RateLimited when a spent budget of the tenant takes no new tasks; `tasks` are (tenant, class, user)s."""
    asked = sorted({task for task in tasks if tenants[task[0]]["stops"]})
    if not asked:
        return
    columns: dict[str, Any] = {name: [task[place] for task in asked] for place, name in enumerate(STOPPABLE)}
    if row := db.one("stopped_budgets", columns):
        until = f" until {row['ends_at']:%Y-%m-%d %H:%M} UTC" if row["ends_at"] else ""
        raise RateLimited(
            f"The budget {row['slug']} of the tenant {row['tenant']} is used up{until} and takes no new tasks.",
            retry_after_s=RETRY_FULL_S if row["ends_in_s"] is None else row["ends_in_s"],
        )


def _check_queued(tenant: Mapping[str, Any], waiting: int, wanted: int) -> None:
    most = tenant["max_queued"]
    if most is not None and waiting + wanted > most:
        raise RateLimited(
            f"The tenant {tenant['slug']} has {waiting} of at most {most} waiting tasks.", retry_after_s=RETRY_FULL_S
        )


def _check_minute(tenant: Mapping[str, Any], wanted: int) -> None:
    """The window slides: of the newest `most` tasks, these new ones included, the oldest must be a minute old."""
    most = tenant["submit_per_minute"]
    if most is None:
        return
    row = None
    if wanted <= most:
        row = db.one("nth_newest_task", {"tenant_id": tenant["id"], "n": most - wanted})
        if row is None or row["age_s"] >= MINUTE_S:
            return
    wait = MINUTE_S - row["age_s"] if row else MINUTE_S
    raise RateLimited(f"The tenant {tenant['slug']} may submit {most} tasks a minute.", retry_after_s=max(wait, 1.0))


_roomy: dict[tuple[int, int, int], float] = {}  # (tenant, pool, most) → until when its lanes need no new count


def check_lanes(lanes: Iterable[tuple[int, int, int]], most: int, *, known: bool) -> None:
    """Raise RateLimited when (tenant, pool, lane)s of new tasks would leave a tenant too many lanes with queued work.

    Lanes with and without work are counted first, which is cheap; only beyond the limit is their work looked at. Lanes
    that are all `known` cannot raise that count, so it is believed for ROOMY_S (others may make lanes meanwhile, and
    count them themselves).
    """
    wanted: dict[tuple[int, int], set[int]] = defaultdict(set)
    for tenant_id, pool_id, lane_id in lanes:
        if not known or _roomy.get((tenant_id, pool_id, most), 0.0) < time.monotonic():
            wanted[tenant_id, pool_id].add(lane_id)
    params = {"tenants": [key[0] for key in wanted], "pools": [key[1] for key in wanted]}
    for tenant_id, pool_id, count in db.tuples("count_lanes", params) if wanted else []:
        if count <= most:
            _roomy[tenant_id, pool_id, most] = time.monotonic() + ROOMY_S
            continue
        _roomy.pop((tenant_id, pool_id, most), None)
        queued = {row[0] for row in db.tuples("queued_lanes", {"tenant_id": tenant_id, "pool_id": pool_id})}
        if len(queued | wanted[tenant_id, pool_id]) > most:
            raise RateLimited(f"A tenant may have queued work in {most} lanes of a pool.", retry_after_s=RETRY_FULL_S)
