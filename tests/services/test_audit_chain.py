"""The audit's chain: linked after commit in order; whatever a superuser changes, removes or inserts is named."""

import threading
import time
from collections.abc import Callable

import pytest
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction

from dispatch.models import AuditEvent, AuditLink
from dispatch.services import audit, audit_chain
from tests import fleet
from tests.services.test_races import together
from tests.services.world import ROOT

pytestmark = pytest.mark.django_db(transaction=True)

UNGUARDED = "ALTER TABLE audit_event DISABLE TRIGGER ALL; ALTER TABLE audit_link DISABLE TRIGGER ALL"
GUARDED = "ALTER TABLE audit_event ENABLE TRIGGER ALL; ALTER TABLE audit_link ENABLE TRIGGER ALL"


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_chain, "SETTLE_S", 0.0)


def record(count: int = 1) -> None:
    for n in range(count):
        audit.record(ROOT, "patch_class", "class", f"c{n}", {"weight": 1.5}, {"weight": n}, "because é\u2028")


def link_all(count: int) -> None:
    """Link exactly so many; a transaction that is open anywhere on the server, another test's too, is waited for."""
    linked, end = 0, time.monotonic() + 100
    while linked < count and time.monotonic() < end:
        linked += audit_chain.advance()
    assert linked == count


def chained(count: int = 5) -> list[int]:
    record(count)
    link_all(count)
    return [link.event_id for link in AuditLink.objects.order_by("seq")]


def tamper(text: str, *params: object) -> None:
    fleet.sql(UNGUARDED)
    fleet.sql(text, *params)
    fleet.sql(GUARDED)


def faults() -> list[tuple[str, int | None]]:
    return [(fault.kind, fault.id) for fault in audit_chain.verify().faults]


def test_an_untouched_chain_is_whole_and_goes_on_where_it_ended() -> None:
    ids = chained()
    head = audit_chain.verify().head
    assert (audit_chain.advance(), faults()) == (0, [])
    record(2)
    link_all(2)
    verdict = audit_chain.verify(head)
    assert (verdict.links, verdict.faults) == (7, [])
    assert [link.event_id for link in AuditLink.objects.order_by("seq")][:5] == ids == sorted(ids)


@pytest.mark.parametrize(
    "change",
    [
        "reason = 'because'",
        "refused = true",
        "actor_name = 'somebody'",
        "before = '{\"weight\": 2}'",
        "after = NULL",
        "at = at + interval '1 microsecond'",
        "tenant_id = 3",
    ],
)
def test_a_changed_entry_is_named(change: str) -> None:
    ids = chained()
    tamper(f"UPDATE audit_event SET {change} WHERE id = %s", ids[2])
    assert faults() == [("changed", ids[2])]


def test_removed_entries_and_links_are_named() -> None:
    ids = chained(8)
    tamper("DELETE FROM audit_event WHERE id = %s", ids[1])
    assert faults() == [("removed", ids[1])]
    tamper("DELETE FROM audit_link WHERE event_id = %s", ids[1])
    assert faults() == [("unlinked", None)], "both gone leaves a hole in the places"
    tamper("DELETE FROM audit_link WHERE event_id = %s", ids[4])
    assert ("inserted", ids[4]) in faults()


def test_an_inserted_entry_is_named() -> None:
    ids = chained(3)
    copied = "SELECT %s, at, actor_kind, actor_id, actor_name, action, target_kind, target, reason, refused, request_id"
    tamper(
        "INSERT INTO audit_event (id, at, actor_kind, actor_id, actor_name, action, target_kind, target, reason,"
        f" refused, request_id) {copied} FROM audit_event WHERE id = %s",
        ids[0] - 1,
        ids[0],
    )
    assert audit_chain.advance() == 0
    assert faults() == [("inserted", ids[0] - 1)]


def test_a_forged_link_and_a_cut_end_are_found() -> None:
    ids = chained(4)
    head = audit_chain.verify().head
    tamper("UPDATE audit_link SET hash = sha256(hash) WHERE event_id = %s", ids[3])
    assert faults() == [("changed", ids[3])]
    tamper("DELETE FROM audit_link WHERE event_id = %s", ids[3])
    tamper("DELETE FROM audit_event WHERE id = %s", ids[3])
    assert faults() == [], "a cut end alone leaves no trace"
    assert [fault.kind for fault in audit_chain.verify(head).faults] == ["unlinked"], "but a noted head does"


def test_an_entry_that_is_never_linked_is_a_fault_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    chained(2)
    record()
    assert faults() == []
    monkeypatch.setattr(audit_chain, "PATIENCE_S", 0.0)
    assert faults() == [("unlinked", AuditEvent.objects.latest("id").pk)]


def test_the_database_refuses_changes_of_entries_and_links() -> None:
    chained(1)
    for table in ("audit_event", "audit_link"):
        for verb in (
            f"DELETE FROM {table}",
            f"UPDATE {table} SET {'reason' if table == 'audit_event' else 'hash'} = ''",
        ):
            with pytest.raises(Exception, match="append-only"), transaction.atomic():
                fleet.sql(verb)


def test_late_commits_are_waited_for_and_hold_up_no_command() -> None:
    """One transaction records first and commits last: nothing behind it is linked before it is through."""
    recorded, committed = threading.Event(), threading.Event()

    def slow() -> None:
        with transaction.atomic():
            record()
            recorded.set()
            assert committed.wait(10)

    def others() -> int:
        assert recorded.wait(10)
        record(3)
        linked = audit_chain.advance()
        committed.set()
        return linked

    calls: list[Callable[[], object]] = [slow, others]
    assert together(*calls)[1] == 0, "three are committed, but an earlier one may still come"
    link_all(4)
    ids = [link.event_id for link in AuditLink.objects.order_by("seq")]
    assert ids == sorted(ids)
    assert faults() == []
    connection.close()


def test_of_two_writers_at_once_one_wins_and_nothing_is_linked_twice() -> None:
    record(50)
    linked = 0
    while linked < 50:  # an open transaction of another test may hold them up
        linked += sum(together(*[_advance] * 3))
    assert linked == 50
    assert AuditLink.objects.count() == 50
    assert faults() == []


def _advance() -> int:
    try:
        return audit_chain.advance()
    except IntegrityError:
        return 0


def test_the_command_names_the_faults_and_its_exit_code_tells(capsys: pytest.CaptureFixture[str]) -> None:
    ids = chained(3)
    call_command("audit", "verify")
    line = capsys.readouterr().out.splitlines()[-1]
    assert line.startswith("3 entries in the chain, head 3:")
    tamper("UPDATE audit_event SET reason = 'x' WHERE id = %s", ids[1])
    with pytest.raises(SystemExit) as exit_:
        call_command("audit", "verify", expect=line.split()[-1])
    assert exit_.value.code == 1
    assert capsys.readouterr().out.startswith(f"changed: Entry {ids[1]} (place 2) is not what was chained.")
