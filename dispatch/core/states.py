"""Task states and the one transition table; outcomes of attempts and whether they count.

Names and rules: contract.md "Task states" and "Counting".
"""

from enum import IntEnum


class State(IntEnum):
    """Where a task is; the numbers are stored."""

    SCHEDULED = 0  #: not due, or backing off
    QUEUED = 1  #: startable, waiting
    LEASED = 2  #: owned by exactly one live lease
    HELD = 3  #: set aside by an operator, a breaker, a spent budget or the hand-back limit
    SUCCEEDED = 4
    DEAD = 5  #: given up; an operator may requeue it
    CANCELLED = 6

    @property
    def word(self) -> str:
        """The name used in API and pages."""
        return self.name.lower()


FINAL = frozenset({State.SUCCEEDED, State.DEAD, State.CANCELLED})
WAITING = frozenset({State.SCHEDULED, State.QUEUED, State.HELD})

TRANSITIONS: dict[State, frozenset[State]] = {
    State.SCHEDULED: frozenset({State.QUEUED, State.HELD, State.CANCELLED, State.DEAD}),
    State.QUEUED: frozenset({State.LEASED, State.SCHEDULED, State.HELD, State.CANCELLED, State.DEAD}),
    State.LEASED: frozenset(
        {
            State.SUCCEEDED,
            State.DEAD,
            State.CANCELLED,
            State.QUEUED,
            State.SCHEDULED,
            State.HELD,
        }
    ),
    State.HELD: frozenset({State.QUEUED, State.SCHEDULED, State.CANCELLED, State.DEAD}),
    State.SUCCEEDED: frozenset(),
    State.DEAD: frozenset({State.QUEUED, State.CANCELLED}),  # requeued, discarded
    State.CANCELLED: frozenset(),
}


class Outcome(IntEnum):
    """How an attempt ended; the numbers are stored."""

    SUCCEEDED = 0
    FAILED = 1
    LOST = 2  #: heartbeats stopped
    STALLED = 3  #: heartbeats went on, progress did not
    TIMED_OUT = 4  #: max runtime
    EXPIRED = 5  #: the task's deadline passed
    RELEASED = 6
    PREEMPTED = 7
    UNDELIVERED = 8
    TOOL_LIMITED = 9
    OPERATOR = 10  #: revoked by an operator
    CANCELLED = 11

    @property
    def word(self) -> str:
        """The name used in API and pages."""
        return self.name.lower()


COUNTED = frozenset({Outcome.FAILED, Outcome.LOST, Outcome.STALLED, Outcome.TIMED_OUT})
LOSSES = frozenset({Outcome.LOST, Outcome.STALLED})
HANDBACKS = frozenset(
    {
        Outcome.RELEASED,
        Outcome.PREEMPTED,
        Outcome.UNDELIVERED,
        Outcome.TOOL_LIMITED,
        Outcome.OPERATOR,
    }
)


def permitted(old: State, new: State) -> bool:
    """Whether the table knows this step."""
    return new in TRANSITIONS[old]
