"""What the guides for agents and the command line tell people to type, typed into one running product."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import tomllib
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dispatch.agent import Client
from tests.acceptance.harness import ROOT, Product, running
from tests.docs.pages import blocks

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]

GUIDE = ROOT / "docs/guides/wrap-a-command.md"
PYTHON = ROOT / "docs/guides/agent-python.md"
TWICE = ROOT / "docs/guides/non-idempotent-work.md"
REFERENCE = ROOT / "docs/reference/cli.md"
PROGRAMS = {
    "evenflow": f'exec {sys.executable} -m dispatch.agent.cli "$@"',
    "summarise": 'echo "::progress {\\"step\\": 1}"; echo "::result {\\"from\\": \\"summarise\\"}"',
    "my-llm-agent": 'grep -q "a question" "$2" && echo "the answer"',
}


AGENT = """
import sys
from dispatch.agent import Client
assert not any(name.startswith(("django", "pydantic")) for name in sys.modules)
with Client(sys.argv[1], sys.argv[2], name="bare") as client:
    for job in client.jobs():
        with job:
            job.result = {"from": sys.prefix}
        if job.payload == "ours":
            break
"""


@pytest.fixture(scope="module")
def product() -> Iterator[Product]:
    with running() as started:
        started.ok("POST", "/api/v1/classes", {"slug": "batch"})
        started.ok("POST", "/api/v1/tenants", {"slug": "sales"})
        yield started


@pytest.fixture
def folder(product: Product, tmp_path: Path) -> Path:
    """A folder with the ready-file and the programs that the pages speak of."""
    (tmp_path / ".data").mkdir()
    (tmp_path / ".data/ready.json").write_text(product.ready_file.read_text())
    for name, text in PROGRAMS.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    return tmp_path


def environment(folder: Path) -> dict[str, str]:
    path = f"{folder}:{os.environ['PATH']}"
    return {"PATH": path, "PYTHONPATH": str(ROOT), "HOME": str(folder), "TMPDIR": str(folder)}


@contextmanager
def typed(script: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Run it as typed until the block ends, then press Ctrl-C."""
    process = subprocess.Popen(
        ["sh", "-euc", script],
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=30)


def test_the_guide_to_wrapping_block_by_block(product: Product, folder: Path) -> None:
    results = [{"from": "summarise"}, int, {"stdout": "the answer", "cut": False}]
    for script, result in zip(blocks(GUIDE, "sh"), results, strict=True):
        task = {"tenant": "sales", "class": "batch", "payload": {"text": "a question"}}
        number = product.ok("POST", "/api/v1/tasks", task)["id"]
        with typed(script, folder):
            product.wait_for(lambda: product.ok("GET", f"/api/v1/tasks/{number}")["state"] == "succeeded")  # noqa: B023
        found = product.ok("GET", f"/api/v1/tasks/{number}")["result"]
        assert isinstance(found, int) if result is int else found == result


def test_the_reference_submits_lines(product: Product, folder: Path) -> None:
    rows = [{"payload": number, "key": f"row-{number}"} for number in range(3)]
    (folder / "tasks.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    script = next(block for block in blocks(REFERENCE, "sh") if "--lines" in block)
    login = "evenflow login --ready-file .data/ready.json >&2\n"
    first, again = [
        subprocess.run(
            ["sh", "-euc", login + script],
            cwd=folder,
            env=environment(folder),
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for _ in range(2)
    ]
    assert len(first) == 3
    assert again == first, "the same keys are the same tasks"


def test_the_agents_wheel_works_where_nothing_else_is_installed(product: Product, tmp_path: Path) -> None:
    for part in ("packaging/agent", "dispatch/agent"):  # a build leaves things behind: not in our tree
        shutil.copytree(
            ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
        )
    pip, offline = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"], ["--no-index", "--no-deps"]
    wheel = [*pip, "wheel", *offline, "--no-build-isolation", "-w", "dist", "packaging/agent"]
    subprocess.run(wheel, cwd=tmp_path, check=True)
    (built,) = (tmp_path / "dist").iterdir()
    bare = tmp_path / "bare"
    venv.create(bare)
    subprocess.run([*pip, "--python", str(bare), "install", *offline, str(built)], check=True)
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "EVENFLOW_URL": product.url}

    def run(*words: str, **more: str) -> str:
        done = subprocess.run(words, cwd=tmp_path, env=env | more, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    evenflow, key = str(bare / "bin/evenflow"), product.admin_key
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert run(evenflow, "--version") == f"evenflow {project['version']}\n"
    assert built.name.startswith(f"evenflow_agent-{project['version']}-")
    number = run(evenflow, "submit", '"ours"', "--tenant", "sales", "--class", "batch", EVENFLOW_KEY=key).strip()
    run(str(bare / "bin/python"), "-I", "-c", AGENT, product.url, key)
    told = json.loads(run(evenflow, "--json", "get", number, EVENFLOW_KEY=key))
    assert (told["state"], told["result"]) == ("succeeded", {"from": str(bare)})
    assert str(bare) in run(str(bare / "bin/python"), "-I", "-c", "import dispatch.agent as a; print(a.__file__)")


def put(product: Product, **fields: Any) -> int:
    return int(
        product.ok("POST", "/api/v1/tasks", {"tenant": "sales", "class": "batch", "payload": {}, **fields})["id"]
    )


def ended(product: Product, number: int) -> dict[str, Any]:
    """The task, once it has ended."""
    return dict(product.wait_for(lambda: (t := product.ok("GET", f"/api/v1/tasks/{number}"))["finished_at"] and t))


@contextmanager
def program(text: str, folder: Path) -> Iterator[None]:
    """Run it while the block runs, then SIGTERM."""
    process = subprocess.Popen(
        [sys.executable, "-c", text], cwd=folder, env=environment(folder), stderr=subprocess.PIPE
    )
    try:
        yield
    finally:
        process.terminate()
        told = process.communicate(timeout=30)[1]
        assert process.returncode in {0, 143}, told.decode()


def test_the_python_guide_block_by_block(product: Product, folder: Path) -> None:
    forever, once, page, runner, asynchronous, submitting = blocks(PYTHON, "python")
    where = {"http://127.0.0.1:8000": product.url, "ef_…": product.admin_key}
    for old, new in where.items():
        forever = forever.replace(old, new)
    first = put(product, payload={"text": "one two three"}, capabilities=["code"])
    with program(forever, folder):
        assert ended(product, first)["result"] == 3

    names: dict[str, Any] = {}
    with Client(product.url, product.admin_key, name="guide", sigterm=False) as client:
        names["client"] = client
        second = put(product)
        exec(once, names)
        assert ended(product, second)["result"] == "done"
        third = put(product)
        with client.claim() as names["job"]:
            names["pages"] = [SimpleNamespace(number=n, title=f"page {n}") for n in (1, 2)]
            exec(page, names)
        assert ended(product, third)["state"] == "succeeded"
        fourth = put(product, payload="how many?")
        exec(asynchronous, names)

        async def ask_the_model(payload: Any) -> str:
            return f"{payload} 42"

        names["ask_the_model"] = ask_the_model
        asyncio.run(names["agent"](client))
        assert ended(product, fourth)["result"] == "how many? 42"
        number = shortened(submitting)
        product.call("POST", "/api/v1/classes", {"slug": "interactive"})
        product.call("POST", "/api/v1/classes", {"slug": "background"})
        exec(number, names)
        assert product.ok("GET", f"/api/v1/tasks/{names['task'].id}")["key"] == "report-2030-01"

    head = f"url, key = {product.url!r}, {product.admin_key!r}\n"
    with program(head + runner, folder):
        assert ended(product, names["task"].id)["result"] == {"words": 1}
        bad = put(product, type="index_text")
        assert ended(product, bad)["error"]["message"] == "payload.text is missing"


def shortened(text: str) -> str:
    """The same with fewer tasks and less patience."""
    return text.replace("range(5000)", "range(5)").replace("wait_s=30", "wait_s=0")


def test_a_journal_keeps_a_second_attempt_from_booking_twice(product: Product) -> None:
    """The guide's loop: the first attempt dies after the second booking and before it could say so."""
    booked: dict[str, str] = {}

    def book(leg: str, reference: str) -> str:
        assert reference not in booked
        booked[reference] = leg
        if len(booked) == 2 and not names["died"]:
            names["died"] = True
            raise KeyboardInterrupt
        return reference

    def find_booking(leg: str) -> str | None:
        return next((reference for reference, known in booked.items() if known == leg), None)

    (loop,) = blocks(TWICE, "python")
    names: dict[str, Any] = {"book": book, "find_booking": find_booking, "died": False}
    product.ok("POST", "/api/v1/pools", {"slug": "travel"})
    product.ok("POST", "/api/v1/classes", {"slug": "booking", "pool": "travel"})
    number = put(product, **{"class": "booking", "pool": "travel"}, payload={"legs": ["out", "there", "back"]})
    with Client(product.url, product.admin_key, name="booker", pool="travel", sigterm=False) as client:
        names["client"] = client
        with pytest.raises(KeyboardInterrupt):
            exec(loop, names)
        stop = threading.Event()
        names["client"] = SimpleNamespace(jobs=lambda: client.jobs(stop, wait_s=5))
        loop = loop.replace("        job.result =", "        stop.set()\n        job.result =")
        names["stop"] = stop
        exec(loop, names)
    assert ended(product, number)["result"] == {"booked": 3}
    assert sorted(booked.values()) == ["back", "out", "there"], "nothing is booked twice"
