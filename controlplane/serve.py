"""`python -m controlplane.serve --fd N`: one web process under uvicorn (default) or daphne (EVENFLOW_SERVER).

uvicorn waits for open calls before it says goodbye to the application, so parked claims are told first: they answer at
once, and the calls that run get GRACE_S seconds to end. daphne cancels what runs; who waits then hears 503.
"""

import argparse
import os
from typing import Any

os.environ["EVENFLOW_WEB_PROCESS"] = "1"  # before the settings are read: see controlplane/asgi.py

import uvicorn

from controlplane import settings

GRACE_S = 8  # for calls that run when the stop is asked for; the supervisor waits longer
BACKLOG = 2048
APPLICATION = "controlplane.asgi:application"


class Server(uvicorn.Server):
    """uvicorn that lets waiting calls answer before it closes their connections."""

    async def shutdown(self, sockets: Any = None) -> None:
        """Stop taking connections, let everybody answer, end."""
        from controlplane.asgi import application

        closing = getattr(application, "close", None)
        if closing is not None:
            closing()
        await super().shutdown(sockets)


def uvicorn_config(**where: Any) -> uvicorn.Config:
    """How we run uvicorn: no access log, compiled loop and parser, lifespan needed."""
    return uvicorn.Config(
        APPLICATION,
        **where,
        loop="auto",
        http="auto",
        ws="auto",
        lifespan="on",
        backlog=BACKLOG,
        access_log=False,
        log_config=None,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=GRACE_S,
        timeout_keep_alive=75,
        ws_max_size=2**16,
    )


def main() -> None:
    """Serve until SIGTERM or Ctrl-C."""
    parser = argparse.ArgumentParser(prog="controlplane.serve")
    parser.add_argument("--fd", type=int, required=True, help="the listening socket that was lent to us")
    fd = parser.parse_args().fd
    if settings.EVENFLOW_SERVER == "daphne":
        from daphne.cli import CommandLineInterface

        CommandLineInterface().run(["--fd", str(fd), "-v", "0", "--no-server-name", APPLICATION])
        return
    Server(uvicorn_config(fd=fd)).run()


if __name__ == "__main__":
    main()
