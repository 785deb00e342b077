"""Heartbeat: renewal by token, progress against the deadline, directives back."""

import time
from datetime import timedelta
from typing import Any

import pytest

from dispatch.core.lease import BEATS_PER_S, heartbeat_every_s
from dispatch.errors import NotFound
from dispatch.services import heartbeat, numbers, sessions
from dispatch.services.messages import Beat, HeartbeatRequest, Progress
from tests import fleet

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def world() -> None:
    fleet.world()
    sessions._fleet.clear()


def age(seconds: int) -> None:
    """Let time pass for all leases."""
    fleet.sql(
        "UPDATE lease SET expires_at = expires_at - %s, renewed_at = renewed_at - %s, progress_at = progress_at - %s",
        *[timedelta(seconds=seconds)] * 3,
    )


def test_a_beat_renews_and_one_lost_lease_never_fails_the_others() -> None:
    one = fleet.held()
    age(20)
    answers = fleet.beat(one.session, (one.task, one.token), (one.task, one.token + 99), (10**12, 1), (0, -5))
    assert fleet.status(answers) == ["renewed", "lost", "lost", "lost"]
    assert fleet.value("SELECT expires_at - now() FROM lease") == timedelta(seconds=30)
    assert answers[1].expires_at is None


def test_no_leases_is_a_valid_beat_and_a_sign_of_life() -> None:
    session = fleet.join().session_id
    fleet.sql("UPDATE worker_session SET last_seen_at = now() - interval '1 hour'")
    assert fleet.beat(session) == []
    assert fleet.value("SELECT last_seen_at = now() FROM worker_session") is True


def test_an_expired_lease_that_nobody_reclaimed_is_renewed() -> None:
    one = fleet.held()
    age(3600)
    assert fleet.status(fleet.beat(one.session, (one.task, one.token))) == ["renewed"]


def test_another_session_or_key_renews_nothing() -> None:
    one = fleet.held()
    other = fleet.join("w2").session_id
    age(20)
    assert fleet.status(fleet.beat(other, (one.task, one.token))) == ["lost"]
    assert isinstance(fleet.beat(one.session, (one.task, one.token), caller=fleet.OTHER), NotFound)
    assert fleet.value("SELECT expires_at - now() FROM lease") == timedelta(seconds=10)


def test_an_offer_that_was_not_delivered_cannot_be_renewed() -> None:
    session = fleet.join().session_id
    (task,) = fleet.put()
    fleet.offer(session, task)
    assert fleet.status(fleet.beat(session, (task, fleet.value("SELECT token FROM lease")))) == ["lost"]


def moved(one: fleet.Held, **report: Any) -> bool:
    """Whether this report counts as progress."""
    fleet.sql("UPDATE lease SET progress_at = now() - interval '9 s'")
    assert fleet.status(fleet.beat(one.session, (one.task, one.token), progress=Progress(**report))) == ["renewed"]
    return bool(fleet.value("SELECT progress_at = now() FROM lease"))


def test_the_first_report_counts_then_step_or_fraction_must_grow() -> None:
    one = fleet.held()
    assert moved(one, step=0)
    assert not moved(one, step=0)
    assert moved(one, step=1)
    assert not moved(one, step=0), "going back is no progress"
    assert not moved(one, step=1), "nor is coming back to where it was"
    assert moved(one, fraction=0.5)
    assert not moved(one, step=1, fraction=0.5)
    assert moved(one, step=1, fraction=0.75)
    assert fleet.sql("SELECT progress_step, progress_fraction FROM lease") == [(1, 0.75)]


def test_a_repeated_fingerprint_is_no_progress() -> None:
    one = fleet.held()
    assert moved(one, step=1, fingerprint="a")
    assert not moved(one, step=2, fingerprint="a")
    assert moved(one, step=3, fingerprint="b")


def test_an_empty_report_is_none_and_a_mere_note_counts_once() -> None:
    one = fleet.held()
    assert not moved(one)
    assert moved(one, note="hello\0")
    assert not moved(one, note="again")
    assert fleet.value("SELECT progress_note FROM lease") == "again"
    assert moved(one, step=1)


def test_a_beat_without_progress_renews_but_the_progress_clock_goes_on() -> None:
    one = fleet.held()
    age(9)
    fleet.beat(one.session, (one.task, one.token))
    assert fleet.value("SELECT now() - progress_at FROM lease") == timedelta(seconds=9)


@pytest.mark.parametrize(("stored", "heard"), [(0, "continue"), (1, "yield"), (2, "cancel")])
def test_directives_come_back(stored: int, heard: str) -> None:
    one = fleet.held()
    fleet.sql("UPDATE lease SET directive = %s", stored)
    (answer,) = fleet.beat(one.session, (one.task, one.token))
    assert answer.directive == heard


def test_a_draining_worker_is_told() -> None:
    session = fleet.join().session_id
    fleet.sql("UPDATE worker SET draining = true")
    request = HeartbeatRequest(caller=fleet.AGENT, session_id=session, beats=())
    (answer,) = heartbeat.heartbeat_many([request])
    assert answer.worker_directive == "drain"
    assert 10 <= answer.heartbeat_every_s <= 11


@pytest.mark.parametrize("fleet_size", [1, 13_000])
def test_register_claim_and_heartbeat_tell_a_session_the_same_interval(fleet_size: int) -> None:
    sessions._fleet[fleet.pool_id()] = (time.monotonic(), fleet_size)
    told = []
    for name in ("w1", "w2"):
        joined = fleet.join(name)
        fleet.offer(joined.session_id, *fleet.put())
        answers = [fleet.ask(joined.session_id, claim_id=claim_id) for claim_id in ("one", "one")]
        leases = [lease for answer in answers for lease in answer.leases]
        assert len(leases) == 2, "the second is the replay"
        request = HeartbeatRequest(caller=fleet.AGENT, session_id=joined.session_id, beats=())
        (answer,) = heartbeat.heartbeat_many([request])
        assert {one.heartbeat_every_s for one in (joined, *leases, answer)} == {joined.heartbeat_every_s}
        told.append(joined.heartbeat_every_s)
    assert told[0] != told[1]
    assert all(max(10, fleet_size / BEATS_PER_S) <= every <= 15 for every in told)


def test_a_worker_that_beats_as_it_was_told_is_not_late() -> None:
    fleet.sql("UPDATE pool SET lease_ttl_s = 100")
    session = fleet.held().session
    sessions._fleet[fleet.pool_id()] = (time.monotonic(), 30_000)
    fleet.sql("UPDATE worker_session SET last_seen_at = now() - interval '35 s' WHERE id = %s", session)
    pool = {"id": fleet.pool_id(), "slug": "default"}
    assert [row["late"] for row in numbers.live_workers(pool)] == [False]
    sessions._fleet[fleet.pool_id()] = (time.monotonic(), 1)
    assert [row["late"] for row in numbers.live_workers(pool)] == [True]


def test_many_leases_go_in_chunks_and_doubles_are_answered_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "CHUNK", 2)
    session = fleet.join(slots=5).session_id
    leases = fleet.hold(session, *fleet.put(5))
    pairs = [(lease.task_id, lease.token) for lease in leases]
    assert fleet.status(fleet.beat(session, *pairs, pairs[0])) == ["renewed"] * 6


def test_calls_of_several_sessions_are_kept_apart() -> None:
    one, two = fleet.held(), fleet.held("w2")
    calls = [
        HeartbeatRequest(caller=fleet.AGENT, session_id=s, beats=(Beat(task_id=t, token=k),))
        for s, t, k in [(one.session, one.task, one.token), (two.session, one.task, one.token), (77, 1, 1)]
    ]
    first, second, third = heartbeat.heartbeat_many(calls)
    assert (first.leases[0].status, second.leases[0].status) == ("renewed", "lost")
    assert isinstance(third, NotFound)


@pytest.mark.parametrize(
    ("base", "ttl", "sessions", "every"),
    [
        (10, 30, 0, 10),
        (10, 30, 10 * BEATS_PER_S, 10),
        (10, 30, 12 * BEATS_PER_S, 12),
        (10, 30, 10**9, 15 / 1.1),
        (1, 2, 0, 1),
    ],
)
def test_the_interval_stretches_with_the_fleet_up_to_half_the_ttl(
    base: float, ttl: float, sessions: int, every: float
) -> None:
    told = [heartbeat_every_s(base, ttl, sessions, session) for session in range(100)]
    assert min(told) == pytest.approx(every, abs=0.001), "whole milliseconds"
    assert every * 1.09 < max(told) <= every * 1.1 or max(told) == every == ttl / 2
