"""`evenflow mcp`: the server's MCP tools over stdio, for clients that start a program instead of calling an address.

Each message from stdin goes to the server's `/mcp` with the key of `evenflow login`; the answer goes to stdout. The
tools, their texts and their checks are the server's own, so this program needs no MCP package.
What a model cannot do by itself, this process does for it: as long as it lives, the leases of claimed tasks are kept
alive (`--no-heartbeat`: the model calls the tool heartbeat itself), and when its client leaves they are handed back.
A task that must show progress is still taken away when the model shows none.
"""

import argparse
import json
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from dispatch.agent.cli import exits, grammar
from dispatch.agent.cli.output import Output
from dispatch.agent.cli.server import Server, connect
from dispatch.agent.errors import AgentError, ApiError
from dispatch.agent.heartbeats import Heartbeats

VERSION = "io.modelcontextprotocol/protocolVersion"
NAMES = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
ENDS = frozenset({"complete_task", "fail_task", "release_task"})
WAIT_S = 60.0  # the longest that a tool may wait
CALLS = 16  # at once; a heartbeat must not wait behind a claim
RELEASE_S = 5.0  # for handing tasks back at the end
REFUSED, AWAY = -32001, -32002  # JSON-RPC codes of our own


def add(commands: grammar.Grammar) -> None:
    """Declare the command."""
    command = commands.command("mcp", "serve the MCP tools over stdin and stdout, for a language model's client")
    command.add_argument("--no-heartbeat", action="store_true", help="let the model keep its leases alive itself")
    command.set_defaults(run=run)


def run(args: argparse.Namespace, out: Output) -> int:
    """Pass messages on until stdin ends."""
    server = connect(args)
    _check(server)
    bridge = Bridge(server, keeps=not args.no_heartbeat)
    threads = ThreadPoolExecutor(CALLS, thread_name_prefix="mcp")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(exits.OK))
    try:
        for line in sys.stdin:
            if '"initialize"' in line:  # the version that it agrees on goes with every later call
                bridge.pass_on(line)
            elif line.strip():
                threads.submit(bridge.pass_on, line)
    finally:
        server.transport.interrupt()  # nobody waits for a task any more
        threads.shutdown()
        bridge.release()
    return exits.OK


def _check(server: Server) -> None:
    """A wrong address or key is told at once, not with the first tool."""
    server.get("/me")


@dataclass(slots=True)
class Held:
    """A task that the model has claimed, as far as its heartbeats go."""

    session_id: int
    task_id: int
    token: int
    ttl_s: float
    heartbeat_every_s: float
    lost: bool = False

    def take_progress(self) -> dict[str, Any]:
        """The model reports its progress itself."""
        return {}

    def keep_progress(self, report: dict[str, Any]) -> None:
        """There is none to keep."""

    def hear(self, directive: str) -> None:
        """The model is told at its own next call."""

    def hear_lost(self) -> None:
        """Its lease is gone; the model's next call says so."""
        self.lost = True


class Bridge:
    """Between stdin, stdout and the server."""

    def __init__(self, server: Server, *, keeps: bool) -> None:
        self._server = server
        self._beats: Heartbeats[Held] | None = Heartbeats(server.transport) if keeps else None
        self._writing = threading.Lock()
        self._version: str | None = None  # what the handshake has agreed on

    def pass_on(self, line: str) -> None:
        """One message to the server, its answer to stdout."""
        try:
            message = json.loads(line)
        except ValueError:
            self._write({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}})
            return
        found = message if isinstance(message, dict) else {}
        answer = self._ask(found, message)
        if answer is not None:
            self._hear(found, answer)
            self._write(answer)

    def _ask(self, found: dict[str, Any], message: Any) -> dict[str, Any] | None:
        try:
            answer: dict[str, Any] | None = self._server.transport.call(
                "POST",
                "/mcp",
                message,
                headers=self._headers(found),
                wait_s=WAIT_S,
                retry_for_s=0.0,
                parked=_waits(found),
            )
            return answer
        except ApiError as error:
            code, told = REFUSED, f"{error.slug or error.status}: {error.detail}"
        except (AgentError, ValueError) as error:
            code, told = AWAY, str(error)
        if "id" not in found:
            return None
        return {"jsonrpc": "2.0", "id": found["id"], "error": {"code": code, "message": told}}

    def _headers(self, found: dict[str, Any]) -> dict[str, str]:
        """What the HTTP transport of the protocol wants beside the message."""
        method, params = found.get("method"), found.get("params")
        params = params if isinstance(params, dict) else {}
        meta = params.get("_meta")
        version = (meta.get(VERSION) if isinstance(meta, dict) else None) or self._version
        headers = {"Accept": "application/json, text/event-stream"}
        if isinstance(version, str) and method != "initialize":
            headers["MCP-Protocol-Version"] = version
        if isinstance(method, str) and _plain(method):
            headers["Mcp-Method"] = method
            name = params.get(NAMES.get(method, ""))
            if isinstance(name, str) and _plain(name):
                headers["Mcp-Name"] = name
        return headers

    def _hear(self, found: dict[str, Any], answer: dict[str, Any]) -> None:
        """Learn the agreed version, and which tasks are in the model's hands."""
        result = answer.get("result")
        if not isinstance(result, dict):
            return
        if found.get("method") == "initialize":
            self._version = result.get("protocolVersion")
        told = result.get("structuredContent")
        if self._beats is None or found.get("method") != "tools/call" or not isinstance(told, dict):
            return
        params = found["params"]
        if params["name"] == "claim_task":
            for lease in told.get("leases") or ():
                kept = {name: lease[name] for name in ("task_id", "token", "ttl_s", "heartbeat_every_s")}
                self._beats.watch(Held(session_id=told["session_id"], **kept))
        elif params["name"] in ENDS and not result.get("isError"):
            for job in self._beats.jobs():
                if job.task_id == params["arguments"].get("task_id"):
                    self._beats.forget(job)

    def _write(self, answer: dict[str, Any]) -> None:
        with self._writing:
            print(json.dumps(answer), flush=True)

    def release(self) -> None:
        """The model's client has left: hand back what it holds."""
        for job in self._beats.jobs() if self._beats else ():
            self._beats.forget(job)  # type: ignore[union-attr]  # there are jobs, so there are beats
            path, body = f"/api/v1/tasks/{job.task_id}/release", {"token": job.token, "reason": "its client left"}
            try:
                self._server.transport.call("POST", path, body, retry_for_s=RELEASE_S)
            except AgentError as error:
                print(f"evenflow: task {job.task_id} could not be handed back: {error}", file=sys.stderr)


def _waits(found: dict[str, Any]) -> bool:
    params = found.get("params")
    return isinstance(params, dict) and params.get("name") == "claim_task"


def _plain(text: str) -> bool:
    return text.isascii() and text.isprintable()
