"""What the README and the guides tell people to type, typed into the running product."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.harness import ROOT, Product, running
from tests.docs.pages import blocks

pytestmark = [pytest.mark.processes, pytest.mark.timeout(120)]

README = ROOT / "README.md"
GUIDE = ROOT / "docs/guides/agent-http.md"


@pytest.fixture
def product() -> Iterator[Product]:
    with running() as started:
        yield started


@pytest.fixture
def folder(product: Product, tmp_path: Path) -> Path:
    """A checkout as far as the snippets look at it: .data/ready.json, and our Python."""
    (tmp_path / ".data").mkdir()
    (tmp_path / ".data/ready.json").write_text(product.ready_file.read_text())
    return tmp_path


def shell(script: str, folder: Path, product: Product) -> list[dict[str, object]]:
    """Run it as typed, but on this product's port; the JSON answers in order."""
    script = script.replace("http://127.0.0.1:8000", product.url)
    env = {"PATH": os.environ["PATH"], "URL": product.url, "KEY": product.admin_key}
    run = subprocess.run(["sh", "-euc", script], cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    decoder, answers, rest = json.JSONDecoder(), [], run.stdout.strip()
    while rest:
        answer, end = decoder.raw_decode(rest)
        answers.append(answer)
        rest = rest[end:].lstrip()
    return answers


def test_the_readme_from_the_key_to_the_result(product: Product, folder: Path) -> None:
    head, making, asking = blocks(README, "sh")
    made_class, tenant, task = shell(head + making, folder, product)
    assert (made_class["slug"], tenant["slug"], task["state"], task["id"]) == ("interactive", "sales", "queued", 1)

    (program,) = blocks(README, "python")
    (folder / "hello_agent.py").write_text(program)
    agent = subprocess.Popen([sys.executable, "hello_agent.py"], cwd=folder, env={"PYTHONPATH": str(ROOT)})
    try:
        product.wait_for(lambda: shell(head + asking, folder, product)[0]["state"] == "succeeded")
    finally:
        agent.terminate()
        assert agent.wait(10) == 143
    assert shell(head + asking, folder, product)[0]["result"] == "Hello, Ada!"


def test_the_http_guide_call_by_call(product: Product, folder: Path) -> None:
    head, register, claim, beat, end, goodbye = blocks(GUIDE, "sh")
    product.ok("POST", "/api/v1/classes", {"slug": "interactive"})
    product.ok("POST", "/api/v1/tenants", {"slug": "sales"})
    product.ok("POST", "/api/v1/tasks", {"tenant": "sales", "class": "interactive", "payload": 1})
    (told,) = blocks(GUIDE, "json")

    assert shell(head + register, folder, product) == [json.loads(told)]
    (claimed,) = shell(head + claim, folder, product)
    assert [(lease["task_id"], lease["token"]) for lease in claimed["leases"]] == [(1, 1)]  # type: ignore[attr-defined]
    (beaten,) = shell(head + beat, folder, product)
    assert beaten["leases"][0]["status"] == "renewed"  # type: ignore[index]
    completed, failed, released = shell(head + end, folder, product)
    assert completed == {"state": "succeeded"}
    assert [answer["status"] for answer in (failed, released)] == [409, 409], "one of the three"
    assert shell(head + goodbye, folder, product) == []
