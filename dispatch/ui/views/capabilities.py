"""`/capabilities`: which sets of capabilities tasks need, and which workers could run them; the scarce ones first."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse

from dispatch.live import words
from dispatch.services import supply
from dispatch.ui import pages


@pages.page
def capabilities(request: HttpRequest) -> HttpResponse:
    """The answer in a sentence, then one row per set."""
    items = supply.supply(pages.person(request))
    context: dict[str, Any] = {"rows": [item | {"state": state(item)} for item in items], "answer": answer(items)}
    return pages.show(request, "ui/capabilities.html", **context)


def state(item: Mapping[str, Any]) -> dict[str, str]:
    """Icon, tone and word of one set: nobody, one worker only, no free slot for what waits, covered."""
    if item["workers"] is None:
        return {"icon": "none", "tone": "idle", "word": "not shown"}
    if item["workers"] == 0:
        return {"icon": "breach", "tone": "breach", "word": "no worker"}
    if item["workers"] == 1:
        return {"icon": "watch", "tone": "watch", "word": "one worker only"}
    if not item["free"] and item["queued"] > item["limited"]:
        return {"icon": "queued", "tone": "", "word": "all busy"}
    return {"icon": "ok", "tone": "ok", "word": "covered"}


def answer(items: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The first line of the page and its cause."""
    missing = [item for item in items if item["workers"] == 0]
    single = [item for item in items if item["workers"] == 1]
    if missing:
        waiting = sum(item["queued"] for item in missing)
        title = f"{words.plural(len(missing), 'set')} of capabilities {_have(missing)} no live worker"
        cause = f"{words.plural(waiting, 'task')} cannot start before a worker offers all that the set names."
        return {"tone": "breach", "icon": "breach", "title": title, "cause": cause}
    if single:
        title = f"{words.plural(len(single), 'set')} of capabilities {_have(single)} one worker only"
        return {"tone": "watch", "icon": "watch", "title": title, "cause": "When it goes, their tasks wait."}
    if any(item["workers"] is None for item in items):
        return {"tone": "", "icon": "none", "title": "What your tasks need", "cause": "The fleet is not shown to you."}
    cause = "Every set that tasks need is offered by two workers or more." if items else "No task waits or runs."
    return {"tone": "", "icon": "ok", "title": "No set of capabilities is scarce", "cause": cause}


def _have(items: Sequence[Any]) -> str:
    return "has" if len(items) == 1 else "have"
