"""Two clocks: processes of ours whose clock is ten minutes off change nothing; the database's clock decides.

The time of this process is moved, as a whole: its reconciler sweeps, its dispatcher dispatches, its web process serves.
"""

import datetime

import pytest
import time_machine

from dispatch.jobs import reconciler
from dispatch.services import overview, reclaim
from tests import fleet
from tests.services.test_dispatch import Leader

pytestmark = pytest.mark.django_db(transaction=True)

OFF = [datetime.timedelta(minutes=10), datetime.timedelta(minutes=-10)]


def ages(value: object) -> list[float]:
    """All ages anywhere in an answer."""
    if isinstance(value, dict):
        own = [float(v) for k, v in value.items() if k.endswith(("age_s", "seen_s")) and isinstance(v, int | float)]
        return own + [age for v in value.values() for age in ages(v)]
    return [age for v in value for age in ages(v)] if isinstance(value, list) else []


@pytest.mark.parametrize("off", OFF, ids=["ahead", "behind"])
def test_a_process_whose_clock_is_off_changes_nothing(off: datetime.timedelta) -> None:
    """H14."""
    fleet.world()
    reclaim._skipped.clear()
    one = fleet.held(max_runtime_s=300, progress_timeout_s=300)
    due = fleet.value("SELECT now() + interval '60 s'")
    (later,) = fleet.put(run_at=due)
    leader = Leader()
    now = datetime.datetime.now(datetime.UTC)
    with time_machine.travel(now + off):
        expires = fleet.value("SELECT expires_at FROM lease")
        assert reconciler.tick(reconciler.steps()) == 0
        assert fleet.state(one.task) == 2
        assert fleet.status(fleet.beat(one.session, (one.task, one.token))) == ["renewed"]
        assert fleet.value("SELECT expires_at FROM lease") - expires < datetime.timedelta(seconds=60)
        fleet.ask(fleet.join("w2").session_id, wait_s=30)
        assert leader.run() == 0
        assert fleet.state(later) == 0
        fleet.sql("UPDATE task SET run_at = now() WHERE id = %s", later)
        assert leader.run() == 1, "it starts when it is due by the database's clock"
        found = ages(overview.overview(fleet.ROOT, None))
        assert found
        assert min(found) >= 0
        assert max(found) < 60
        fleet.sql("UPDATE lease SET expires_at = now() - interval '1 s', renewed_at = now() - interval '31 s'")
        assert reclaim.sweep().total == 2, "and a lease ends when it is over by the database's clock"
    fleet.invariants()
