"""Reclaim by cause, counting, our own outage, one bad row, and the limits of a poison task."""

from typing import Any

import pytest

from dispatch.core.lease import MAX_EXTENSIONS
from dispatch.errors import LeaseLost
from dispatch.jobs import reconciler
from dispatch.services import alerts, detection, ending, overview, reclaim, requeue
from tests import fleet

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def world() -> None:
    fleet.world()
    reclaim._skipped.clear()


def past(column: str = "expires_at", seconds: int = 1) -> None:
    fleet.sql(f"UPDATE lease SET {column} = now() - interval '{seconds} s'")


def outcome() -> tuple[Any, ...]:
    """Of the last attempt: outcome, counted; of its task: state, attempts, losses, handbacks."""
    return fleet.sql(
        "SELECT a.outcome, a.counted, t.state, t.attempts, t.losses, t.handbacks"
        " FROM attempt a JOIN task t ON t.id = a.task_id ORDER BY a.id DESC LIMIT 1"
    )[0]


def test_a_live_lease_is_left_alone() -> None:
    fleet.held(max_runtime_s=60, progress_timeout_s=60)
    assert reclaim.sweep().total == 0


def test_a_lost_lease_goes_back_at_once_in_its_old_place() -> None:
    one = fleet.held()
    enqueued = fleet.value("SELECT enqueued_at FROM task")
    past()
    assert reclaim.sweep().lost == 1
    assert outcome() == (2, True, 1, 1, 1, 0)
    assert fleet.sql("SELECT enqueued_at, queued_at = now(), last_worker_id IS NOT NULL FROM task") == [
        (enqueued, True, True)
    ]
    assert fleet.value("SELECT error->>'kind' FROM attempt") == "lost"
    assert reclaim.sweep().total == 0
    assert isinstance(fleet.end("complete", one.task, one.token, result=1), LeaseLost)
    fleet.invariants()


def test_a_lease_ends_even_when_the_rows_of_its_worker_are_gone() -> None:
    one = fleet.held()
    for table in ("demand", "worker_session", "worker"):
        fleet.sql(f"DELETE FROM {table}")
    past()
    assert reclaim.sweep().lost == 1
    assert fleet.state(one.task) == 1
    assert fleet.sql("SELECT worker_id, worker_name FROM attempt") == [(0, "")]
    fleet.invariants()


def test_the_third_loss_backs_off() -> None:
    one = fleet.held(max_attempts=9)
    states = []
    for _ in range(3):
        past()
        reclaim.sweep()
        states.append(fleet.state(one.task))
        if states[-1] == 1:
            fleet.hold(one.session, one.task)
    assert states == [1, 1, 0]


def test_an_offer_that_was_not_picked_up_goes_back_uncounted_with_its_demand() -> None:
    session, other = fleet.join().session_id, fleet.join("w2").session_id
    fleet.ask(session, wait_s=60)
    fleet.ask(other, wait_s=60)
    (task,) = fleet.put()
    fleet.offer(session, task)
    past()
    assert reclaim.sweep().undelivered == 1
    assert fleet.sql("SELECT state, starts, attempts, handbacks FROM task") == [(1, 0, 0, 1)]
    assert fleet.sql("SELECT session_id FROM demand") == [(other,)]
    assert fleet.sql("SELECT id FROM attempt") == []
    assert fleet.sql("SELECT charged, actual FROM settlement") == [(1_000_000, 0)]
    fleet.invariants()


def test_beats_without_progress_stall() -> None:
    fleet.held(progress_timeout_s=10)
    past("progress_at", 11)
    assert reclaim.sweep().stalled == 1
    assert outcome() == (3, True, 1, 1, 1, 0)


def test_max_runtime_times_out_with_back_off() -> None:
    fleet.held(max_runtime_s=10)
    past("runtime_until")
    assert reclaim.sweep().timed_out == 1
    assert outcome() == (4, True, 0, 1, 0, 0)


def test_a_deadline_passed_while_running_is_dead() -> None:
    fleet.held()
    fleet.sql("UPDATE task SET deadline = now() - interval '1 s'")
    past("runtime_until")
    assert reclaim.sweep().expired == 1
    assert outcome()[:3] == (5, False, 5)
    assert fleet.value("SELECT reason FROM task") == "expired"


@pytest.mark.parametrize("state", [0, 1, 3])
def test_a_deadline_passed_while_waiting_is_dead(state: int) -> None:
    fleet.put()
    fleet.sql("UPDATE task SET state = %s, deadline = now() - interval '1 s'", state)
    assert reclaim.sweep().expired == 1
    assert fleet.sql("SELECT state, reason, finished_at = now() FROM task") == [(5, "expired", True)]
    assert reclaim.sweep().total == 0
    fleet.invariants()


def test_who_does_not_yield_within_the_grace_is_preempted_uncounted() -> None:
    fleet.held()
    fleet.sql("UPDATE lease SET directive = 1, directive_at = now() - interval '29 s'")
    assert reclaim.sweep().total == 0
    past("directive_at", 31)
    assert reclaim.sweep().preempted == 1
    assert outcome() == (7, False, 1, 0, 0, 1)


def test_a_requested_cancel_makes_every_reclaim_a_cancellation() -> None:
    fleet.held()
    fleet.sql("UPDATE task SET cancel_requested = true, cancel_reason = 'no need'")
    past()
    reclaim.sweep()
    assert outcome()[1:4] == (False, 6, 0)
    assert fleet.value("SELECT reason FROM task") == "no need"
    fleet.invariants()


def test_the_task_that_kills_its_worker_is_dead_at_its_limit() -> None:
    """H12."""
    one, once = fleet.held("w1", max_attempts=3), fleet.held("w2", max_attempts=1)
    (bystander,) = fleet.put()
    for n in range(3):
        past()
        reclaim.sweep()
        if fleet.state(one.task) == 1:
            fleet.hold(fleet.join(f"victim{n}").session_id, one.task)
        elif fleet.state(one.task) == 0:
            fleet.sql("UPDATE task SET state = 1, queued_at = now(), run_at = NULL WHERE id = %s", one.task)
            fleet.hold(fleet.join(f"victim{n}").session_id, one.task)
    assert fleet.state(one.task) == fleet.state(once.task) == 5
    assert fleet.sql("SELECT id, attempts, starts, reason FROM task WHERE state = 5 ORDER BY id") == [
        (one.task, 3, 3, "max_attempts"),
        (once.task, 1, 1, "max_attempts"),
    ]
    rows = fleet.sql("SELECT worker_name, outcome, reason FROM attempt WHERE task_id = %s ORDER BY id", one.task)
    assert rows == [("w1", 2, "lost"), ("victim0", 2, "lost"), ("victim1", 2, "max_attempts")]
    assert fleet.state(bystander) == 1
    fleet.invariants()
    shown = overview.overview(fleet.ROOT)["dead"]
    assert (shown["total"], shown["new_1h"]) == (2, 2)
    detection.detect()
    (alert,) = alerts.list_alerts(fleet.ROOT, "open", "poison_tasks").items
    assert (alert["tenant"], alert["evidence"]["dead"]) == ("alpha", 2)
    (step,) = [step for step in reconciler.steps() if step.name == "detect"]
    assert step.every_s + reconciler.TICK_S <= 5, "the alert shows both within 5 s"
    requeue.requeue(fleet.ROOT, one.task)
    requeue.requeue(fleet.ROOT, once.task)
    detection.detect()
    assert not alerts.list_alerts(fleet.ROOT, "open", "poison_tasks").items


def test_max_reclaims_permits_so_many_losses() -> None:
    fleet.sql("UPDATE pool SET max_reclaims = 1")
    one = fleet.held(max_attempts=50)
    past()
    reclaim.sweep()
    assert fleet.state(one.task) == 1
    fleet.hold(one.session, one.task)
    past()
    reclaim.sweep()
    assert fleet.sql("SELECT state, reason FROM task") == [(5, "max_reclaims")]


def test_sessions_and_workers_that_vanished_do_not_keep_a_slot() -> None:
    """H08: recovery depends on the lease alone."""
    fleet.held()
    fleet.sql("UPDATE worker_session SET closed_at = now() - interval '1 day'")
    past()
    assert reclaim.sweep().lost == 1
    fleet.invariants()


def web(up_since: int, beat: int) -> None:
    """A web process up since so many seconds ago, last pulse so many seconds ago."""
    fleet.sql(
        "INSERT INTO process (kind, host, pid, info, up_since, beat_at)"
        f" VALUES ('web', '', 1, '{{}}', now() - interval '{up_since} s', now() - interval '{beat} s')"
    )


def unheard() -> None:
    """The lease was renewed 31 s ago and has just expired."""
    fleet.sql("UPDATE lease SET renewed_at = now() - interval '31 s', expires_at = now() - interval '1 s'")


def test_leases_that_nobody_could_renew_are_extended() -> None:
    """H13: the web process came back 5 s ago."""
    fleet.held()
    web(5, 0)
    unheard()
    assert reclaim.sweep().extended == 1
    assert fleet.sql("SELECT expires_at - now() = interval '30 s', extensions FROM lease") == [(True, 1)]
    assert fleet.value("SELECT attempts FROM task") == 0


def test_a_web_process_that_listened_a_whole_ttl_makes_silence_a_loss() -> None:
    fleet.held()
    web(300, 1)
    unheard()
    assert reclaim.sweep().lost == 1


def test_a_web_process_that_died_after_the_renewal_heard_nothing() -> None:
    fleet.held()
    web(300, 20)
    unheard()
    assert reclaim.sweep().extended == 1


@pytest.mark.parametrize(
    ("column", "seconds"), [("progress_at", 11), ("runtime_until", 1), ("directive_at", 31)], ids=str
)
def test_who_could_not_say_that_it_moved_or_was_done_is_extended(column: str, seconds: int) -> None:
    """H13: alive before our outage and after it, and over its time meanwhile."""
    fleet.held(max_runtime_s=60, progress_timeout_s=10)
    fleet.sql("UPDATE lease SET renewed_at = now() - interval '12 s', directive = 1, directive_at = now()")
    web(300, 8)
    web(5, 0)
    past(column, seconds)
    assert reclaim.sweep().extended == 1
    assert fleet.sql("SELECT attempts, handbacks FROM task") == [(0, 0)]
    assert reclaim.sweep().total == 0
    fleet.sql("UPDATE lease SET renewed_at = now() - interval '4 s'")
    past(column, seconds)
    counts = reclaim.sweep()
    assert (counts.extended, counts.total) == (0, 1), "it has been heard since"


def test_an_extended_lease_without_a_maximum_gets_none() -> None:
    fleet.held()
    web(5, 0)
    unheard()
    assert reclaim.sweep().extended == 1
    assert fleet.sql("SELECT runtime_until, directive_at FROM lease") == [(None, None)]


def test_extensions_end_with_an_alert() -> None:
    fleet.held()
    web(5, 0)
    for _ in range(MAX_EXTENSIONS):
        unheard()
        assert reclaim.sweep().extended == 1
    unheard()
    assert reclaim.sweep().lost == 1
    assert fleet.sql("SELECT rule, severity FROM alert") == [("web_outage", "critical")]


def test_a_renewal_forgets_the_extensions() -> None:
    one = fleet.held()
    fleet.sql("UPDATE lease SET extensions = 5")
    fleet.beat(one.session, (one.task, one.token))
    assert fleet.value("SELECT extensions FROM lease") == 0


def test_offers_are_not_extended() -> None:
    session = fleet.join().session_id
    fleet.offer(session, *fleet.put())
    web(1, 0)
    past()
    assert reclaim.sweep().undelivered == 1


def test_one_bad_row_never_stops_the_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    session = fleet.join(slots=7).session_id
    leases = fleet.hold(session, *fleet.put(7))
    bad = leases[3].task_id
    decide = ending._decide

    def spoiled(facts: dict[str, Any], how: ending.End) -> Any:
        if facts["task_id"] == bad:
            raise ValueError("spoiled")
        return decide(facts, how)

    past()
    monkeypatch.setattr(ending, "_decide", spoiled)
    counts = reclaim.sweep()
    assert (counts.lost, counts.skipped) == (6, 1)
    assert fleet.sql("SELECT task_id FROM lease") == [(bad,)]
    assert reclaim.sweep().total == 0, "left alone for a while"
    monkeypatch.undo()
    reclaim._skipped.clear()
    assert reclaim.sweep().lost == 1


def test_batches_are_bounded() -> None:
    session = fleet.join(slots=5).session_id
    fleet.hold(session, *fleet.put(5))
    past()
    assert [reclaim.sweep(2).lost for _ in range(4)] == [2, 2, 1, 0]


def test_the_old_process_of_the_same_worker_name_acts_on_nothing() -> None:
    """H11: fencing by token and session, never by name."""
    one = fleet.held("w1")
    fleet.sql("UPDATE lease SET expires_at = now() - interval '1 s'")

    reclaim.sweep()
    assert fleet.state(one.task) == 1
    second = fleet.join("w1").session_id
    (lease,) = fleet.hold(second, one.task)
    expiry = fleet.value("SELECT expires_at FROM lease")
    assert fleet.status(fleet.beat(one.session, (one.task, one.token))) == ["lost"]
    assert isinstance(fleet.end("complete", one.task, one.token, result="old"), LeaseLost)
    assert isinstance(fleet.end("fail", one.task, one.token), LeaseLost)
    assert isinstance(fleet.end("release", one.task, one.token), LeaseLost)
    assert fleet.value("SELECT expires_at FROM lease") == expiry
    assert fleet.state(one.task) == 2
    assert fleet.ended("complete", one.task, lease.token, result="new") == "succeeded"
    assert fleet.value("SELECT result::text FROM task") == '"new"'
    assert fleet.sql("SELECT outcome, late IS NOT NULL FROM attempt ORDER BY id") == [(2, True), (0, False)]
