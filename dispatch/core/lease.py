"""Arithmetic of leases: how often to beat, and whether an expired lease is dead or was only not heard.

Times are microseconds since the epoch, durations microseconds (as in core/types.py) unless a name ends in `_s`.
"""

import math
from collections.abc import Sequence
from enum import Enum

BEATS_PER_S = 1_000  #: heartbeat calls a second that one pool should cause at most
SPREAD = 0.1  #: how much longer than the shortest the longest interval of a fleet is
MAX_EXTENSIONS = 5  #: outages in a row that a lease survives without one heartbeat

Span = tuple[int, int]  # a web process was up from … to …


def heartbeat_every_s(base_s: float, ttl_s: float, sessions: int, session: int) -> float:
    """Seconds between the heartbeats of one session.

    The pool's setting, stretched so that the fleet makes at most BEATS_PER_S calls a second, and up to SPREAD more, by
    the session's id: agents that started together do not beat together. Never below the setting, never beyond half the
    TTL (a beat may get lost once).
    """
    return _stretched(base_s, ttl_s, sessions, _scatter(session))


def longest_every_s(base_s: float, ttl_s: float, sessions: int) -> float:
    """The longest interval that any session of such a fleet is told."""
    return _stretched(base_s, ttl_s, sessions, 1.0)


def _stretched(base_s: float, ttl_s: float, sessions: int, scatter: float) -> float:
    most = max(base_s, ttl_s / 2)
    shortest = max(base_s, min(most / (1 + SPREAD), sessions / BEATS_PER_S))
    longest = min(most, shortest * (1 + SPREAD))
    told = math.ceil(shortest * (1 + SPREAD * scatter) * 1000) / 1000  # whole milliseconds
    return max(shortest, min(longest, told))


def _scatter(session: int) -> float:
    """0..1 from an id; ids in a row lie far apart (multiples of the golden ratio fill the interval evenly)."""
    return session * 0x9E3779B1 % 2**32 / 2**32


class Verdict(Enum):
    """What to do with a lease whose expiry has passed."""

    RECLAIM = "reclaim"
    EXTEND = "extend"  # nobody was there to hear its heartbeats: one more TTL


def judge_expired(*, renewed_at: int, ttl: int, extensions: int, web: Sequence[Span]) -> Verdict:
    """Our own outage is not the agents' death: a lease is reclaimed only if some web process was up, without a gap,
    for a whole TTL since its last renewal; else it is extended, at most MAX_EXTENSIONS times in a row.

    `web` holds each web process's gap-free span: up to now while it pulses, else up to its last pulse. Without any
    (agents that do not come over HTTP) there is no outage to speak of.
    """
    if not web or extensions >= MAX_EXTENSIONS:
        return Verdict.RECLAIM
    heard = max(end - max(start, renewed_at) for start, end in web)
    return Verdict.RECLAIM if heard >= ttl else Verdict.EXTEND


def judge_overdue(*, renewed_at: int, now: int, extensions: int, web: Sequence[Span]) -> Verdict:
    """The same for a lease that is alive but over its runtime, its progress deadline or its time to yield: the agent
    may have been done, and could not say so, when no web process was up all the time since its last renewal.
    """
    if not web or extensions >= MAX_EXTENSIONS:
        return Verdict.RECLAIM
    return Verdict.RECLAIM if any(start <= renewed_at and now <= end for start, end in web) else Verdict.EXTEND
