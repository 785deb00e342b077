"""The cells of one task's page and the drawing of its life."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dispatch.live.cells import gates, taskpage, timeline

NOW = datetime(2026, 11, 30, 14, 0, tzinfo=UTC)


def ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


def pulse(**fields: Any) -> dict[str, Any]:
    names = ("state", "starts", "attempts", "losses", "handbacks", "token", "cancel_requested", "priority", "run_at")
    lease = {"expires_at": NOW, "ttl_s": 30.0, "progress_step": 3, "progress_fraction": 0.31, "progress_note": "page 3"}
    ages = {"queue_age_s": None, "progress_age_s": 5.0, "renewed_age_s": 4.0, "progress_timeout_s": None}
    return dict.fromkeys(names) | lease | ages | fields


@pytest.mark.parametrize(
    ("age", "limit", "tone", "text"),
    [
        (5.0, None, "", ""),
        (599.0, None, "", ""),
        (720.0, None, "watch", "alive, not progressing for 12 m 00 s"),
        (299.0, 600.0, "", ""),
        (480.0, 600.0, "watch", "alive, not progressing for 8 m 00 s, reclaim in 2 m 00 s"),
        (700.0, 600.0, "breach", "alive, not progressing for 11 m 40 s, reclaim in 0 s"),
    ],
)
def test_a_stalled_agent_is_told(age: float, limit: float | None, tone: str, text: str) -> None:
    found = taskpage.lease(pulse(progress_age_s=age, progress_timeout_s=limit))
    assert (found["task.stall.tone"], found["task.stall"]) == (tone, text)
    assert found["task.part"] == "31 % · step 3" and found["task.bar"] == "31.0%"


def test_a_task_without_a_lease_counts_nothing_down() -> None:
    assert taskpage.lease(pulse(expires_at=None)) == {"task.leased": False}
    assert taskpage.waited(pulse(queue_age_s=816.0)) == "13 m 36 s"
    assert taskpage.version(pulse(starts=1)) != taskpage.version(pulse(starts=2))


def task(**fields: Any) -> dict[str, Any]:
    first = {"at": ago(50), "event": "failed", "started_at": ago(55), "attempt": 1, "worker": "ocr-01", "worker_id": 1}
    first |= {
        "token": 7,
        "progress": {"fraction": 0.31},
        "error": {"type": "OcrTimeout"},
        "counted": True,
        "cost": 505.0,
    }
    history = [{"at": ago(60), "event": "submitted"}, {"at": ago(55), "event": "leased", "attempt": 1}, first]
    return {"created_at": ago(60), "finished_at": None, "history": history, "lease": None} | fields


def test_waits_and_runs_fill_the_time() -> None:
    found = timeline.attempts(task(), NOW)
    assert [(one["waited"], one["ran"], one["fraction"], one["error"], one["cost"]) for one in found] == [
        ("5 m 00 s", "5 m 00 s", 0.31, "OcrTimeout", "505.0")
    ]
    drawn = timeline.draw(task(), found, NOW)
    assert drawn is not None
    assert [(mark["kind"], mark["x"], mark["w"]) for mark in drawn["marks"]] == [
        ("wait", "0.00%", "8.33%"),
        ("run", "8.33%", "8.33%"),
        ("wait", "16.67%", "83.33%"),
    ]
    assert drawn["lanes"][0]["text"] == "31 %, failed" and drawn["live"]


def test_a_running_attempt_reaches_to_now() -> None:
    lease = {"delivered_at": ago(10), "attempt": 2, "worker": "w", "worker_id": 2, "token": 9, "progress": None}
    found = timeline.attempts(task(lease=lease), NOW)
    assert (found[1]["word"], found[1]["waited"], found[1]["ran"]) == ("running", "40 m 00 s", "10 m 00 s")
    assert timeline.draw(task(created_at=NOW), [], NOW) is None


def test_gates_that_do_not_block_are_shown_with_their_use() -> None:
    shared = {
        "classes": [{"slug": "batch", "running": 27, "max": 120}],
        "tenants": [{"slug": "legal", "running": 10, "max": None}],
        "workers": [
            {"state": "live", "capabilities": ["ocr", "pdf"], "slots": 8, "running": 6},
            {"state": "lost", "capabilities": ["ocr", "pdf"], "slots": 8, "running": 8},
            {"state": "idle", "capabilities": ["pdf"], "slots": 4, "running": 0},
        ],
    }
    asked = {"class": "batch", "tenant": "legal", "capabilities": ["ocr"], "tools": [], "run_at": None}
    found = gates.passes(asked, shared, [])
    assert [(one["name"], one["numbers"]) for one in found] == [
        ("Maximum of batch", "27 of 120"),
        ("Maximum of legal", "10 running"),
        ("Slots of capable workers", "6 of 8"),
        ("Pause", ""),
    ]
    names = [one["name"] for one in gates.passes(asked, shared, [{"code": "class_max"}, {"code": "no_free_slot"}])]
    assert names == ["Maximum of legal", "Pause"]
