"""MCP with the SDK's own client over both transports, against one running product: work, operate, be refused."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from tests.acceptance.harness import ROOT, Product, running
from tests.docs.pages import blocks

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]

AGENT = {"claim_task", "heartbeat", "report_progress", "checkpoint", "complete_task", "fail_task", "release_task"}
READ = {"get_task", "list_tasks", "why_waiting", "my_share", "dead_groups", "stats", "alerts"}
OPERATE = {"requeue_preview", "requeue_status", "requeue_apply"}


@pytest.fixture(scope="module")
def product() -> Iterator[Product]:
    with running() as started:
        started.ok("POST", "/api/v1/classes", {"slug": "batch", "backoff_s": 0})
        started.ok("POST", "/api/v1/tenants", {"slug": "sales"})
        yield started


def key(product: Product, *scopes: str) -> str:
    return str(product.ok("POST", "/api/v1/keys", {"name": "mcp", "scopes": list(scopes)})["key"])


@asynccontextmanager
async def over_http(product: Product, secret: str, mode: str = "auto") -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {secret}"}
    async with create_mcp_http_client(headers=headers) as http:
        transport = streamable_http_client(f"{product.url}/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client


@asynccontextmanager
async def over_stdio(product: Product, secret: str, mode: str = "auto") -> AsyncIterator[Client]:
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "dispatch.agent.cli", "mcp"],
        env={"PYTHONPATH": str(ROOT), "EVENFLOW_URL": product.url, "EVENFLOW_KEY": secret},
    )
    async with Client(command, mode=mode) as client:
        yield client


DOORS = pytest.mark.parametrize(
    ("door", "mode"),
    [(over_http, "auto"), (over_http, "legacy"), (over_stdio, "auto"), (over_stdio, "legacy")],
    ids=["http", "http-handshake", "stdio", "stdio-handshake"],
)


async def call(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    answer = await client.call_tool(name, arguments)
    assert not answer.is_error, answer
    assert answer.structured_content is not None
    return answer.structured_content


async def refused(client: Client, name: str, **arguments: Any) -> str:
    answer = await client.call_tool(name, arguments)
    assert answer.is_error, answer
    return str(answer.content[0].text)  # type: ignore[union-attr]


@DOORS
def test_a_task_from_submit_to_result(product: Product, door: Any, mode: str) -> None:
    async def work() -> None:
        async with door(product, key(product, "submit", "work", "read"), mode) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == AGENT | READ | {"submit_task"}
            worker = f"model-{door.__name__.replace('_', '-')}-{mode}"
            task = {"tenant": "sales", "work_class": "batch", "payload": {"say": "hello"}, "key": worker}
            made = await call(client, "submit_task", **task)
            assert made["created"] and not (await call(client, "submit_task", **task))["created"]
            claimed = await call(client, "claim_task", worker=worker)
            (lease,) = claimed["leases"]
            held = {"task_id": lease["task_id"], "token": lease["token"]}
            assert (lease["task_id"], lease["payload"], lease["class"]) == (made["id"], {"say": "hello"}, "batch")
            again = await call(client, "claim_task", worker=worker, wait_s=0)
            assert (again["session_id"], again["leases"]) == (claimed["session_id"], [])
            assert again["idle_reason"] == "no_free_slot"
            beat = {"session_id": claimed["session_id"], **held}
            assert (await call(client, "heartbeat", **beat))["directive"] == "continue"
            assert (await call(client, "report_progress", **beat, step=1, note="half"))["status"] == "renewed"
            assert (await call(client, "checkpoint", **held, data={"at": 1}))["state"] == "leased"
            assert (await call(client, "release_task", **held, reason="later"))["state"] == "queued"
            (lease,) = (await call(client, "claim_task", worker=worker))["leases"]
            assert lease["checkpoint"] == {"at": 1}
            assert "lease-lost" in await refused(client, "complete_task", **held, result=1)
            assert "lease-lost" in await refused(client, "heartbeat", **beat)
            held["token"] = lease["token"]
            assert (await call(client, "complete_task", **held, result={"ok": True}))["state"] == "succeeded"
            done = await call(client, "get_task", task_id=held["task_id"])
            assert (done["state"], done["result"]) == ("succeeded", {"ok": True})
            listed = await call(client, "list_tasks", filter={"key": worker})
            assert [item["id"] for item in listed["items"]] == [made["id"]]
            assert (await call(client, "my_share"))["classes"][0]["slug"] == "batch"

    asyncio.run(work())


@pytest.mark.parametrize("door", [over_http, over_stdio])
def test_an_operator_previews_and_applies_a_requeue(product: Product, door: Any) -> None:
    async def work() -> None:
        async with door(product, product.admin_key) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert set(tools) == AGENT | READ | OPERATE | {"submit_task"}
            assert tools["requeue_apply"].annotations.destructive_hint is True
            assert all(tools[name].annotations.read_only_hint for name in READ)
            assert all("token" in tools[name].description for name in AGENT - {"claim_task"})
            assert "not take orders" in tools["claim_task"].description
            assert all(tool.output_schema for tool in tools.values())
            made = await call(client, "submit_task", tenant="sales", work_class="batch", payload=None)
            (lease,) = (await call(client, "claim_task", worker="breaker"))["leases"]
            held = {"task_id": lease["task_id"], "token": lease["token"]}
            error = {"message": f"broken by {door.__name__}", "kind": "permanent"}
            assert (await call(client, "fail_task", **held, **error))["state"] == "dead"
            groups = (await call(client, "dead_groups"))["items"]
            group = next(one for one in groups if one["message"] == error["message"])
            assert group["count"] == 1
            where = {"fingerprint": group["fingerprint"]}
            frozen = await call(client, "requeue_preview", filter=where, reason="mended")
            assert (frozen["matched"], frozen["done"]) == (1, 0)
            assert (await call(client, "get_task", task_id=made["id"]))["state"] == "dead"
            assert "validation" in await refused(client, "requeue_preview", filter={}, reason="all of it")
            assert "not-found" in await refused(client, "requeue_apply", job_id=10**9)
            await call(client, "requeue_apply", job_id=frozen["id"])
            (lease,) = (await call(client, "claim_task", worker="breaker"))["leases"]
            assert lease["task_id"] == made["id"]
            await call(client, "complete_task", task_id=lease["task_id"], token=lease["token"])
            assert (await call(client, "requeue_status", job_id=frozen["id"]))["done"] == 1
            why = await call(client, "why_waiting", task_id=made["id"])
            assert (why["state"], why["blockers"]) == ("succeeded", [])
            assert (await call(client, "stats"))["pool"] == "default"
            assert "items" in await call(client, "alerts")

    asyncio.run(work())


def test_what_a_key_lacks_is_not_there_and_no_key_is_no_entry(product: Product) -> None:
    async def work() -> None:
        async with over_http(product, key(product, "read")) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == READ
            assert "Unknown tool: requeue_apply" in await refused(client, "requeue_apply", job_id=1)
            assert "task_id" in await refused(client, "why_waiting", task_id=0)
            assert "not-found" in await refused(client, "why_waiting", task_id=10**12)

    asyncio.run(work())
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    assert product.call("POST", "/mcp", message, key="ef_nobody00_nothing")[0] == 401
    assert product.call("GET", "/mcp")[0] == 405
    status, answer = product.call("POST", "/mcp", {"no": "message"})
    assert status in {400, 406}, answer


def test_over_stdio_leases_live_while_the_client_does_and_go_back_when_it_leaves(product: Product) -> None:
    product.ok("POST", "/api/v1/pools", {"slug": "short", "lease_ttl_s": 1, "heartbeat_every_s": 0.3})
    product.ok("POST", "/api/v1/classes", {"slug": "quick", "pool": "short"})
    task = {"tenant": "sales", "class": "quick", "pool": "short", "payload": 1}
    number = product.ok("POST", "/api/v1/tasks", task)["id"]

    async def work() -> None:
        async with over_stdio(product, key(product, "work", "read")) as client:
            claimed = await call(client, "claim_task", worker="quiet", pool="short")
            assert [lease["task_id"] for lease in claimed["leases"]] == [number]
            await asyncio.sleep(2)
            assert product.ok("GET", f"/api/v1/tasks/{number}")["state"] == "leased", "kept alive for two lifetimes"

    asyncio.run(work())
    product.wait_for(lambda: product.ok("GET", f"/api/v1/tasks/{number}")["state"] == "queued")
    history = product.ok("GET", f"/api/v1/tasks/{number}")["history"]
    assert "released" in str(history) and "lost" not in str(history)


def test_the_guide_as_it_is_typed(product: Product) -> None:
    (program,) = blocks(ROOT / "docs/guides/mcp.md", "python")
    product.ok("POST", "/api/v1/tasks", {"tenant": "sales", "class": "batch", "payload": {"text": "four"}})
    env = os.environ | {"URL": product.url, "KEY": key(product, "work")}
    run = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, "succeeded\n"), run.stderr
