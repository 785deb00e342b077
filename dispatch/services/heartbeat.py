"""Heartbeat: renew any number of leases of a session, carry progress in and directives out.

A lease that is not there under that token and session answers `lost`; it never fails the others. A lease past its
expiry that nobody has reclaimed yet is renewed: whoever locks the row first wins.
"""

from collections.abc import Sequence
from typing import Any

from dispatch.core.types import MICRO
from dispatch.errors import EvenflowError
from dispatch.services import sessions, tally
from dispatch.services.messages import Beat, BeatAnswer, HeartbeatAnswer, HeartbeatRequest, Progress
from dispatch.store import db

RENEWALS = "lease_renewals"  # its name among the counts of this process
CHUNK = 1000  # leases in one statement: its cost is parameters and result rows
DIRECTIVES = ("continue", "yield", "cancel")
MAX_COST = 10**15  # micro-units: what an agent may report for one attempt at most

Key = tuple[int, int, int]  # task, token, session


def heartbeat_many(requests: Sequence[HeartbeatRequest]) -> list[HeartbeatAnswer | EvenflowError]:
    """Renew the leases of a batch of heartbeat calls; per call an answer or NotFound/Forbidden."""
    with db.atomic():
        opened = sessions.find_open(request.session_id for request in requests)
        refusals = [sessions.refusal(request.caller, opened.get(request.session_id)) for request in requests]
        accepted = [request for request, refused in zip(requests, refusals, strict=True) if refused is None]
        sessions.touch(opened[request.session_id] for request in accepted)
    beats: dict[Key, Beat] = {}
    for request in accepted:
        for beat in request.beats:
            key = (beat.task_id, beat.token, request.session_id)
            if beat.progress is not None or key not in beats:
                beats[key] = beat
    renewed = _renew({key: beat for key, beat in sorted(beats.items()) if _possible(key)})
    tally.count(RENEWALS, "renewed", len(renewed))
    tally.count(RENEWALS, "lost", len(beats) - len(renewed))
    return [
        refused or _answer(request, opened[request.session_id], renewed)
        for request, refused in zip(requests, refusals, strict=True)
    ]


def _possible(key: Key) -> bool:
    return all(0 < part <= sessions.MAX_ID for part in key)


def _renew(beats: dict[Key, Beat]) -> dict[Key, tuple[Any, str]]:
    """Renew in chunks, each its own transaction: key → (new expiry, directive); missing keys are lost."""
    renewed: dict[Key, tuple[Any, str]] = {}
    items = list(beats.items())
    for start in range(0, len(items), CHUNK):
        chunk = items[start : start + CHUNK]
        reports = [beat.progress or Progress() for _, beat in chunk]
        with db.atomic():
            db.execute("relax_commit")
            for task_id, token, session_id, expires_at, directive in db.tuples(
                "renew_leases",
                {
                    "task_ids": [key[0] for key, _ in chunk],
                    "tokens": [key[1] for key, _ in chunk],
                    "session_ids": [key[2] for key, _ in chunk],
                    "reported": [_reported(report) for report in reports],
                    "steps": [report.step for report in reports],
                    "fractions": [None if report.fraction is None else float(report.fraction) for report in reports],
                    "notes": [_clean(report.note) for report in reports],
                    "fingerprints": [_clean(report.fingerprint) for report in reports],
                    "costs": [_micro(report.cost) for report in reports],
                },
            ):
                renewed[task_id, token, session_id] = (expires_at, DIRECTIVES[directive])
    return renewed


def _reported(report: Progress) -> bool:
    return any(
        (report.step is not None, report.fraction is not None, report.note, report.fingerprint, report.cost is not None)
    )


def _clean(text: str | None) -> str | None:
    return None if text is None else text.replace("\0", "�")


def _micro(cost: float | None) -> int | None:
    return None if cost is None else int(min(max(cost, 0) * MICRO, MAX_COST))


def _answer(request: HeartbeatRequest, session: dict[str, Any], renewed: dict[Key, tuple[Any, str]]) -> HeartbeatAnswer:
    leases = []
    for beat in request.beats:
        found = renewed.get((beat.task_id, beat.token, request.session_id))
        status, (expires_at, directive) = ("renewed", found) if found else ("lost", (None, "cancel"))
        leases.append(BeatAnswer(task_id=beat.task_id, status=status, expires_at=expires_at, directive=directive))
    return HeartbeatAnswer(
        leases=leases,
        worker_directive="drain" if session["draining"] else "continue",
        heartbeat_every_s=sessions.heartbeat_every_s(request.session_id, session["pool_id"], session),
    )
