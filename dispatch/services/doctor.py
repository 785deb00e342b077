"""Examines an installation: configuration, database, clocks, processes, stuck work, indexes; and says what to do.

For `manage.py doctor`, on the machine itself. Reads only; every check stands alone, and one that fails is a finding.
"""

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.core import checks
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor

from dispatch.store import db
from dispatch.store.programs import MINIMUM

OK, WARN, FAIL = "ok", "warn", "fail"
SKEW_S = 2.0  # between this machine's clock and the database's
SILENT_S = 5.0
SLOW_CYCLE_MS = 1000
BUSY = 0.8  # part of the connections
TRANSACTION_S = 60.0
UNFOLDED = 100_000
SETTLEMENTS = 50_000
ROW_BYTES = 200  # of an index, per row, that is more than any of ours needs
DISK_FREE = 0.1
MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Check:
    """One finding: `level` ok, warn or fail, what is so, and what to do (empty when nothing)."""

    name: str
    level: str
    text: str
    advice: str = ""


def examine() -> list[Check]:
    """All checks, in order; without a database only those that need none."""
    found = list(_configuration())
    server = _guarded("database", _database)
    found += server
    if server[0].level != OK:  # it begins with the answer, if there is one
        return found
    for name, look in (
        ("migrations", _migrations),
        ("clocks", _clocks),
        ("leader", _leaders),
        ("processes", _processes),
        ("work", _work),
        ("indexes", _indexes),
        ("tables", _tables),
        ("disk", _disk),
    ):
        found += _guarded(name, look)
    return found


def _guarded(name: str, look: Callable[[], Iterator[Check]]) -> list[Check]:
    try:
        found = list(look())
    except (DatabaseError, OSError) as error:
        told = " ".join(str(error).split())
        return [Check(name, FAIL, f"It could not be looked at: {told}", "Start PostgreSQL, or correct DATABASE_URL.")]
    return found or [Check(name, OK, "fine")]


def _configuration() -> Iterator[Check]:
    found = checks.run_checks()
    for one in found:
        level = FAIL if one.level >= checks.ERROR else WARN
        yield Check("configuration", level, f"{one.id}: {one.msg}", one.hint or "")
    if settings.DATABASE_URL and not settings.HTTPS:
        hint = "Set EVENFLOW_HTTPS=1 behind a proxy that speaks TLS; keys and passwords travel in the clear else."
        yield Check("configuration", WARN, "HTTPS is off.", hint)
    if not found:
        yield Check("configuration", OK, "fine")


def _database() -> Iterator[Check]:
    begun = time.perf_counter()
    (row,) = db.rows("doctor_database")
    took_ms = (time.perf_counter() - begun) * 1000
    size = row["bytes"] / MEGABYTE
    yield Check("database", OK, f"PostgreSQL {row['version']}, {size:.0f} MB, answered in {took_ms:.0f} ms.")
    if row["version"] < MINIMUM:
        yield Check("database", FAIL, f"PostgreSQL {row['version']} is too old.", f"Use {MINIMUM} or newer.")
    if row["connections"] >= BUSY * row["max_connections"]:
        text = f"{row['connections']} of {row['max_connections']} connections are used."
        yield Check("database", WARN, text, "Raise max_connections, or lower EVENFLOW_DB_POOL.")
    if row["idle_transaction_s"] > TRANSACTION_S:
        text = (
            f"A transaction has been open for {row['idle_transaction_s']:.0f} s and does nothing: vacuum waits for it."
        )
        yield Check("database", WARN, text, "Find it in pg_stat_activity and end it with pg_terminate_backend.")
    if row["fsync"] != "on":
        yield Check("database", FAIL, "fsync is off: a crash loses tasks.", "Turn fsync on.")
    if row["autovacuum"] != "on":
        yield Check("database", FAIL, "autovacuum is off: everything grows slower by the hour.", "Turn autovacuum on.")


def _migrations() -> Iterator[Check]:
    executor = MigrationExecutor(connection)
    missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if missing:
        yield Check("migrations", FAIL, f"{len(missing)} migrations are not applied.", "Run manage.py setup.")


def _clocks() -> Iterator[Check]:
    (row,) = db.rows("doctor_database")
    apart = abs((datetime.now(UTC) - row["clock"]).total_seconds())
    if apart > SKEW_S:
        text = f"This machine's clock and the database's are {apart:.1f} s apart."
        yield Check("clocks", WARN, text, "Let both follow the same time server; the database's decides everything.")


def _leaders() -> Iterator[Check]:
    for row in db.rows("doctor_leaders"):
        if row["beat_age_s"] is None or row["beat_age_s"] > SILENT_S:
            since = "never" if row["beat_age_s"] is None else f"{row['beat_age_s']:.0f} s ago"
            text = f"Nobody dispatches the pool {row['slug']}: its leader was last heard {since}."
            yield Check("leader", FAIL, text, "Start a cluster: manage.py cluster.")
        elif row["cycle_ms"] is not None and row["cycle_ms"] > SLOW_CYCLE_MS:
            text = f"The last cycle of {row['slug']} took {row['cycle_ms']:.0f} ms."
            yield Check("leader", WARN, text, "Look for a slow disk, missing vacuum or a lock; see the tables below.")


def _processes() -> Iterator[Check]:
    alive = dict(db.tuples("doctor_processes"))
    needed = {"web": "Start daphne with controlplane.asgi:application.", "reconciler": "Start manage.py cluster."}
    for kind, advice in needed.items():
        if not alive.get(kind):
            yield Check("processes", FAIL, f"No {kind} process has a pulse.", advice)


def _work() -> Iterator[Check]:
    (row,) = db.rows("doctor_work")
    reconciler = "See that a reconciler works (page System); its log says which step fails."
    if row["overdue_leases"]:
        text = f"{row['overdue_leases']} leases ran out more than a minute ago and were not taken back."
        yield Check("work", FAIL, text, reconciler)
    if row["overdue_tasks"]:
        text = f"{row['overdue_tasks']} scheduled tasks are more than a minute past their time."
        yield Check("work", FAIL, text, "See that the dispatcher of their pool works.")
    if row["sample_age_s"] is not None and row["sample_age_s"] > 4 * SILENT_S:
        yield Check(
            "work", WARN, f"The newest sample is {row['sample_age_s']:.0f} s old: alerts are blind.", reconciler
        )
    if row["unfolded"] >= UNFOLDED:
        yield Check("work", WARN, f"At least {row['unfolded']} changes of lane counts are not folded.", reconciler)
    if row["settlements"] > SETTLEMENTS:
        text = f"{row['settlements']} costs wait to be settled."
        yield Check("work", WARN, text, "See that the dispatchers work, and keep up.")
    if row["held"]:
        many = "at least " if row["held"] == 10_000 else ""
        yield Check("work", WARN, f"{many}{row['held']} tasks are held.", "GET /api/v1/tasks?state=held says why.")
    for uncovered in db.rows("uncovered_work")[:5]:
        names = ", ".join(uncovered["names"]) or "no capability in particular"
        text = f"{uncovered['lanes']} queues wait for workers with {names}, and no live one has them."
        yield Check("work", WARN, text, "Start such workers, or correct the tasks' capabilities.")
    if row["critical_alerts"]:
        yield Check(
            "work", WARN, f"{row['critical_alerts']} critical alerts are open.", "GET /api/v1/alerts?state=open"
        )
    if row["webhooks_off"]:
        yield Check("work", WARN, f"{row['webhooks_off']} webhooks are switched off.", "GET /api/v1/webhooks says why.")


def _indexes() -> Iterator[Check]:
    for row in db.rows("doctor_indexes"):
        name, size = row["name"], f"{row['bytes'] / MEGABYTE:.0f} MB"
        again = f"REINDEX INDEX CONCURRENTLY {name}; off-peak."
        if not row["valid"]:
            yield Check("indexes", FAIL, f"The index {name} of {row['table']} is not valid: no query uses it.", again)
        elif row["bytes"] > ROW_BYTES * max(row["rows"], 1) and row["bytes"] > 5 * 10 * MEGABYTE:
            yield Check("indexes", WARN, f"The index {name} takes {size} for {row['rows']} rows.", again)
        elif not row["scans"] and not row["unique"]:
            text = f"The index {name} takes {size} and was never used since the statistics began."
            yield Check("indexes", WARN, text, "Nothing to do unless it stays so for weeks; then tell us.")


def _tables() -> Iterator[Check]:
    for row in db.rows("doctor_tables"):
        text = f"The table {row['table']} has {row['dead']} dead rows beside {row['live']} live ones."
        advice = f"VACUUM (ANALYZE) {row['table']}; and look for old transactions that hold vacuum up."
        yield Check("tables", WARN, text, advice)


def _disk() -> Iterator[Check]:
    usage = shutil.disk_usage(settings.DATA_DIR if settings.DATA_DIR.exists() else "/")
    if usage.free < DISK_FREE * usage.total:
        text = f"{usage.free / MEGABYTE / 1000:.1f} GB are free where {settings.DATA_DIR} lies."
        yield Check("disk", WARN, text, "Make room: PostgreSQL stops when the disk is full.")


def worst(found: list[Check]) -> str:
    """The worst level of all."""
    levels: dict[str, Any] = {OK: 0, WARN: 1, FAIL: 2}
    return max((check.level for check in found), key=lambda level: levels[level], default=OK)
