"""Agents' calls, through both doors."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from dispatch.conf import limits
from dispatch.models import JournalEntry, Lease
from tests import fleet
from tests.api.conftest import World
from tests.api.test_conventions import is_problem

pytestmark = pytest.mark.django_db(transaction=True)

WORKER = {"name": "w1", "capabilities": ["code"], "slots": 2}
LEASE_FIELDS = {
    *("task_id", "token", "attempt", "type", "payload", "class", "tenant", "user", "cost", "priority", "expires_at"),
    *("ttl_s", "heartbeat_every_s", "progress_timeout_s", "max_runtime_s", "deadline", "checkpoint", "journal"),
}

BAD_WORKERS: list[tuple[dict[str, Any], str]] = [
    ({"name": "W1"}, "name"),
    ({"name": "a\x00"}, "name"),
    ({"name": ""}, "name"),
    ({"capabilities": None}, "capabilities"),
    ({"capabilities": ["GPU"]}, "capabilities[0]"),
    ({"capabilities": [f"c{n}" for n in range(65)]}, "capabilities"),
    ({"slots": 0}, "slots"),
    ({"slots": 1001}, "slots"),
    ({"slots": 1.0}, "slots"),
    ({"slots": True}, "slots"),
    ({"slots": "1"}, "slots"),
    ({"weight": 0}, "weight"),
    ({"weight": -1}, "weight"),
    ({"weight": "1"}, "weight"),
    ({"pool": "nothing"}, "pool"),
    ({"labels": []}, "labels"),
    ({"labels": {"a": "\x00"}}, "labels.a"),
    ({"version": 3}, "version"),
    ({"colour": "red"}, "colour"),
]

BAD_CLAIMS: list[tuple[dict[str, Any], str]] = [
    ({"session_id": None}, "session_id"),
    ({"session_id": "1"}, "session_id"),
    ({"session_id": 1.0}, "session_id"),
    ({"max": 0}, "max"),
    ({"max": 1001}, "max"),
    ({"max": None}, "max"),
    ({"wait_s": -1}, "wait_s"),
    ({"wait_s": 61}, "wait_s"),
    ({"wait_s": "1"}, "wait_s"),
    ({"claim_id": 3}, "claim_id"),
    ({"claim_id": ""}, "claim_id"),
    ({"claim_id": "a\x00"}, "claim_id"),
    ({"colour": "red"}, "colour"),
]

BAD_BEATS: list[tuple[Any, str]] = [
    (None, "leases"),
    ([3], "leases[0]"),
    ([{"task_id": 1}], "leases[0].token"),
    ([{"task_id": "1", "token": 1}], "leases[0].task_id"),
    ([{"task_id": 1, "token": 1, "colour": 1}], "leases[0].colour"),
    ([{"task_id": 1, "token": 1, "progress": {"fraction": 1.5}}], "leases[0].progress.fraction"),
    ([{"task_id": 1, "token": 1, "progress": {"step": "4"}}], "leases[0].progress.step"),
    ([{"task_id": 1, "token": 1, "progress": {"cost": -1}}], "leases[0].progress.cost"),
    ([{"task_id": 1, "token": 1}] * 1001, "leases"),
]

BAD_ENDS: list[tuple[str, dict[str, Any], str]] = [
    ("complete", {"token": None}, "token"),
    ("complete", {"token": "1"}, "token"),
    ("complete", {"cost": -1}, "cost"),
    ("complete", {"cost": True}, "cost"),
    ("complete", {"colour": "red"}, "colour"),
    ("complete", {"error": {"message": "x"}}, "error"),
    ("complete", {"claim": {"session_id": 1}}, "claim.max"),
    ("fail", {}, "error"),
    ("fail", {"error": "boom"}, "error"),
    ("fail", {"error": {}}, "error.message"),
    ("fail", {"error": {"message": "x", "kind": "odd"}}, "error.kind"),
    ("fail", {"error": {"message": "x"}, "retry_after_s": -1}, "retry_after_s"),
    ("fail", {"error": {"message": "x"}, "tool": "unknown"}, "tool"),
    ("release", {"reason": 3}, "reason"),
    ("release", {"error": {"message": "x"}}, "error"),
]


def test_registration_opens_a_session_with_its_times(world: World) -> None:
    first = world.door.post("/workers", WORKER)
    assert first.status == 201
    assert set(first.data) >= {"worker_id", "session_id", "lease_ttl_s", "heartbeat_every_s", "offer_ttl_s"}
    again = world.door.post("/workers", WORKER)
    assert again.data["worker_id"] == first.data["worker_id"]
    assert again.data["session_id"] != first.data["session_id"]


def test_a_repeated_registration_is_one_session(world: World) -> None:
    headers = {"idempotency-key": "start-1"}
    first = world.door.post("/workers", WORKER, headers=headers)
    assert world.door.post("/workers", WORKER, headers=headers).data == first.data
    is_problem(world.door.post("/workers", {**WORKER, "slots": 1}, headers=headers), 409, "key-reused")


def test_bad_registrations_name_the_field(world: World) -> None:
    for change, field in BAD_WORKERS:
        reply = world.door.post("/workers", {**WORKER, **change})
        is_problem(reply, 422, "validation", change)
        assert set(reply.fields) == {field}, change


def test_goodbye_ends_a_session_once(world: World) -> None:
    lease = world.lease()
    assert world.door.call("DELETE", f"/sessions/{lease['session_id']}").status == 204
    is_problem(world.door.call("DELETE", f"/sessions/{lease['session_id']}"), 404, "not-found")
    is_problem(world.door.post("/claims", {"session_id": lease["session_id"], "max": 1, "wait_s": 0}), 404, "not-found")
    task = world.door.get(f"/tasks/{lease['task_id']}").data
    assert (task["state"], task["attempts"]) == ("queued", 0)


def test_a_claim_answers_a_whole_lease(world: World) -> None:
    lease = world.lease(payload={"a": [1, None]}, priority=3, cost=2.5, type="index", user="ann")
    assert set(lease) - {"session_id"} == LEASE_FIELDS
    assert (lease["payload"], lease["priority"], lease["type"]) == ({"a": [1, None]}, 3, "index")
    assert (lease["tenant"], lease["user"], lease["class"], lease["attempt"]) == ("sales", "ann", "background", 1)
    ends = datetime.fromisoformat(lease["expires_at"])
    assert lease["expires_at"].endswith("Z")
    assert timedelta(seconds=lease["ttl_s"] - 5) < ends - timezone.now() <= timedelta(seconds=lease["ttl_s"])


def test_an_empty_claim_says_why(world: World) -> None:
    session = world.session()
    for wait_s in (0, 0.2):
        reply = world.door.post("/claims", {"session_id": session, "max": 1, "wait_s": wait_s})
        assert reply.status == 200
        assert reply.data == {"leases": [], "idle_reason": "no_work", "worker_directive": "continue"}


def test_bad_claims_name_the_field(world: World) -> None:
    for change, field in BAD_CLAIMS:
        reply = world.door.post("/claims", {"session_id": 1, "max": 1, "wait_s": 0, **change})
        is_problem(reply, 422, "validation", change)
        assert reply.fields == [field], change


def test_a_session_that_is_not_there_is_404(world: World) -> None:
    own = world.session()
    stranger = world.key("work")
    for session, key in ((123456, world.door.key), (-1, world.door.key), (2**63 - 1, world.door.key), (own, stranger)):
        for path, rest in (("/claims", {"max": 1, "wait_s": 0}), ("/heartbeats", {"leases": []})):
            reply = world.door.post(path, {"session_id": session, **rest}, key=key)
            is_problem(reply, 404, "not-found", (session, path))


def test_the_same_claim_id_answers_the_same_leases(world: World) -> None:
    session = world.session()
    claim = {"session_id": session, "max": 2, "wait_s": 0, "claim_id": "c1"}
    assert world.door.post("/claims", claim).data["leases"] == []
    for _ in range(3):
        world.offer(world.task(), session)
    first = world.door.post("/claims", claim).data
    assert len(first["leases"]) == 2
    again = world.door.post("/claims", claim).data
    assert [lease["token"] for lease in again["leases"]] == [lease["token"] for lease in first["leases"]]
    other = world.door.post("/claims", {**claim, "claim_id": "c2"}).data
    assert len(other["leases"]) == 1


def test_heartbeats_renew_each_lease_for_itself(world: World) -> None:
    lease = world.lease()
    session = lease["session_id"]
    beats = [
        {"task_id": lease["task_id"], "token": lease["token"], "progress": {"step": 1, "note": "a\x00b", "cost": 0.5}},
        {"task_id": lease["task_id"], "token": lease["token"] + 1},
        {"task_id": 2**63 - 1, "token": 1},
        {"task_id": -5, "token": -5},
    ]
    reply = world.door.post("/heartbeats", {"session_id": session, "leases": beats})
    assert reply.status == 200
    assert [beat["status"] for beat in reply.data["leases"]] == ["renewed", "lost", "lost", "lost"]
    assert [beat["task_id"] for beat in reply.data["leases"]] == [beat["task_id"] for beat in beats]
    assert reply.data["leases"][0]["sanitized"] is True
    assert reply.data["leases"][0]["expires_at"] >= lease["expires_at"]
    assert reply.data["worker_directive"] == "continue"
    assert 10 <= reply.data["heartbeat_every_s"] <= 11, "the pool's setting and up to a tenth"
    assert Lease.objects.get(pk=lease["task_id"]).progress_note == "a\ufffdb"
    assert world.door.post("/heartbeats", {"session_id": session, "leases": []}).data["leases"] == []


def test_times_that_an_agent_sends_decide_nothing(world: World) -> None:
    lease = world.lease(max_runtime_s=60, progress_timeout_s=60)
    ends = "SELECT expires_at - now() < interval '31 s' AND expires_at > now(), runtime_until - now() FROM lease"
    beat = {"task_id": lease["task_id"], "token": lease["token"]}
    for date in ("Tue, 01 Jan 1980 00:00:00 GMT", "Fri, 31 Dec 2099 23:59:59 GMT", "yesterday"):
        headers = {"date": date, "x-request-start": "t=0", "if-modified-since": date}
        reply = world.door.post("/heartbeats", {"session_id": lease["session_id"], "leases": [beat]}, headers=headers)
        assert reply.data["leases"][0]["status"] == "renewed"
        ((soon, left),) = fleet.sql(ends)
        assert soon
        assert left <= timedelta(seconds=60)
    for field in ("expires_at", "now", "sent_at", "ttl_s"):
        body = {"session_id": lease["session_id"], "leases": [{**beat, field: "2099-12-31T00:00:00Z"}]}
        is_problem(world.door.post("/heartbeats", body), 422, "validation", field)
        ended = {"token": lease["token"], field: "1980-01-01T00:00:00Z"}
        is_problem(world.door.post(f"/tasks/{lease['task_id']}/complete", ended), 422, "validation", field)
    assert world.door.get(f"/tasks/{lease['task_id']}").data["state"] == "leased"


def test_bad_heartbeats_name_the_place(world: World) -> None:
    for leases, field in BAD_BEATS:
        reply = world.door.post("/heartbeats", {"session_id": 1, "leases": leases})
        is_problem(reply, 422, "validation", field)
        assert reply.fields == [field]


def test_every_end_answers_the_state_and_may_be_repeated(world: World) -> None:
    for outcome, body, state in (
        ("complete", {"result": {"rows": 3}, "cost": 1.5}, "succeeded"),
        ("fail", {"error": {"message": "boom", "kind": "permanent"}}, "dead"),
        ("fail", {"error": {"message": "boom"}}, "scheduled"),
        ("release", {"reason": "shutting down", "checkpoint": {"at": 3}}, "queued"),
    ):
        lease = world.lease()
        path, sent = f"/tasks/{lease['task_id']}/{outcome}", {"token": lease["token"], **body}
        for _ in range(2):
            reply = world.door.post(path, sent)
            assert (reply.status, reply.data) == (200, {"state": state}), (outcome, reply)


def test_a_lease_that_is_not_ones_own_is_lost(world: World) -> None:
    lease = world.lease()
    path = f"/tasks/{lease['task_id']}/complete"
    for token in (lease["token"] + 1, 0, -1, 2**63 - 1):
        is_problem(world.door.post(path, {"token": token}), 409, "lease-lost", token)
    is_problem(world.door.post(path, {"token": lease["token"]}, key=world.key("work")), 409, "lease-lost")
    assert world.door.get(f"/tasks/{lease['task_id']}").data["state"] == "leased"
    assert world.door.post(path, {"token": lease["token"]}, key=world.key("work", "operate")).status == 200


def test_bad_ends_name_the_field(world: World) -> None:
    lease = world.lease()
    for outcome, change, field in BAD_ENDS:
        body = {"token": lease["token"], **change}
        reply = world.door.post(f"/tasks/{lease['task_id']}/{outcome}", body)
        is_problem(reply, 422, "validation", (outcome, change))
        assert reply.fields == [field], (outcome, change)
    assert world.door.get(f"/tasks/{lease['task_id']}").data["state"] == "leased"


def test_nul_in_what_an_agent_reports_never_loses_the_work(world: World) -> None:
    for outcome, body in (
        ("complete", {"result": {"a\x00": ["b\x00"]}}),
        ("fail", {"error": {"message": "bad \x00 byte", "kind": "permanent", "stack": "\x00", "type": "\x00"}}),
        ("release", {"reason": "\x00", "checkpoint": "\x00"}),
    ):
        lease = world.lease()
        reply = world.door.post(f"/tasks/{lease['task_id']}/{outcome}", {"token": lease["token"], **body})
        assert (reply.status, reply.data["sanitized"]) == (200, True), outcome
        assert "\x00" not in str(world.door.get(f"/tasks/{lease['task_id']}").data)


def test_results_and_checkpoints_have_a_size(world: World) -> None:
    lease = world.lease()
    path = f"/tasks/{lease['task_id']}"
    large = {"token": lease["token"], "result": "x" * (limits().result_bytes - 1)}
    is_problem(world.door.post(f"{path}/complete", large), 413, "too-large")
    heavy = {"token": lease["token"], "checkpoint": "x" * (limits().checkpoint_bytes - 1)}
    is_problem(world.door.post(f"{path}/release", heavy), 413, "too-large")
    fits = {"token": lease["token"], "result": "x" * (limits().result_bytes - 2)}
    assert world.door.post(f"{path}/complete", fits).status == 200


def test_a_checkpoint_is_fenced_and_reaches_the_next_attempt(world: World) -> None:
    lease = world.lease()
    path = f"/tasks/{lease['task_id']}/checkpoint"
    for body in ({"checkpoint": {"page": 1}}, {"checkpoint": {"page": 2}}, {"checkpoint": "a", "append": True}):
        reply = world.door.post(path, {"token": lease["token"], **body})
        assert (reply.status, reply.data) == (200, {"state": "leased"})
    assert world.door.post(path, {"token": lease["token"], "checkpoint": "\x00", "append": True}).data["sanitized"]
    is_problem(world.door.post(path, {"token": lease["token"] + 1, "checkpoint": 1}), 409, "lease-lost")
    own = {"token": lease["token"], "checkpoint": 1}
    is_problem(world.door.post(path, own, key=world.key("work")), 409, "lease-lost")
    is_problem(world.door.post("/tasks/123456/checkpoint", own), 404, "not-found")
    for bad, field in (({}, "token"), ({"token": 1}, "checkpoint"), ({**own, "append": 1}, "append")):
        reply = world.door.post(path, bad)
        is_problem(reply, 422, "validation", bad)
        assert field in reply.fields
    world.door.post(f"/tasks/{lease['task_id']}/release", {"token": lease["token"]})
    world.offer(lease["task_id"], lease["session_id"])
    (again,) = world.door.post("/claims", {"session_id": lease["session_id"], "max": 1}).data["leases"]
    assert (again["checkpoint"], again["journal"]) == ({"page": 2}, ["a", "\ufffd"])


def test_a_long_error_is_cut_not_refused(world: World) -> None:
    lease = world.lease()
    error = {"message": "é" * 100_000, "kind": "permanent", "stack": "s" * 100_000}
    reply = world.door.post(f"/tasks/{lease['task_id']}/fail", {"token": lease["token"], "error": error})
    assert (reply.status, reply.data["state"]) == (200, "dead")
    kept = world.door.get(f"/tasks/{lease['task_id']}").data["error"]
    assert len(kept["message"].encode()) <= 64 * 1024
    assert kept["message"].startswith("éé")


def test_an_outcome_may_bring_the_next_lease(world: World) -> None:
    lease = world.lease()
    world.offer(world.task(payload="next"), lease["session_id"])
    body = {"token": lease["token"], "claim": {"session_id": lease["session_id"], "max": 1, "wait_s": 0}}
    reply = world.door.post(f"/tasks/{lease['task_id']}/complete", body)
    assert (reply.status, reply.data["state"]) == (200, "succeeded")
    assert [given["payload"] for given in reply.data["leases"]] == ["next"]


def test_a_refused_claim_does_not_undo_the_outcome(world: World) -> None:
    lease = world.lease()
    body = {"token": lease["token"], "claim": {"session_id": 123456, "max": 1, "wait_s": 0}}
    reply = world.door.post(f"/tasks/{lease['task_id']}/complete", body)
    assert (reply.status, reply.data["state"], reply.data["leases"]) == (200, "succeeded", [])
    assert reply.data["warnings"][0]["field"] == "claim"


def test_a_batch_of_outcomes_stands_each_for_itself(world: World) -> None:
    good, failed, lost, odd = [world.lease(world.session(f"w{n}")) for n in range(4)]
    outcomes: list[dict[str, Any]] = [
        {"task_id": good["task_id"], "token": good["token"], "outcome": "complete", "result": "\x00"},
        {"task_id": failed["task_id"], "token": failed["token"], "outcome": "fail", "error": {"message": "x"}},
        {"task_id": lost["task_id"], "token": lost["token"] + 1000, "outcome": "complete"},
        {"task_id": 123456, "token": 1, "outcome": "release"},
        {"task_id": odd["task_id"], "token": odd["token"], "outcome": "explode"},
        {"task_id": odd["task_id"], "token": odd["token"], "outcome": "complete", "colour": "red"},
        {"task_id": odd["task_id"], "token": odd["token"], "outcome": "complete", "result": "x" * 2**20},
        {"task_id": odd["task_id"], "token": odd["token"], "outcome": "fail"},
        {"task_id": 2**63 - 1, "token": 1, "outcome": "complete"},
    ]
    reply = world.door.post("/completions", {"outcomes": outcomes})
    assert reply.status == 200
    found = [(one["task_id"], one["status"], one["state"]) for one in reply.data["outcomes"]]
    assert [one[0] for one in found] == [one["task_id"] for one in outcomes]
    assert found[0][1:] == ("accepted", "succeeded")
    assert reply.data["outcomes"][0]["sanitized"] is True
    assert found[1][1:] == ("accepted", "scheduled")
    assert found[2][1] == "lost"
    assert [one[1] for one in found[3:]] == ["invalid"] * 6
    assert all(one["errors"] for one in reply.data["outcomes"][3:])
    assert world.door.get(f"/tasks/{odd['task_id']}").data["state"] == "leased"
    assert "leases" not in reply.data


def test_outcomes_that_cannot_be_answered_refuse_the_call(world: World) -> None:
    for outcomes in (None, {}, [3], [{"token": 1, "outcome": "complete"}], [{"task_id": "1"}], [{"task_id": True}]):
        is_problem(world.door.post("/completions", {"outcomes": outcomes}), 422, "validation", outcomes)
    many = [{"task_id": 1, "token": 1, "outcome": "complete"}] * 1001
    is_problem(world.door.post("/completions", {"outcomes": many}), 422, "validation")
    assert world.door.post("/completions", {"outcomes": []}).data == {"outcomes": []}


def test_the_same_outcome_twice_in_a_batch_counts_once(world: World) -> None:
    lease = world.lease()
    one = {"task_id": lease["task_id"], "token": lease["token"], "outcome": "complete"}
    reply = world.door.post("/completions", {"outcomes": [one, one]})
    assert [(out["status"], out["state"]) for out in reply.data["outcomes"]] == [("accepted", "succeeded")] * 2


def test_a_cancelled_task_ends_as_cancelled(world: World) -> None:
    lease = world.lease()
    asked = world.door.post(f"/tasks/{lease['task_id']}/cancel", {})
    assert asked.data == {"state": "leased", "cancel_requested": True}
    beat = {"session_id": lease["session_id"], "leases": [{"task_id": lease["task_id"], "token": lease["token"]}]}
    assert world.door.post("/heartbeats", beat).data["leases"][0]["directive"] == "cancel"
    body = {"token": lease["token"], "error": {"message": "stopped"}}
    assert world.door.post(f"/tasks/{lease['task_id']}/fail", body).data["state"] == "cancelled"


def test_an_appended_checkpoint_may_be_repeated(world: World) -> None:
    lease = world.lease()
    body = {"token": lease["token"], "checkpoint": {"page": 1}, "append": True}
    for _ in range(2):
        reply = world.door.post(f"/tasks/{lease['task_id']}/checkpoint", body, headers={"idempotency-key": "page 1"})
        assert (reply.status, reply.data) == (200, {"state": "leased"})
    assert JournalEntry.objects.filter(task_id=lease["task_id"]).count() == 1
