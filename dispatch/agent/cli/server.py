"""A command's connection: JSON calls with the place of config.py and short retries."""

import argparse
import uuid
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from dispatch.agent.cli import config, exits
from dispatch.agent.errors import Unreachable
from dispatch.agent.transport import Transport

RETRY_FOR_S = 3.0
PAGE = 100


class Server:
    """The API by methods and paths below /api/v1. Calls raise ApiError, Unreachable."""

    def __init__(self, place: config.Place, retry_for_s: float = RETRY_FOR_S) -> None:
        self.url = place.url
        self.transport = Transport(place.url, place.key, retry_for_s=retry_for_s)

    def get(self, path: str, query: Mapping[str, Any] | None = None, *, wait_s: float = 0.0) -> Any:
        """The answer to a GET; values of None are left out of the query."""
        given = {name: value for name, value in (query or {}).items() if value is not None}
        text = f"?{urlencode(given)}" if given else ""
        return self._call("GET", f"{path}{text}", wait_s=wait_s)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The answer to a POST under an Idempotency-Key of its own."""
        return self._call("POST", path, body, idempotency_key=uuid.uuid4().hex)

    def patch(self, path: str, body: Mapping[str, Any]) -> Any:
        """The answer to a PATCH."""
        return self._call("PATCH", path, body)

    def delete(self, path: str) -> Any:
        """The answer to a DELETE."""
        return self._call("DELETE", path)

    def pages(self, path: str, query: Mapping[str, Any] | None = None) -> Iterator[dict[str, Any]]:
        """All items of a list, page after page."""
        cursor = None
        while True:
            answer = self.get(path, {**(query or {}), "limit": PAGE, "cursor": cursor})
            yield from answer["items"]
            cursor = answer.get("next_cursor")
            if not cursor:
                return

    def _call(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        try:
            return self.transport.call(method, f"/api/v1{path}", body, **more)
        except Unreachable as error:
            raise exits.unreachable(self.url, error) from error
        except ValueError as error:  # 200 and no JSON: a proxy's page, another program's port
            message = f"{self.url} does not answer as an Evenflow server"
            raise exits.Trouble(message, exits.SOFTWARE, hint="Check the address.") from error


def connect(args: argparse.Namespace, place: config.Place | None = None) -> Server:
    """The server that the options, the environment and `evenflow login` name; closed when the command has run."""
    server = Server(place or config.load(args.url), RETRY_FOR_S if args.retry_for is None else args.retry_for)
    args.stack.callback(server.transport.close)
    return server
