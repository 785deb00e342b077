"""Checkpoints and revocation."""

import pytest

from dispatch.errors import Conflict, Forbidden, LeaseLost, NotFound, TooLarge
from dispatch.services import checkpoint
from dispatch.services.messages import Finished
from dispatch.services.revoke import revoke
from tests import fleet

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def world() -> None:
    fleet.world()


def keep(one: fleet.Held, data: object, *, append: bool = False) -> Finished:
    return checkpoint.checkpoint(fleet.AGENT, one.task, one.token, data, append=append)


def test_the_next_attempt_gets_the_last_checkpoint_and_the_whole_journal() -> None:
    one = fleet.held()
    assert keep(one, {"page": 1}) == Finished(state="leased")
    keep(one, "paid 17", append=True)
    keep(one, {"page": 2})
    keep(one, "paid 18", append=True)
    fleet.ended("release", one.task, one.token)
    session = fleet.join("w2").session_id
    (lease,) = fleet.hold(session, one.task)
    assert (lease.checkpoint, lease.journal) == ({"page": 2}, ["paid 17", "paid 18"])
    assert fleet.value("SELECT count(*) FROM journal_entry") == 3, "what was replaced is gone"


def test_it_is_fenced_like_every_other_verb() -> None:
    one = fleet.held()
    with pytest.raises(LeaseLost):
        checkpoint.checkpoint(fleet.AGENT, one.task, one.token + 1, 1)
    with pytest.raises(LeaseLost):
        checkpoint.checkpoint(fleet.OTHER, one.task, one.token, 1)
    with pytest.raises(NotFound):
        checkpoint.checkpoint(fleet.AGENT, 2**63, one.token, 1)
    with pytest.raises(NotFound):
        checkpoint.checkpoint(fleet.key(7, tenant_id=10**6), one.task, one.token, 1)
    fleet.ended("complete", one.task, one.token)
    with pytest.raises(LeaseLost):
        keep(one, 1)
    assert fleet.sql("SELECT id FROM journal_entry") == []


def test_text_is_cleaned_and_marked() -> None:
    one = fleet.held()
    assert keep(one, {"a": "\0"}).sanitized


def test_the_journal_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    one = fleet.held()
    monkeypatch.setattr(checkpoint, "MAX_ENTRIES", 2)
    keep(one, 1, append=True)
    keep(one, 2, append=True)
    with pytest.raises(TooLarge):
        keep(one, 3, append=True)
    keep(one, "a replacing one still fits")
    monkeypatch.undo()
    monkeypatch.setattr(checkpoint, "MAX_BYTES", 10)
    with pytest.raises(TooLarge):
        keep(one, "0123456789", append=True)


def test_a_revoked_lease_is_queued_again_uncounted_and_audited() -> None:
    one = fleet.held()
    assert revoke(fleet.OPERATOR, one.task, "machine is sold") == {"state": "queued"}
    assert fleet.sql("SELECT state, attempts, handbacks, reason FROM task") == [(1, 0, 1, "machine is sold")]
    assert fleet.sql("SELECT action, reason FROM audit_event WHERE action = 'revoke'") == [
        ("revoke", "machine is sold")
    ]
    assert fleet.status(fleet.beat(one.session, (one.task, one.token))) == ["lost"]
    assert isinstance(fleet.end("complete", one.task, one.token, result=1), LeaseLost)
    with pytest.raises(Conflict):
        revoke(fleet.OPERATOR, one.task, "twice")
    fleet.invariants()


def test_an_offer_can_be_revoked_and_a_cancel_wins() -> None:
    session = fleet.join().session_id
    (task,) = fleet.put()
    fleet.offer(session, task)
    fleet.sql("UPDATE task SET cancel_requested = true")
    assert revoke(fleet.OPERATOR, task, "x") == {"state": "cancelled"}
    fleet.invariants()


def test_revoking_needs_the_scope_and_the_task() -> None:
    one = fleet.held()
    with pytest.raises(Forbidden):
        revoke(fleet.AGENT, one.task, "x")
    with pytest.raises(NotFound):
        revoke(fleet.OPERATOR, 10**9, "x")
