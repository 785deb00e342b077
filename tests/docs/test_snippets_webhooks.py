"""The guide to webhooks, typed into the running product: its receiver gets a signed message from the messenger."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.harness import ROOT, running
from tests.docs.pages import blocks
from tests.docs.test_snippets import shell

GUIDE = ROOT / "docs/guides/webhooks.md"


@pytest.mark.processes
@pytest.mark.timeout(180)
def test_the_webhook_guide_from_the_secret_to_the_message(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with running(env={"EVENFLOW_WEBHOOK_PRIVATE": "1"}) as product:
        (script,), (program,) = blocks(GUIDE, "sh"), blocks(GUIDE, "python")
        (made,) = shell(script.replace(":9000", f":{port}"), tmp_path, product)
        secret = str(made["secret"])
        receiver = subprocess.Popen(
            [sys.executable, "-c", program.replace("9000", str(port))],
            env=os.environ | {"WEBHOOK_SECRET": secret},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            product.ok("POST", "/api/v1/classes", {"slug": "batch"})
            product.ok("POST", "/api/v1/tenants", {"slug": "sales"})
            task = {"tenant": "sales", "class": "batch", "payload": 1}
            cancelled = product.ok("POST", "/api/v1/tasks", task)["id"]
            product.ok("POST", f"/api/v1/tasks/{cancelled}/cancel", {})
            first = product.ok("POST", "/api/v1/webhooks/1/test")
            assert receiver.stdout is not None
            assert receiver.stdout.readline().startswith("webhook.test"), "a cancelled task was not asked for"
            log = "/api/v1/webhooks/1/deliveries"
            product.wait_for(lambda: product.ok("GET", log)["items"][0]["state"] == "delivered")
            product.kill("messenger")
            product.ok("POST", f"{log}/{first['id']}/redeliver")
            product.wait_for(lambda: product.ok("GET", log)["items"][0]["state"] == "delivered")
        finally:
            receiver.kill()
            receiver.communicate()
