"""The page of one worker: what it holds, and the commands with what they would hit."""

import json
from collections.abc import Callable

import pytest
from django.test import Client

from dispatch.models import AuditEvent, Worker
from dispatch.services import workers
from dispatch.services.messages import Caller, WorkerSpec
from dispatch.ui.views.workers import commands, consequence

Browse = Callable[..., Client]
HTMX = {"HX-Request": "true"}


@pytest.fixture
def worker(pool: None, system: Caller) -> int:
    """One registered worker with two slots; its id."""
    workers.register(system, WorkerSpec(name="gen-<b>7</b>", pool=None, slots=2, capabilities=("ocr",)))
    return Worker.objects.get().pk


def test_who_sees_a_worker(worker: int, browse: Browse) -> None:
    text = browse().get(f"/workers/{worker}").content.decode()
    assert "gen-&lt;b&gt;7&lt;/b&gt;" in text and "<b>7</b>" not in text and 'action="/workers/' in text
    assert "Its 2 slots get no new work and its agent is told to drain. It holds no lease." in text
    assert 'action="/workers/' not in browse("auditor").get(f"/workers/{worker}").content.decode()
    assert browse("", tenant="sales").get(f"/workers/{worker}").status_code == 404
    assert browse("operator", tenant="legal").get("/workers/9223372036854775808").status_code == 404


@pytest.mark.parametrize(
    ("verb", "back", "field"),
    [("drain", "undrain", "draining"), ("pause", "resume", "paused"), ("quarantine", "release", "quarantined")],
)
def test_a_worker_is_steered_and_let_go_again(verb: str, back: str, field: str, worker: int, browse: Browse) -> None:
    client = browse()
    assert client.post(f"/workers/{worker}/{verb}", {"reason": " "}, headers=HTMX).status_code == 422
    assert client.post(f"/workers/{worker}/{verb}", {"reason": "smoke"}, headers=HTMX).status_code == 204
    assert getattr(Worker.objects.get(), field) is True
    assert AuditEvent.objects.filter(target_kind="worker").latest("id").reason == "smoke"
    assert f'/workers/{worker}/{back}"' in client.get(f"/workers/{worker}").content.decode()
    answer = client.post(f"/workers/{worker}/{back}", {"reason": "over"}, headers=HTMX)
    assert "gen-<b>7</b>" in json.loads(answer["HX-Trigger"])["done"]["text"]
    assert getattr(Worker.objects.get(), field) is False


def test_others_steer_nothing(worker: int, browse: Browse) -> None:
    assert browse("auditor").post(f"/workers/{worker}/drain", {"reason": "x"}, headers=HTMX).status_code == 403
    client = browse()
    assert client.post(f"/workers/{worker}/explode", {"reason": "x"}).status_code == 404
    assert client.post("/workers/99999/drain", {"reason": "x"}, headers=HTMX).status_code == 404
    assert not Worker.objects.get().draining


def test_the_consequence_names_what_is_hit() -> None:
    busy = {"name": "w", "running": 2, "slots": 3, "draining": False, "paused": True, "quarantined": False}
    assert [one["verb"] for one in commands(busy)] == ["drain", "resume", "quarantine"]
    assert consequence("drain", busy).endswith("The 2 leases it holds run to the end.")
    assert consequence("resume", busy) == "Its 3 slots get work again from the next cycle."
    assert consequence("undrain", busy) == "It stays paused, so it gets no work yet."
