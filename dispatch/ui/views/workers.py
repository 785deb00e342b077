"""`/workers`: the fleet, those that need a hand first; `/workers/<id>`: one worker, and what can be done about it."""

from collections.abc import Mapping
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse

from dispatch import errors
from dispatch.live import topics, words
from dispatch.live.cells.workers import ONLY
from dispatch.services import worker_control
from dispatch.ui import pages

#: verb → changed field, its new value, word of the button, what was done
VERBS = {
    "drain": ("draining", True, "Drain", "drains"),
    "undrain": ("draining", False, "Stop draining", "gets work again"),
    "pause": ("paused", True, "Pause", "is paused"),
    "resume": ("paused", False, "Resume", "is resumed"),
    "quarantine": ("quarantined", True, "Quarantine", "is quarantined"),
    "release": ("quarantined", False, "End quarantine", "is out of quarantine"),
}


WORDS = {"trouble": "Need a hand", "steered": "Steered", "live": "Live"}


@pages.page
def workers(request: HttpRequest) -> HttpResponse:
    """Slots by class in one strip, then one row per worker; `?only=` narrows them."""
    only = request.GET.get("only", "")
    name = f"workers:{only}" if only in ONLY else "workers"
    seen = pages.numbers(request)["workers"]
    filters = [(word, states, sum(row["state"] in states for row in seen)) for word, states in ONLY.items()]
    segments = [("All", "", len(seen), name == "workers")] + [
        (WORDS[word], word, count, name == f"workers:{word}") for word, _, count in filters
    ]
    return pages.show(request, "ui/workers.html", name, segments=segments)


@pages.page
def worker(request: HttpRequest, worker_id: int) -> HttpResponse:
    """One worker: state, sessions, leases, and the commands with what each one would hit."""
    found = topics.own(pages.person(request), pages.topic(request, f"worker:{worker_id}"))
    context: dict[str, Any] = {"worker": found, "commands": commands(found)}
    return pages.show(request, "ui/worker.html", f"worker:{worker_id}", **context)


@pages.command
def steer(request: HttpRequest, worker_id: int, verb: str) -> pages.Told:
    """Drain, pause or quarantine one worker, or take that back; always with a reason."""
    if verb not in VERBS:
        raise Http404
    reason = request.POST.get("reason", "").strip()
    if not reason:
        raise errors.Invalid(("reason", "Say why; it is kept in the audit."))
    field, value, _, done = VERBS[verb]
    found = worker_control.patch_worker(pages.person(request), worker_id, {field: value}, reason)
    return f"Worker {found['name']} {done}", {}


def commands(worker: Mapping[str, Any]) -> list[dict[str, str]]:
    """The verbs that would change something, each with its consequence for this worker as it is now."""
    return [
        {"verb": verb, "word": f"{word} {worker['name']}", "text": consequence(verb, worker)}
        for verb, (field, value, word, _) in VERBS.items()
        if worker[field] is not value
    ]


def consequence(verb: str, worker: Mapping[str, Any]) -> str:
    """What a verb hits: the leases that the worker holds and the slots that it offers."""
    held = worker["running"]
    goes_on = "It holds no lease."
    if held:
        goes_on = f"The {words.plural(held, 'lease')} it holds {'runs' if held == 1 else 'run'} to the end."
    slots = words.plural(worker["slots"], "slot")
    match verb:
        case "drain":
            return f"Its {slots} get no new work and its agent is told to drain. {goes_on}"
        case "pause":
            return f"Its {slots} get no new work until it is resumed. {goes_on}"
        case "quarantine":
            return f"Its {slots} get no new work, in later sessions too. {goes_on}"
    others = [name for name in ("draining", "paused", "quarantined") if worker[name] and VERBS[verb][0] != name]
    if others:
        return f"It stays {' and '.join(others)}, so it gets no work yet."
    return f"Its {slots} get work again from the next cycle."
