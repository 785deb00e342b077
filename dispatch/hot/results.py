"""`GET /tasks/{id}?wait_s=`: the hot plane does the waiting, Django the answering.

A call that waits for a task's end costs an event here instead of a thread there. It is woken when the task is named in
a notification, and by the poll behind them; then the call goes on to Django as one that does not wait. Whatever is
unusual about it (no key, a bad query, a task that is final already or not the caller's) goes there at once.
"""

import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qsl

from dispatch.errors import EvenflowError
from dispatch.hot.engine import Client, Engine
from dispatch.hot.verbs import PREFIX

MOST_S = 60.0

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

_TASK = re.compile(rf"{PREFIX}/tasks/([0-9]{{1,18}})")


def asked(scope: MutableMapping[str, Any]) -> tuple[int, float] | None:
    """The task and the seconds of a call that waits; None for any other."""
    if scope["method"] != "GET" or not scope["query_string"]:
        return None
    found = _TASK.fullmatch(scope["path"])
    query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    if found is None or len(query) != 1 or query[0][0] != "wait_s":
        return None
    try:
        seconds = float(query[0][1])
    except ValueError:
        return None
    return (int(found[1]), seconds) if 0 < seconds <= MOST_S else None


async def wait(engine: Engine, raw_key: str, task_id: int, seconds: float, receive: Receive) -> Receive:
    """Wait for the task's end, or for nothing; what Django then reads the request from. Raises Gone."""
    try:
        caller = await engine.authenticate(raw_key)
        await engine.wait_for_end(caller, task_id, seconds, Client(receive))
    except EvenflowError:
        pass  # Django refuses it in its own words
    return _again(receive)


def _again(receive: Receive) -> Receive:
    """The request once more (it had no body), whether or not it was read before, then the client's end."""
    first: list[MutableMapping[str, Any]] = [{"type": "http.request", "body": b"", "more_body": False}]

    async def read() -> MutableMapping[str, Any]:
        if first:
            return first.pop()
        while (message := await receive())["type"] == "http.request":
            pass
        return message

    return read
