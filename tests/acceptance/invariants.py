"""What must hold on the running system after every case, read from its database, its API and its log.

I1 a task is in one state, leased exactly when one live lease names it · I2 stored numbers equal the rows ·
I3 no 5xx and no unhandled exception · I4 what a task is never changes · I5 starts within the limit ·
I6 no idle capable worker beside a startable task for longer than 2 s · I7 one audit entry per operator action ·
I8 API and database agree within 5 s (the page's part is proved in the browser tests).
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from tests.acceptance.harness import Product
from tests.acceptance.ledger import Ledger

TORN = """
select t.id, t.state, l.token from task t full join lease l on l.task_id = t.id
 where (t.state = 2) is distinct from (l.task_id is not null)
"""
DEPTHS = """
with kept as (
  select lane_id, sum(queued) as queued, sum(scheduled) as scheduled, sum(held) as held, sum(dead) as dead
    from (select lane_id, queued, scheduled, held, dead from lane_depth
          union all select lane_id, queued, scheduled, held, dead from lane_delta) parts group by lane_id),
counted as (
  select lane_id, count(*) filter (where state = 1) as queued, count(*) filter (where state = 0) as scheduled,
         count(*) filter (where state = 3) as held, count(*) filter (where state = 5) as dead
    from task group by lane_id)
select * from kept full join counted using (lane_id)
 where coalesce(kept.queued, 0) <> coalesce(counted.queued, 0)
    or coalesce(kept.scheduled, 0) <> coalesce(counted.scheduled, 0)
    or coalesce(kept.held, 0) <> coalesce(counted.held, 0) or coalesce(kept.dead, 0) <> coalesce(counted.dead, 0)
"""
OVERRUN = """
select t.id, t.attempts, coalesce(t.max_attempts, c.max_attempts) as allowed
  from task t join work_class c on c.id = t.work_class_id
 where t.attempts > coalesce(t.max_attempts, c.max_attempts)
"""
COUNTED = """
select a.task_id, count(*) as n, max(coalesce(t.max_attempts, c.max_attempts)) as allowed,
       1 + (select count(*) from audit_event e where e.action = 'requeue' and not e.refused
             and e.target = a.task_id::text) as lives
  from attempt a join task t on t.id = a.task_id join work_class c on c.id = t.work_class_id
 where a.counted group by a.task_id
"""
ACCOUNTED = """
select t.id, t.starts from task t left join attempt a on a.task_id = t.id
 group by t.id having t.starts <> count(a.id) filter (where a.delivered_at is not null)
"""
IDLE = """
select t.id as task, d.session_id from task t join lane on lane.id = t.lane_id
  join capset need on need.id = lane.capset_id join tenant on tenant.id = t.tenant_id
  join work_class c on c.id = t.work_class_id
  join demand d on d.pool_id = t.pool_id and d.until > now() and d.since < now() - interval '2 s'
  join worker_session s on s.id = d.session_id join worker w on w.id = s.worker_id
  join capset have on have.id = s.capset_id
 where t.state = 1 and t.queued_at < now() - interval '2 s' and have.names @> need.names
   and not (tenant.paused or c.paused or w.paused or w.draining or w.quarantined)
   and (s.tenant_id is null or s.tenant_id = t.tenant_id)
   and (select count(*) from lease l where l.session_id = s.id) < s.slots
   and (select count(*) from lease l join lane o on o.id = l.lane_id where o.tenant_id = t.tenant_id)
       < coalesce(tenant.max, 2147483647)
   and (select count(*) from lease l join lane o on o.id = l.lane_id where o.work_class_id = c.id)
       < coalesce(c.max, 2147483647)
"""
IDENTITY = """
select t.id, t.payload, tenant.slug as tenant, c.slug as class, t.key, need.names as capabilities, t.type
  from task t join tenant on tenant.id = t.tenant_id join work_class c on c.id = t.work_class_id
  join lane on lane.id = t.lane_id join capset need on need.id = lane.capset_id
"""
BY_CLASS = """
select c.slug, count(*) filter (where t.state = 1) as queued, count(*) filter (where t.state = 2) as running
  from work_class c left join task t on t.work_class_id = c.id group by c.slug
"""


RECORD = re.compile(r"\d\d:\d\d:\d\d [A-Z]+ ")
HANDLED = (" WARNING ", "django-q: Failed to pull task from broker")  # a trace below them tells of an outage we made


class Invariants:
    """Made before a case; `check()` after it."""

    def __init__(self, product: Product) -> None:
        self.product = product
        self.ledger = Ledger(product)
        self.actions: Counter[str] = Counter()
        self._log_from = len(product.log())
        self._audit_from = self.ledger.one("select coalesce(max(id), 0) as id from audit_event")["id"]
        self._known: dict[int, Mapping[str, Any]] = self._identities()

    def did(self, action: str, times: int = 1) -> None:
        """Note an operator action: it must have left exactly one audit entry."""
        self.actions[action] += times

    def remember(self) -> None:
        """Note what the tasks submitted so far are."""
        self._known = self._identities() | self._known

    def check(self) -> None:
        """Assert all of them."""
        self._one_state()
        self._numbers()
        self._log()
        self._identity()
        self._starts()
        self._nobody_idle()
        self._audit()
        self._api()

    def _one_state(self) -> None:
        assert self.ledger.rows(TORN) == [], "I1"

    def _numbers(self) -> None:
        assert self.ledger.rows(DEPTHS) == [], "I2"

    def _log(self) -> None:
        news, header, found = self.product.log()[self._log_from :], "", []
        for line in news.splitlines():
            header = line if RECORD.match(line) else header
            if "Internal Server Error" in line or ("Traceback" in line and not any(word in header for word in HANDLED)):
                found.append((header, line))
        assert found == [], f"I3 {found[:5]}\n{news[-6000:]}"

    def _identity(self) -> None:
        now = self._identities()
        changed = {task: (now.get(task), was) for task, was in self._known.items() if now.get(task) != was}
        assert changed == {}, "I4"

    def _starts(self) -> None:
        assert self.ledger.rows(OVERRUN) == [], "I5"
        over = [row for row in self.ledger.rows(COUNTED) if row["n"] > row["allowed"] * row["lives"]]
        assert over == [], "I5: a requeue gives one fresh budget"
        assert self.ledger.rows(ACCOUNTED) == [], "I5: every delivered lease is one attempt"

    def _nobody_idle(self) -> None:
        self._settles(lambda: self.ledger.rows(IDLE) == [], 2, "I6")

    def _audit(self) -> None:
        written = self.ledger.rows(
            "select action, count(*) as n from audit_event where id > %(start)s and not refused group by action",
            start=self._audit_from,
        )
        counts = {row["action"]: row["n"] for row in written}
        assert {action: counts.get(action, 0) for action in self.actions} == dict(self.actions), "I7"

    def _api(self) -> None:
        self._settles(self._agrees, 5, "I8")

    def _agrees(self) -> bool:
        told = self.product.ok("GET", "/api/v1/stats?pool=default")
        shown = {row["slug"]: (row["queued"], row["running"]) for row in told["classes"]}
        return shown == {row["slug"]: (row["queued"], row["running"]) for row in self.ledger.rows(BY_CLASS)}

    def _identities(self) -> dict[int, Mapping[str, Any]]:
        return {row["id"]: row for row in self.ledger.rows(IDENTITY)}

    def _settles(self, true: Callable[[], bool], seconds: float, name: str) -> None:
        end = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < end, f"{name}: {self.ledger.states()}"
            time.sleep(0.2)
