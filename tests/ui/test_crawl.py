"""Every link of every page, as every role: nothing breaks or leads abroad, nothing of another tenant is told."""

import re
from collections.abc import Callable
from html import unescape
from urllib.parse import parse_qs, urldefrag, urljoin, urlsplit

import pytest
from django.db.models.functions import Now
from django.test import Client

from dispatch.core.states import State
from dispatch.models import Task, Worker
from dispatch.services import policy, workers
from dispatch.services.messages import Caller, WorkerSpec

Browse = Callable[..., Client]
EVIL = "<img src=x onerror=alert(1)>"
LINK = re.compile(r'(?:href|action|hx-post|hx-get)="([^"]*)"')
ROLES = ["operator", "auditor", "admin", "member", "viewer"]
LEFT_OUT = ("/logout", "/static/", "/docs", "/live/")
MOST = 120


@pytest.fixture
def house(task: Callable[..., int], system: Caller) -> dict[str, int]:
    """Work of two tenants with texts that want to be markup, a worker, a dead letter, commands with reasons."""
    policy.patch(system, "class", "interactive", 1, {"weight": 4, "max_wait_s": 60}, EVIL)
    workers.register(system, WorkerSpec(name=EVIL, pool=None, slots=2, capabilities=("ocr",)))
    own = task(tenant="legal", type="bill", user="ann", payload={"note": EVIL})
    strange = task(tenant="sales", type="secretplan", user="zoe", payload={"note": EVIL})
    dead = task(tenant="legal", type="parse")
    error = {"message": EVIL, "kind": "permanent"}
    Task.objects.filter(pk=dead).update(
        state=State.DEAD, error=error, reason="permanent", fingerprint="f00d", finished_at=Now()
    )
    return {"own": own, "strange": strange, "worker": Worker.objects.get().pk}


def crawl(client: Client, start: str) -> dict[str, tuple[int, str]]:
    """Address → status and text of all that can be reached by links and empty forms' addresses."""
    found: dict[str, tuple[int, str]] = {}
    todo, seen = [start], set()
    while todo and len(found) < MOST:
        address = todo.pop(0)
        parts = urlsplit(address)
        like = (parts.path, tuple(sorted(parse_qs(parts.query))))  # one of those that differ in values only
        if like in seen or address.startswith(LEFT_OUT):
            continue
        seen.add(like)
        answer = client.get(address)
        kind = answer.headers.get("Content-Type", "")
        text = answer.content.decode() if "html" in kind and not answer.streaming else ""
        found[address] = (answer.status_code, text)
        if answer.status_code in (301, 302):
            todo.append(answer["Location"])
        for link in LINK.findall(text):
            target = urldefrag(urljoin(address, unescape(link)))[0]
            parts = urlsplit(target)
            assert parts.scheme in ("", "http", "https") or not link, f"{address} links to {link}"
            assert not parts.netloc, f"{address} leads abroad: {link}"
            if parts.path.startswith("/") and "{id}" not in unescape(target) and "%7Bid" not in target:
                todo.append(target)
    return found


def visitor(role: str, browse: Browse) -> Client:
    return browse(role) if role in ("operator", "auditor") else browse("", tenant="legal", inside=role)


@pytest.mark.parametrize("role", ROLES)
def test_no_link_breaks_for_anybody(role: str, house: dict[str, int], browse: Browse) -> None:
    found = crawl(visitor(role, browse), "/")
    assert len(found) > 8
    broken = {address: status for address, (status, _) in found.items() if status not in (200, 302, 403, 404, 405)}
    assert broken == {}
    raw = [address for address, (_, text) in found.items() if EVIL in text or "<img src=x" in text]
    assert raw == [], "a text became markup"
    if role not in ("operator", "auditor"):
        told = [a for a, (status, text) in found.items() if status == 200 and ("secretplan" in text or "zoe" in text)]
        assert told == [], "it tells of another tenant"
    if role != "operator":
        acts = [a for a, (_, text) in found.items() if re.search(r'action="/(pause|resume)/all|/weight"', text)]
        assert acts == [], "commands of operators are offered"


@pytest.mark.parametrize("role", ROLES)
def test_missing_is_not_told_from_hidden(role: str, house: dict[str, int], browse: Browse) -> None:
    client = visitor(role, browse)
    whole = role in ("operator", "auditor")
    assert client.get(f"/tasks/{house['own']}").status_code == 200
    assert client.get(f"/tasks/{house['strange']}").status_code == (200 if whole else 404)
    assert client.get(f"/workers/{house['worker']}").status_code == (200 if whole else 404)
    assert client.get("/queues/interactive/sales").status_code == (200 if whole else 404)
    assert client.get("/live/queue:interactive/sales.json").status_code == (200 if whole else 404)
    assert client.get("/live/system.json").status_code == (200 if whole else 403)
