"""Random lives of tasks against a small model: submit, claim, dispatch, beat, complete, fail, release, reclaim, cancel,
requeue, revoke, pause, goodbye, and completions that race a reclaim, a revoke or a cancel.

Real services on real PostgreSQL, over two connections. After every step the rows must be what the model says: state
and counts of each task, who holds which lease, one accepted completion, starts within the limit, payloads untouched,
lane counts equal to the rows. Time passes by moving rows. Hypothesis prints the shortest life that fails.
"""

import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.db import connection
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from dispatch.errors import Conflict, LeaseLost, NotFound
from dispatch.services import dispatch, policy, reclaim, workers
from dispatch.services.cancel import cancel
from dispatch.services.messages import Finished
from dispatch.services.requeue import requeue
from dispatch.services.revoke import revoke
from tests import fleet

SCHEDULED, QUEUED, LEASED, HELD, SUCCEEDED, DEAD, CANCELLED = range(7)
WORDS = ["scheduled", "queued", "leased", "held", "succeeded", "dead", "cancelled"]
FINAL = {SUCCEEDED, DEAD, CANCELLED}
MAX_HANDBACKS = 4
SLOTS = 2
EXAMPLES = int(os.environ.get("EVENFLOW_MODEL_LIVES", "6"))  # `make chaos` asks for more
EMPTY = "task lease attempt demand worker_session worker settlement lane_delta lane_depth journal_entry alert decision"
PICK = st.integers(0, 10**6)
WIRE = st.integers(0, 1)


@dataclass
class Known:
    """What the model knows of one task."""

    payload: Any
    max_attempts: int
    state: int = QUEUED
    starts: int = 0
    attempts: int = 0
    losses: int = 0
    handbacks: int = 0
    asked: bool = False  # its cancel was requested
    session: int | None = None
    token: int | None = None
    delivered: bool = False
    old: list[tuple[int, int]] = field(default_factory=list)  # sessions and tokens of leases that are gone

    def end(self, state: int) -> None:
        """The lease goes."""
        if self.session is not None and self.token is not None and self.delivered:
            self.old.append((self.session, self.token))
        self.state = CANCELLED if self.asked else state
        self.session = self.token = None
        self.delivered = False

    def fail(self) -> None:
        self.attempts += not self.asked
        self.end(DEAD if self.attempts >= self.max_attempts else SCHEDULED)

    def lose(self) -> None:
        if not self.delivered:
            return self.hand_back()
        self.losses += not self.asked
        self.attempts += not self.asked
        limit = self.attempts >= self.max_attempts
        return self.end(DEAD if limit else QUEUED if self.losses <= 2 else SCHEDULED)

    def hand_back(self) -> None:
        self.handbacks += not self.asked
        self.end(HELD if self.handbacks >= MAX_HANDBACKS else QUEUED)


class Lives(RuleBasedStateMachine):
    """The rules; `tasks` and `sessions` are the model."""

    def __init__(self) -> None:
        super().__init__()
        self.wires = [ThreadPoolExecutor(1) for _ in range(2)]
        self.tasks: dict[int, Known] = {}
        self.sessions: list[int] = []
        self.paused = False

    def teardown(self) -> None:
        for wire in self.wires:
            wire.submit(lambda: connection.close()).result()
            wire.shutdown()

    def on(self, wire: int, call: Callable[[], Any]) -> Any:
        """Run on one of the two connections; an EvenflowError is an answer."""
        return self.wires[wire].submit(answered, call).result(20)

    def both(self, one: Callable[[], Any], other: Callable[[], Any]) -> tuple[Any, Any]:
        """At the same time, each on its connection."""
        first, second = self.wires[0].submit(answered, one), self.wires[1].submit(answered, other)
        return first.result(20), second.result(20)

    def some(self, pick: int, *states: int) -> tuple[int, Known] | None:
        """One task in one of these states."""
        found = [(id_, task) for id_, task in self.tasks.items() if task.state in states]
        return found[pick % len(found)] if found else None

    def held(self, pick: int, wire: int = 0) -> tuple[int, Known] | None:
        """One delivered lease; where there is none, one is handed out if that is possible.

        Rules have no preconditions: who wins a race is not Hypothesis's to say, so what it may draw next must not
        depend on it.
        """
        if not any(task.delivered for task in self.tasks.values()):
            self.hand_out(pick % 2, wire, 1)
        found = [(id_, task) for id_, task in self.tasks.items() if task.delivered]
        return found[pick % len(found)] if found else None

    @initialize()
    def world(self) -> None:
        fleet.sql(f"TRUNCATE {', '.join(EMPTY.split())}")
        fleet.sql("UPDATE work_class SET paused = false")
        reclaim._skipped.clear()
        self.sessions = [fleet.join(f"w{n}", SLOTS).session_id for n in range(2)]
        fleet.sql("UPDATE pool_leader SET epoch = epoch + 1")
        self.epoch = fleet.value("SELECT epoch FROM pool_leader WHERE pool_id = %s", fleet.pool_id())
        self.memory = dispatch.load_memory(fleet.pool_id())
        for limit in (1, 2, 3):
            self.submit(1, limit, {"limit": limit})
        self.hand_out(0, 0, 1)

    # What submitters and operators do

    @rule(count=st.integers(1, 3), limit=st.integers(1, 4), payload=st.one_of(st.none(), st.integers(), st.text("ab")))
    def submit(self, count: int, limit: int, payload: Any) -> None:
        for id_ in fleet.put(count, payload=payload, max_attempts=limit):
            self.tasks[id_] = Known(payload, limit)

    @rule(pick=PICK, wire=WIRE)
    def cancel(self, pick: int, wire: int) -> None:
        if found := self.some(pick, *range(7)):
            id_, task = found
            answer = self.on(wire, lambda: cancel(fleet.ROOT, id_))
            assert isinstance(answer, Conflict) == (task.state in FINAL), answer
            self.cancelled(task)

    def cancelled(self, task: Known) -> None:
        if task.state == LEASED:
            task.asked = True
        elif task.state not in FINAL:
            task.asked = False
            task.state = CANCELLED

    @rule(pick=PICK, wire=WIRE)
    def requeue(self, pick: int, wire: int) -> None:
        if found := self.some(pick, DEAD) or self.some(pick, *range(7)):
            id_, task = found
            answer = self.on(wire, lambda: requeue(fleet.ROOT, id_))
            assert isinstance(answer, Conflict) == (task.state != DEAD), answer
            if task.state == DEAD:
                task.state = QUEUED
                task.attempts = task.losses = task.handbacks = 0

    @rule(pick=PICK, wire=WIRE)
    def revoke(self, pick: int, wire: int) -> None:
        if found := self.some(pick, LEASED) or self.some(pick, *range(7)):
            id_, task = found
            answer = self.on(wire, lambda: revoke(fleet.ROOT, id_, "stop"))
            assert isinstance(answer, Conflict) == (task.state != LEASED), answer
            if task.state == LEASED:
                task.hand_back()
                assert answer["state"] == WORDS[task.state]

    @rule(paused=st.booleans())
    def pause(self, paused: bool) -> None:
        version = policy.get(fleet.ROOT, "class", "critical")["version"]
        policy.patch(fleet.ROOT, "class", "critical", version, {"paused": paused}, "test")
        self.paused = paused

    # What agents do

    @rule(which=WIRE, wire=WIRE, most=st.integers(1, 3))
    def claim(self, which: int, wire: int, most: int) -> None:
        session = self.sessions[which]
        answer = self.on(wire, lambda: fleet.ask(session, most, wait_s=30))
        offered = {id_ for id_, task in self.tasks.items() if task.session == session and not task.delivered}
        given = {lease.task_id: lease for lease in answer.leases}
        assert given.keys() <= offered
        assert len(given) == min(most, len(offered))
        for id_, lease in given.items():
            task = self.tasks[id_]
            task.delivered = True
            task.starts += 1
            assert (lease.token, lease.attempt, lease.payload) == (task.token, task.starts, task.payload)

    @rule(which=WIRE, wire=WIRE, most=st.integers(1, 3))
    def hand_out(self, which: int, wire: int, most: int) -> None:
        """Ask, be offered, receive."""
        if not self.some(0, QUEUED, SCHEDULED):
            self.submit(1, 2, None)
        self.backoff_ends()
        self.claim(which, wire, most)
        self.dispatch(1 - wire)
        self.claim(which, wire, most)

    @rule(pick=PICK, wire=WIRE)
    def beat(self, pick: int, wire: int) -> None:
        if found := self.held(pick, wire):
            id_, task = found
            answer = self.on(wire, lambda: fleet.beat(task.session, (id_, task.token)))  # type: ignore[arg-type]
            assert [(one.status, one.directive) for one in answer] == [
                ("renewed", "cancel" if task.asked else "continue")
            ]

    @rule(pick=PICK, wire=WIRE, verb=st.sampled_from(["complete", "fail", "release"]))
    def end(self, pick: int, wire: int, verb: str) -> None:
        if found := self.held(pick, wire):
            id_, task = found
            token = task.token
            answer = self.on(wire, lambda: fleet.end(verb, id_, token, result=id_))  # type: ignore[arg-type]
            {"complete": lambda: task.end(SUCCEEDED), "fail": task.fail, "release": task.hand_back}[verb]()
            assert answer == Finished(state=WORDS[task.state])
            again = self.on(1 - wire, lambda: fleet.end(verb, id_, token, result="again"))  # type: ignore[arg-type]
            assert again == answer, "a repeated call gets the same answer"

    @rule(pick=PICK, wire=WIRE, verb=st.sampled_from(["complete", "fail", "release", "beat"]))
    def too_late(self, pick: int, wire: int, verb: str) -> None:
        """With the token of a lease that was taken away, or of one that ended by another call."""
        stale = [(id_, *old) for id_, task in self.tasks.items() for old in task.old]
        if stale:
            id_, session, token = stale[pick % len(stale)]
            if verb == "beat":
                answer = self.on(wire, lambda: fleet.beat(session, (id_, token)))
                assert (
                    isinstance(answer, NotFound) if session not in self.sessions else fleet.status(answer) == ["lost"]
                )
            else:
                answer = self.on(wire, lambda: fleet.end(verb, id_, token, result="late"))
                assert isinstance(answer, LeaseLost | Finished), answer

    @rule(which=WIRE)
    def goodbye(self, which: int) -> None:
        session = self.sessions[which]
        workers.goodbye(fleet.AGENT, session)
        for task in self.tasks.values():
            if task.session == session:
                task.hand_back()
        self.sessions[which] = fleet.join(f"w{which}", SLOTS).session_id

    # What our own processes do

    @rule(wire=WIRE)
    def dispatch(self, wire: int) -> None:
        while self.on(wire, lambda: dispatch.cycle(fleet.pool_id(), self.epoch, self.memory)).more:
            pass
        due = {row[0] for row in fleet.sql("SELECT id FROM task WHERE state = 1")}
        leases = fleet.sql("SELECT task_id, session_id, token FROM lease WHERE delivered_at IS NULL")
        for id_, task in self.tasks.items():
            if task.state == SCHEDULED and (id_ in due or id_ in {row[0] for row in leases}):
                task.state = QUEUED  # its back-off was over
        for id_, session, token in leases:
            task = self.tasks[id_]
            if task.token != token:
                assert task.state == QUEUED
                assert not self.paused
                assert session in self.sessions
                task.state, task.session, task.token = LEASED, session, token

    def backoff_ends(self) -> None:
        fleet.sql("UPDATE task SET run_at = now() WHERE state = 0")

    @rule(pick=PICK, wire=WIRE)
    def reclaim(self, pick: int, wire: int) -> None:
        if found := self.some(pick, LEASED) or self.held(pick, wire):
            id_, task = found
            fleet.sql("UPDATE lease SET expires_at = now() - interval '1 s' WHERE task_id = %s", id_)
            assert self.on(wire, reclaim.sweep).total == 1
            if not task.delivered:
                assert fleet.sql("SELECT id FROM demand WHERE session_id = %s", task.session) == []
            task.lose()

    # Two at once

    @rule(pick=PICK, rival=st.sampled_from(["reclaim", "revoke", "cancel", "complete"]))
    def race(self, pick: int, rival: str) -> None:
        found = self.held(pick)
        if found is None:
            return  # all is paused
        id_, task = found
        token = task.token
        if rival == "reclaim":
            fleet.sql("UPDATE lease SET expires_at = now() - interval '1 s' WHERE task_id = %s", id_)
        calls: dict[str, Callable[[], Any]] = {
            "reclaim": reclaim.sweep,
            "revoke": lambda: revoke(fleet.ROOT, id_, "stop"),
            "cancel": lambda: cancel(fleet.ROOT, id_),
            "complete": lambda: fleet.end("complete", id_, token, result="twin"),  # type: ignore[arg-type]
        }
        done, other = self.both(lambda: fleet.end("complete", id_, token, result=1), calls[rival])  # type: ignore[arg-type]
        if rival == "cancel" and not isinstance(other, Conflict):
            task.asked = True  # the request came first: the end is a cancellation
        if isinstance(done, Finished):
            task.end(SUCCEEDED)
            assert done.state == WORDS[task.state]
            if rival == "complete":
                assert other == done
        else:
            assert isinstance(done, LeaseLost)
            assert rival in {"reclaim", "revoke"}
            (task.lose if rival == "reclaim" else task.hand_back)()
        if rival == "reclaim":  # it leaves a row that the completion has in hand to the next sweep
            assert reclaim.sweep().total == 0

    # What must hold after every step

    @invariant()
    def rows_are_what_the_model_says(self) -> None:
        rows = fleet.sql(
            "SELECT t.id, t.payload, t.max_attempts, t.state, t.starts + (l.delivered_at IS NOT NULL)::int, t.attempts,"
            " t.losses, t.handbacks, l.session_id, l.token, l.delivered_at IS NOT NULL"
            " FROM task t LEFT JOIN lease l ON l.task_id = t.id"
        )
        stored = {row[0]: row[1:] for row in rows}
        model = {
            id_: (
                t.payload, t.max_attempts, t.state, t.starts, t.attempts, t.losses, t.handbacks, t.session, t.token,
                t.delivered,
            )
            for id_, t in self.tasks.items()
        }  # fmt: skip
        assert {id_: (json_of(row[0]), *row[1:]) for id_, row in stored.items()} == model
        fleet.invariants()

    @invariant()
    def completions_and_starts_are_accounted_for(self) -> None:
        rows = fleet.sql("SELECT task_id, count(*), count(*) FILTER (WHERE outcome = 0) FROM attempt GROUP BY task_id")
        ended = {id_: (count, accepted) for id_, count, accepted in rows}
        for id_, task in self.tasks.items():
            count, accepted = ended.get(id_, (0, 0))
            assert accepted == (task.state == SUCCEEDED), f"task {id_} was completed {accepted} times"
            assert task.starts == count + task.delivered
            assert task.attempts <= task.max_attempts
        most = fleet.value("SELECT coalesce(max(n), 0) FROM (SELECT count(*) n FROM lease GROUP BY session_id) x")
        assert most <= SLOTS


def json_of(value: Any) -> Any:
    """A jsonb column: Django's raw cursor gives its text."""
    return json.loads(value)


def answered(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Conflict as refusal:
        return refusal


@pytest.mark.django_db(transaction=True)
def test_any_life_of_tasks_is_as_the_model_says() -> None:
    fleet.world()
    fleet.sql("UPDATE pool SET max_handbacks = %s", MAX_HANDBACKS)
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Lives,
        settings=settings(
            max_examples=EXAMPLES, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
