"""One job from claim to end: what leaving the block does, lost leases, directives, progress."""

import itertools
import time

import pytest

from dispatch.agent import AgentError, ApiError, Client, LeaseLost, Stop, TaskError
from tests.agent.server import ControlPlane


def test_normal_exit_completes_with_the_result(plane: ControlPlane, client: Client) -> None:
    plane.add(7, "index_text", {"folder": "/x"})
    with client.claim() as job:
        assert job is not None
        assert (job.task_id, job.type, job.payload, job.class_) == (7, "index_text", {"folder": "/x"}, "interactive")
        job.result = {"words": 3}
    assert plane.ends() == [("complete", {"task_id": 7, "token": job.token, "result": {"words": 3}})]
    assert job.state == "succeeded"


def test_nothing_within_the_wait_gives_none(plane: ControlPlane, client: Client) -> None:
    with client.claim(wait_s=0.05) as job:
        assert job is None
    assert plane.ends() == []


def test_an_exception_fails_the_task_and_is_not_swallowed(plane: ControlPlane, client: Client) -> None:
    plane.add(7)
    with pytest.raises(ZeroDivisionError), client.claim():
        _ = 1 / 0
    verb, body = plane.ends()[0]
    assert verb == "fail"
    assert body["error"]["kind"] == "transient"
    assert body["error"]["type"] == "ZeroDivisionError"
    assert body["error"]["message"] == "division by zero"
    assert "_ = 1 / 0" in body["error"]["stack"]


def test_a_task_error_says_how_it_failed(plane: ControlPlane, client: Client) -> None:
    plane.add(7)
    with pytest.raises(TaskError), client.claim():
        raise TaskError("CRM is full", kind="tool_limited", retry_after_s=30, tool="crm")
    verb, body = plane.ends()[0]
    assert (verb, body["error"]["kind"], body["retry_after_s"], body["tool"]) == ("fail", "tool_limited", 30, "crm")


@pytest.mark.parametrize("leaving", [KeyboardInterrupt, SystemExit])
def test_leaving_the_process_releases(plane: ControlPlane, client: Client, leaving: type[BaseException]) -> None:
    plane.add(7)
    with pytest.raises(leaving), client.claim():
        raise leaving
    assert plane.ends()[0][0] == "release"
    assert plane.ends()[0][1]["reason"] == leaving.__name__


def test_an_end_inside_the_block_stands(plane: ControlPlane, client: Client) -> None:
    plane.add(7)
    with client.claim() as job:
        assert job is not None
        job.fail("no such folder", kind="permanent")
        with pytest.raises(AgentError, match="complete after fail"):
            job.complete(1)
    assert [verb for verb, _ in plane.ends()] == ["fail"]


def test_a_result_the_server_refuses_fails_the_task(plane: ControlPlane, client: Client) -> None:
    plane.add(7)
    with pytest.raises(ApiError, match="413 too-large"), client.claim() as job:
        assert job is not None
        job.result = "too large"
    assert [verb for verb, _ in plane.ends()] == ["fail"]


def test_a_result_that_is_no_json_fails_the_task(plane: ControlPlane, client: Client) -> None:
    plane.add(7)
    with pytest.raises(TypeError), client.claim() as job:
        assert job is not None
        job.result = object()
    assert [verb for verb, _ in plane.ends()] == ["fail"]


def test_heartbeats_go_on_while_the_body_blocks(plane: ControlPlane, client: Client) -> None:
    plane.add(7)
    with client.claim():
        time.sleep(plane.ttl_s * 2.5)
    beats = plane.made("/heartbeats")
    gaps = [later.at - earlier.at for earlier, later in itertools.pairwise(beats)]
    assert len(beats) >= 5
    assert max(gaps) < plane.ttl_s / 2
    assert plane.ends()[0][0] == "complete"


@pytest.mark.parametrize("touch", ["progress", "checkpoint", "check", "complete", "fail", "release", "leave"])
def test_a_lost_lease_stops_the_next_touch_and_never_completes(plane: ControlPlane, client: Client, touch: str) -> None:
    plane.add(7)
    touches = {
        "progress": lambda job: job.progress(step=1),
        "checkpoint": lambda job: job.checkpoint({"at": 1}),
        "check": lambda job: job.check(),
        "complete": lambda job: job.complete(1),
        "fail": lambda job: job.fail("no"),
        "release": lambda job: job.release(),
        "leave": lambda job: None,
    }
    with pytest.raises(LeaseLost), client.claim() as job:
        assert job is not None
        plane.lose(7)
        assert job.lost.wait(5)
        assert job.stop
        touches[touch](job)
    assert plane.ends() == []
    assert plane.made("/complete") == [], "the loss was known: nothing may be sent"


def test_a_loss_that_only_the_completion_learns_of(plane: ControlPlane, client: Client) -> None:
    plane.add(7)
    with pytest.raises(LeaseLost), client.claim() as job:
        assert job is not None
        plane.lose(7)
        job.complete("late")
    assert job.lost
    assert plane.ends() == []


def test_an_error_of_the_body_under_a_lost_lease_stays_visible(plane: ControlPlane, client: Client) -> None:
    plane.add(7)
    with pytest.raises(LeaseLost) as caught, client.claim():
        plane.lose(7)
        raise KeyError("x")
    assert isinstance(caught.value.__cause__, KeyError)
    assert plane.ends() == []


def test_cancel_reaches_the_body_and_releases(plane: ControlPlane, client: Client) -> None:
    plane.add(7)
    with client.claim() as job:
        assert job is not None
        assert not job.cancelled
        plane.directives[7] = "cancel"
        assert job.stop.wait(5)
        assert job.cancelled
        assert not job.should_yield
        job.check()
    assert plane.ends() == [("release", {"task_id": 7, "token": job.token, "reason": "cancel"})]


def test_yield_is_only_asked(plane: ControlPlane, client: Client) -> None:
    plane.add(7)
    with client.claim() as job:
        assert job is not None
        plane.directives[7] = "yield"
        assert job.should_yield.wait(5)
        with pytest.raises(Stop, match="yield"):
            job.check()
        job.complete("finished all the same")
    assert plane.ends()[0][0] == "complete"


def test_progress_travels_with_the_next_heartbeat_once(plane: ControlPlane, client: Client) -> None:
    plane.add(7)
    with client.claim() as job:
        assert job is not None
        job.progress(step=1, note="reading")
        job.progress(step=2, fraction=0.5, cost=1.5)
        plane.until(lambda: len(plane.made("/heartbeats")) >= 3)
    reports = [lease.get("progress") for call in plane.made("/heartbeats") for lease in call.body["leases"]]
    assert reports[0] == {"step": 2, "note": "reading", "fraction": 0.5, "cost": 1.5}
    assert reports[1:3] == [None, None]


def test_flushed_progress_travels_at_once(plane: ControlPlane, client: Client) -> None:
    plane.add(7)
    with client.claim() as job:
        assert job is not None
        job.progress(step=1, flush=True)
        assert plane.made("/heartbeats")[0].body["leases"][0]["progress"] == {"step": 1}


def test_progress_survives_a_failed_heartbeat(plane: ControlPlane, client: Client) -> None:
    plane.add(7)
    plane.fault("/heartbeats", 503, times=2)
    with client.claim() as job:
        assert job is not None
        job.progress(step=1)
        job.progress(note="first")
        plane.until(lambda: len(plane.made("/heartbeats")) >= 3)
    assert plane.made("/heartbeats")[2].body["leases"][0]["progress"] == {"step": 1, "note": "first"}


def test_a_checkpoint_is_stored(plane: ControlPlane, client: Client) -> None:
    plane.add(7, checkpoint={"page": 3}, journal=[1, 2])
    with client.claim() as job:
        assert job is not None
        assert (job.saved, job.journal) == ({"page": 3}, [1, 2])
        job.checkpoint({"page": 4})
        job.checkpoint(3, append=True)
    assert plane.checkpoints == [{"page": 4}, 3]
    assert plane.made("/checkpoint")[1].body["append"] is True


def test_complete_claims_the_next_in_one_call(plane: ControlPlane, client: Client) -> None:
    plane.add(7)
    plane.add(8)
    with client.claim() as job:
        assert job is not None
        following = job.complete(1, next_wait_s=1)
    assert following is not None
    with following:
        pass
    assert [body["task_id"] for _, body in plane.ends()] == [7, 8]
    assert len(plane.made("/claims")) == 1


def test_a_long_message_is_cut(plane: ControlPlane, client: Client) -> None:
    plane.add(7)
    with pytest.raises(ValueError, match="ää"), client.claim():
        raise ValueError("ä" * 100_000)
    error = plane.ends()[0][1]["error"]
    assert len(error["message"].encode()) < 64 * 1024
    assert error["message"].endswith("[cut]")
