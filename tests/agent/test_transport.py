"""Retries: what is repeated, with which key, for how long."""

import time

import pytest

from dispatch.agent import ApiError, Client, Unreachable
from dispatch.agent.transport import Transport
from tests.agent.server import KEY, ControlPlane


@pytest.mark.parametrize("trouble", [503, 500, "reset", "lost"])
def test_a_submit_is_repeated_with_the_same_idempotency_key(
    plane: ControlPlane, client: Client, trouble: str | int
) -> None:
    plane.fault("/tasks", trouble, times=2)
    submitted = client.submit(tenant="sales", class_="interactive", payload={"n": 1})
    keys = [call.key for call in plane.made("/tasks")]
    assert len(keys) >= 3
    assert len(set(keys)) == 1
    assert len(plane.submitted) == 1, "three tries are one task"
    assert plane.submitted[keys[0] or ""]["id"] == submitted.id


def test_two_submits_carry_two_keys(plane: ControlPlane, client: Client) -> None:
    for _ in range(2):
        client.submit(tenant="sales", class_="interactive", payload=None)
    assert len({call.key for call in plane.made("/tasks")}) == 2


@pytest.mark.parametrize("trouble", [503, "reset", "lost"])
def test_a_claim_is_repeated_with_the_same_claim_id(plane: ControlPlane, client: Client, trouble: str | int) -> None:
    plane.add(7)
    plane.fault("/claims", trouble)
    with client.claim() as job:
        assert job is not None
        assert job.task_id == 7
    assert len({call.body["claim_id"] for call in plane.made("/claims")}) == 1
    assert [body["task_id"] for _, body in plane.ends()] == [7]


def test_a_completion_whose_answer_was_lost_is_repeated(plane: ControlPlane, client: Client) -> None:
    plane.add(7)
    with client.claim():
        plane.fault("/complete", "lost")
    assert len(plane.made("/complete")) >= 2
    assert [verb for verb, _ in plane.ends()] == ["complete"]


def test_retry_after_is_a_lower_bound(plane: ControlPlane, client: Client) -> None:
    plane.fault("/tasks", 429, Retry_After="0.4")
    began = time.monotonic()
    client.submit(tenant="sales", class_="interactive", payload=None)
    assert time.monotonic() - began >= 0.4


def test_a_conflict_is_repeated_only_when_the_server_says_when(plane: ControlPlane, client: Client) -> None:
    plane.fault("/tasks", 409, Retry_After="0")
    client.submit(tenant="sales", class_="interactive", payload=None)
    plane.fault("/tasks", 409)
    with pytest.raises(ApiError) as caught:
        client.submit(tenant="sales", class_="interactive", payload=None)
    assert caught.value.status == 409


def test_a_refusal_is_not_repeated(plane: ControlPlane, client: Client) -> None:
    plane.fault("/tasks", 422)
    with pytest.raises(ApiError):
        client.submit(tenant="sales", class_="interactive", payload=None)
    assert len(plane.made("/tasks")) == 1


def test_a_server_that_is_away_is_unreachable_after_the_retry_time() -> None:
    with ControlPlane() as gone:
        pass
    began = time.monotonic()
    with pytest.raises(Unreachable):
        Transport(gone.url, KEY, retry_for_s=0.5).call("GET", "/api/v1/tasks/1")
    assert time.monotonic() - began < 2


def test_connections_are_kept_alive(plane: ControlPlane, client: Client) -> None:
    ports = set()
    original = plane.answer

    for _ in range(5):
        client.submit(tenant="sales", class_="interactive", payload=None)
        ports.add(client.transport._idle[0].sock.getsockname()[1])
    assert len(ports) == 1
    assert plane.answer == original


def test_a_kept_alive_connection_that_the_server_closed_costs_no_delay(plane: ControlPlane) -> None:
    transport = Transport(plane.url, KEY, retry_for_s=0)
    body = {"tenant": "sales", "class": "interactive", "payload": None}
    transport.call("POST", "/api/v1/tasks", body, idempotency_key="a")
    plane.fault("/tasks", "reset")
    transport.call("POST", "/api/v1/tasks", body, idempotency_key="b")
    transport.close()


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://x", "http://"])
def test_a_bad_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="url must look like"):
        Transport(url, KEY)


def test_nan_never_leaves(client: Client) -> None:
    with pytest.raises(ValueError, match="JSON"):
        client.submit(tenant="sales", class_="interactive", payload=float("nan"))
