"""Supply against demand: who could run what tasks need."""

from collections.abc import Callable

from django.test import Client

from dispatch.live.cells.capabilities import answer
from dispatch.models import Tenant, Worker
from dispatch.services import access, supply, workers
from dispatch.services.messages import Caller, WorkerSpec

Browse = Callable[..., Client]


def enrol(caller: Caller, name: str, *capabilities: str) -> None:
    workers.register(caller, WorkerSpec(name=name, pool=None, slots=3, capabilities=capabilities))


def test_supply_counts_who_offers_the_whole_set(task: Callable[..., int], system: Caller, browse: Browse) -> None:
    for capabilities in (["ocr", "pdf"], ["ocr"], ["gpu"], []):
        task(capabilities=capabilities)
    enrol(system, "both", "ocr", "pdf")
    enrol(system, "ocr-only", "ocr")
    enrol(system, "drained", "gpu")
    Worker.objects.filter(name="drained").update(draining=True)
    found = {",".join(item["capabilities"]): item for item in supply.supply(system)}
    assert {key: (item["workers"], item["slots"], item["free"]) for key, item in found.items()} == {
        "gpu": (0, 0, 0),
        "ocr,pdf": (1, 3, 3),
        "ocr": (2, 6, 6),
        "": (2, 6, 6),
    }
    assert all((item["queued"], item["wanted"], item["running"]) == (1, 1, 0) for item in found.values())
    text = browse().get("/capabilities").content.decode()
    assert "1 set of capabilities has no live worker" in text and "one worker only" in text
    assert text.index(">gpu<") < text.index(">ocr + pdf<")


def test_a_worker_of_another_tenant_is_no_supply(task: Callable[..., int], system: Caller) -> None:
    task(tenant="sales", capabilities=["gpu"])
    legal = Tenant.objects.get(slug="legal").pk
    own = Caller(kind="key", id=None, name="k", scopes=access.SCOPES, tenant_id=legal)
    enrol(own, "theirs", "gpu")
    [item] = supply.supply(system)
    assert item["workers"] == 0


def test_members_see_their_demand_and_no_fleet(task: Callable[..., int], system: Caller, browse: Browse) -> None:
    task(tenant="sales", capabilities=["gpu"])
    task(tenant="legal", capabilities=["secret"])
    enrol(system, "w", "gpu")
    text = browse("", tenant="sales").get("/capabilities").content.decode()
    assert ">gpu<" in text and "secret" not in text and "not shown" in text and "no worker" not in text


def test_the_answer_without_demand() -> None:
    assert answer([])["cause"] == "No task waits or runs."
