"""`python -m controlplane.serve`: one web process, under uvicorn or daphne (EVENFLOW_SERVER), see ADR 0006.

    python -m controlplane.serve --host 0.0.0.0 --port 8000     any number of machines and ports
    python -m controlplane.serve --fd 3                         on a listening socket that the parent lends

On SIGTERM uvicorn waits for open calls before it says goodbye to the application, so ours tells the parked claims
first: they answer at once, and calls that run get GRACE_S seconds. daphne cancels what runs; whoever waits hears 503.
"""

import argparse
import os
from typing import Any

os.environ["EVENFLOW_WEB_PROCESS"] = "1"  # before the settings are read: see controlplane/asgi.py

import uvicorn

from controlplane import settings

GRACE_S = 8  # for calls that run when the stop is asked for; the supervisor waits longer
BACKLOG = 2048  # connections that wait to be taken
KEEP_ALIVE_S = 75  # an idle connection of an agent is kept this long
SOCKET_BYTES = 2**16  # of one message from a browser
APPLICATION = "controlplane.asgi:application"


class Server(uvicorn.Server):
    """uvicorn that lets waiting calls answer before it closes their connections."""

    async def shutdown(self, sockets: Any = None) -> None:
        """Stop taking connections, let everybody answer, end."""
        from controlplane.asgi import agents

        close = getattr(agents, "close", None)  # without the hot plane (EVENFLOW_HOT=0) there is none
        if close is not None:
            close()
        await super().shutdown(sockets)


def main() -> None:
    """Serve until SIGTERM or Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m controlplane.serve", description="One web process of Evenflow.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=8000, help="TCP port")
    parser.add_argument("--fd", type=int, help="a listening socket that was lent to us, instead of host and port")
    where = parser.parse_args()
    (_daphne if settings.EVENFLOW_SERVER == "daphne" else _uvicorn)(where)


def _uvicorn(where: argparse.Namespace) -> None:
    config = uvicorn.Config(
        APPLICATION,
        host=where.host,
        port=where.port,
        fd=where.fd,
        lifespan="auto",  # EVENFLOW_HOT=0 has none
        backlog=BACKLOG,
        access_log=False,
        log_config=None,  # ours is Django's
        server_header=False,
        date_header=False,
        proxy_headers=False,  # Django decides about X-Forwarded-Proto (EVENFLOW_BEHIND_PROXY)
        timeout_graceful_shutdown=GRACE_S,
        timeout_keep_alive=KEEP_ALIVE_S,
        ws_max_size=SOCKET_BYTES,
    )
    Server(config).run()


def _daphne(where: argparse.Namespace) -> None:
    from daphne.cli import CommandLineInterface

    at = ["-b", where.host, "-p", str(where.port)] if where.fd is None else ["--fd", str(where.fd)]
    CommandLineInterface().run([*at, "-v", "0", "--no-server-name", APPLICATION])


if __name__ == "__main__":
    main()
