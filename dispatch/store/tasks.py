"""The filtered list of tasks: a statement put together from fixed parts, values always as parameters.

Every part names the index that serves it. Orders: `-id` newest first, `id` oldest first, `-finished_at` and
`finished_at` (final tasks only), `queued_at` longest waiting first (queued tasks only). Pages are keyset pages: the
position is (order value, id) of the last row seen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from dispatch.store import db

_COLUMNS = """
SELECT t.id, t.type, t.state, t.priority, t.key, t.attempts, t.losses,
       t.starts + (e.delivered_at IS NOT NULL)::int AS starts, t.created_at, t.enqueued_at,
       t.queued_at, t.run_at, t.finished_at, t.deadline, t.cancel_requested, t.reason, t.fingerprint, t.error,
       t.cost_hint, t.lane_id, t.tenant_id, p.slug AS pool, c.slug AS class, n.slug AS tenant, u.name AS "user",
       coalesce(t.max_attempts, c.max_attempts) AS attempts_allowed, w.name AS worker, e.expires_at,
       CASE WHEN t.state = 1 THEN greatest(0, extract(epoch FROM now() - t.queued_at))::float8 END AS queue_age_s
  FROM ({page}) t
  JOIN lane l ON l.id = t.lane_id
  JOIN pool p ON p.id = t.pool_id
  JOIN work_class c ON c.id = t.work_class_id
  JOIN tenant n ON n.id = t.tenant_id
  JOIN tenant_user u ON u.id = l.user_id
  LEFT JOIN lease e ON e.task_id = t.id
  LEFT JOIN worker_session x ON x.id = e.session_id
  LEFT JOIN worker w ON w.id = x.worker_id
 ORDER BY {order}
"""

# filter → condition; `%(name)s` is its value
CONDITIONS: Mapping[str, str] = {
    "scheduled": "t.state = 0",  # constants, so that the partial indexes match
    "queued": "t.state = 1",
    # what runs is found by its lease: task has no index on leased rows (a stale plan on one costs dispatch dearly)
    "leased": "t.state = 2 AND t.id = ANY (ARRAY(SELECT task_id FROM lease))",
    "held": "t.state = 3",
    "succeeded": "t.state = 4",
    "dead": "t.state = 5",
    "cancelled": "t.state = 6",
    "unfinished": "t.state IN (0, 1, 2, 3)",
    "states": "t.state = ANY (%(states)s::smallint[])",
    "class_id": "t.work_class_id = %(class_id)s",  # task_class
    "tenant_ids": "t.tenant_id = ANY (%(tenant_ids)s::bigint[])",  # task_tenant
    "pool_id": "t.pool_id = %(pool_id)s",
    "user": "t.lane_id IN (SELECT b.id FROM lane b JOIN tenant_user v ON v.id = b.user_id WHERE v.name = %(user)s)",
    "capability": "t.lane_id IN (SELECT b.id FROM lane b JOIN capset s ON s.id = b.capset_id"
    " WHERE %(capability)s = ANY (s.names))",
    "tool_id": "t.lane_id IN (SELECT b.id FROM lane b WHERE %(tool_id)s::bigint = ANY (b.tools))",
    "worker": "t.id = ANY (ARRAY(SELECT g.task_id FROM worker v JOIN worker_session y ON y.worker_id = v.id"
    " JOIN lease g ON g.session_id = y.id WHERE v.name = %(worker)s))",  # lease_session
    "ids": "t.id = ANY (%(ids)s::bigint[])",
    "type": "t.type = %(type)s",
    "fingerprint": "t.fingerprint = ANY (%(fingerprint)s::text[])",  # task_dead
    "error": "t.error ->> 'message' ILIKE %(error)s",
    "min_age_s": "t.state = 1 AND t.queued_at <= now() - make_interval(secs => %(min_age_s)s::float8)",
    "min_cost": "t.cost_hint > %(min_cost)s::bigint",
    "arg_paths": "NOT EXISTS (SELECT 1 FROM unnest(%(arg_paths)s::text[], %(arg_values)s::text[]) q(path, value)"
    " WHERE t.payload #>> string_to_array(q.path, '.') IS DISTINCT FROM q.value)",
    "arg_values": "true",  # goes with arg_paths
    "key": "t.key = %(key)s AND t.tenant_id = ANY (ARRAY(SELECT id FROM tenant))",  # task_tenant_key
}


@dataclass(frozen=True, slots=True)
class Order:
    """One order: its column, its direction, what it restricts the list to."""

    column: str
    down: bool
    only: str = "true"
    kind: str = "bigint"


ORDERS: Mapping[str, Order] = {
    "-id": Order("id", True),
    "id": Order("id", False),
    "finished_at": Order("finished_at", False, "t.finished_at IS NOT NULL", "timestamptz"),
    "-finished_at": Order("finished_at", True, "t.finished_at IS NOT NULL", "timestamptz"),
    "queued_at": Order("queued_at", False, "t.state = 1", "timestamptz"),
}


def statement(wanted: Sequence[str], order: Order, *, after: bool) -> sql.Composed:
    """The statement for some filters in an order, from a position on where `after`."""
    conditions: list[sql.Composable] = [*(sql.SQL(CONDITIONS[name]) for name in wanted), sql.SQL(order.only)]
    column = sql.Identifier("t", order.column)
    keys = [column] if order.column == "id" else [column, sql.Identifier("t", "id")]
    if after:
        values = [sql.SQL("{}::{}").format(sql.Placeholder("after"), sql.SQL(order.kind)), sql.Placeholder("after_id")]
        sign = sql.SQL("<" if order.down else ">")
        left, right = sql.SQL(", ").join(keys), sql.SQL(", ").join(values[: len(keys)])
        conditions.append(sql.SQL("({}) {} ({})").format(left, sign, right))
    direction = sql.SQL(" DESC" if order.down else " ASC")
    ordered = sql.SQL(", ").join([key + direction for key in keys])
    page = sql.SQL("SELECT * FROM task t WHERE {} ORDER BY {} LIMIT {}").format(
        sql.SQL(" AND ").join(conditions), ordered, sql.Placeholder("limit")
    )
    return sql.SQL(_COLUMNS).format(page=page, order=ordered)  # names are joined to one page, not to the whole list


def find(values: Mapping[str, Any], order: str, limit: int, position: tuple[Any, int] | None) -> list[dict[str, Any]]:
    """At most `limit` rows for filters by the names of CONDITIONS, after a position (order value, id)."""
    after = {} if position is None else {"after": position[0], "after_id": position[1]}
    query = statement(list(values), ORDERS[order], after=position is not None)
    return db.composed(query, {**values, **after, "limit": limit})


# what a window is taken from: the first set whose filters are all given; none: all tasks
DRIVERS: Sequence[tuple[str, ...]] = (
    *[(name,) for name in ("key", "ids", "worker", "leased")],
    ("fingerprint", "dead"),
    *[(name,) for name in ("held", "scheduled", "cancelled", "min_age_s", "tenant_ids", "dead", "queued", "class_id")],
)


def window(values: Mapping[str, Any], *, after: bool, up: bool = False) -> tuple[sql.Composed, list[str]]:
    """The newest `window` tasks of what one index finds, below a position, as a subquery; and the filters left over.

    `up`: the oldest above the position instead. Whatever the other filters are, no more than these rows are looked at.
    """
    driver = next((names for names in DRIVERS if set(names) <= set(values)), ())
    conditions: list[sql.Composable] = [sql.SQL(CONDITIONS[name]) for name in driver] or [sql.SQL("true")]
    if after:
        sign = sql.SQL(">" if up else "<")
        conditions.append(sql.SQL("t.id {} {}::bigint").format(sign, sql.Placeholder("after")))
    found = sql.SQL("SELECT * FROM task t WHERE {} ORDER BY t.id {} LIMIT {}").format(
        sql.SQL(" AND ").join(conditions), _direction(up), sql.Placeholder("window")
    )
    return found, [name for name in values if name not in driver]


def _direction(up: bool) -> sql.SQL:
    return sql.SQL("ASC" if up else "DESC")


def windowed(values: Mapping[str, Any], *, after: bool, up: bool = False) -> sql.Composed:
    """The statement for a page of the newest tasks that meet all filters inside one window."""
    inner, rest = window(values, after=after, up=up)
    where = sql.SQL(" AND ").join([sql.SQL(CONDITIONS[name]) for name in rest] or [sql.SQL("true")])
    page = sql.SQL("SELECT * FROM ({}) t WHERE {} ORDER BY t.id {} LIMIT {}").format(
        inner, where, _direction(up), sql.Placeholder("limit")
    )
    return sql.SQL(_COLUMNS).format(page=page, order=sql.SQL("t.id {}").format(_direction(up)))


def find_windowed(
    values: Mapping[str, Any], limit: int, size: int, after: int | None, *, up: bool = False
) -> list[dict[str, Any]]:
    """At most `limit` of the newest tasks below `after` that meet all filters, looking at `size` tasks at most.

    `up`: of the oldest above it, the oldest first.
    """
    params = {**values, "limit": limit, "window": size, "after": after}
    return db.composed(windowed(values, after=after is not None, up=up), params)


def window_end(values: Mapping[str, Any], size: int, after: int | None, *, up: bool = False) -> int | None:
    """The last task of a window, where more follow; None when the window held all there is."""
    inner, _ = window(values, after=after is not None, up=up)
    last = sql.SQL("max(id)" if up else "min(id)")
    query = sql.SQL("SELECT count(*)::int AS n, {} AS last FROM ({}) t").format(last, inner)
    [found] = db.composed(query, {**values, "window": size, "after": after})
    return found["last"] if found["n"] >= size else None


def count_windowed(values: Mapping[str, Any], limit: int, size: int) -> int:
    """How many tasks of the newest window meet all filters, counted up to `limit`."""
    inner, rest = window(values, after=False)
    where = sql.SQL(" AND ").join([sql.SQL(CONDITIONS[name]) for name in rest] or [sql.SQL("true")])
    query = sql.SQL("SELECT count(*)::int AS n FROM (SELECT 1 FROM ({}) t WHERE {} LIMIT {}) x").format(
        inner, where, sql.Placeholder("limit")
    )
    return int(db.composed(query, {**values, "window": size, "limit": limit})[0]["n"])


def freeze(job_id: int, values: Mapping[str, Any], limit: int) -> None:
    """Write down, for a bulk job, the ids of at most `limit` tasks that meet all filters, oldest first."""
    query = sql.SQL(
        "INSERT INTO bulk_item (job_id, task_id) SELECT {}, t.id FROM task t WHERE {} ORDER BY t.id LIMIT {}"
    ).format(sql.Placeholder("job_id"), _where(values), sql.Placeholder("limit"))
    db.composed(query, {**values, "job_id": job_id, "limit": limit})


def count_unfrozen(job_id: int, values: Mapping[str, Any], limit: int) -> int:
    """How many tasks meet the filters now without being frozen for the job, counted up to `limit`."""
    query = sql.SQL(
        "SELECT count(*)::int AS n FROM (SELECT 1 FROM task t WHERE {} AND NOT EXISTS"
        " (SELECT 1 FROM bulk_item b WHERE b.job_id = {} AND b.task_id = t.id) LIMIT {}) x"
    ).format(_where(values), sql.Placeholder("job_id"), sql.Placeholder("limit"))
    return int(db.composed(query, {**values, "job_id": job_id, "limit": limit})[0]["n"])


def _where(values: Mapping[str, Any]) -> sql.Composed:
    return sql.SQL(" AND ").join(sql.SQL(CONDITIONS[name]) for name in values)
