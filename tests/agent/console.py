"""The test control plane with the console's part of the contract: scripted answers by method and path."""

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.agent.server import Answer, ControlPlane, problem

Script = Any | Callable[[dict[str, str], Any], Any]


class Console(ControlPlane):
    """`says[("GET", "/stats")]` is an answer's body, an Answer, or a function of (query, body)."""

    def __init__(self) -> None:
        super().__init__()
        self.says: dict[tuple[str, str], Script] = {}

    def answer(self, method: str, path: str, key: str | None, body: Any) -> Answer:
        url = urlsplit(path)
        script = self.says.get((method, url.path.removeprefix("/api/v1")))
        if script is None:
            known = {"claims", "heartbeats", "workers", "sessions", "tasks"}
            if method == "GET" or url.path.split("/")[3] not in known:
                raise Answer(404, None)  # as a server answers that does not know the address
            return super().answer(method, path, key, body)
        said = script(dict(parse_qsl(url.query)), body) if callable(script) else script
        return said if isinstance(said, Answer) else Answer(200, said)

    def bodies(self, path: str) -> list[Any]:
        return [call.body for call in self.made(path)]


def pages(items: list[dict[str, Any]]) -> Script:
    """A list's route with pages of at most `limit` items."""

    def answer(query: dict[str, str], body: Any) -> dict[str, Any]:
        start, limit = int(query.get("cursor", 0)), int(query["limit"])
        more = str(start + limit) if start + limit < len(items) else None
        return {"items": items[start : start + limit], "next_cursor": more}

    return answer


__all__ = ["Answer", "Console", "pages", "problem"]
