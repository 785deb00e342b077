"""`/queues/<class>` and `/queues/<class>/<tenant>`: one queue, its past, its users, what starts next; pause, resume."""

from datetime import timedelta
from typing import Any
from urllib.parse import quote, urlencode

from django.http import Http404, HttpRequest, HttpResponse

from dispatch import errors
from dispatch.live import topics, words
from dispatch.live.cells import queue as cells
from dispatch.services import access, clock, history
from dispatch.services import pause as pausing
from dispatch.services.messages import Caller
from dispatch.ui import pages

#: minutes → word of the select "resume by itself"
ENDS = {"": "until it is resumed", "15": "in 15 minutes", "60": "in 1 hour", "240": "in 4 hours", "1440": "in 24 hours"}


@pages.page
def queue(request: HttpRequest, work_class: str, tenant: str = "") -> HttpResponse:
    """Numbers, charts, next in line, and the form that pauses the class (or the tenant)."""
    key = f"{work_class}/{tenant}" if tenant else work_class
    about = pages.topic(request, f"queue:{key}")
    found = topics.own(pages.person(request), about)
    shown = found["tenant"] or found["class"]
    context: dict[str, Any] = {
        "class": found["class"],
        "tenant": found["tenant"],
        "name": f"{work_class} · {tenant}" if tenant else work_class,
        "c": cells.colour(pages.numbers(request), work_class),
        "series": series(request, {"class": work_class} | ({"tenant": tenant} if tenant else {})),
        "spans": spans(request),
        "facts": facts(found["class"], found["tenant"]),
        "stop": stop(pages.person(request), "tenant" if tenant else "class", shown),
    }
    return pages.show(request, "ui/queue.html", f"queue:{key}", **context)


def stop(who: Caller, scope: str, shown: dict[str, Any]) -> dict[str, Any]:
    """What the form that pauses or resumes needs to know; `shown` is the object as services/policy.py shows it."""
    operates = access.operates(who)
    own = scope == "tenant" and access.may(who, "operate", access.tenant_id(who, shown["slug"], "read"))
    locked = shown["paused"] and scope == "tenant" and not shown["paused_within"]
    return {
        "scope": scope,
        "slug": shown["slug"],
        "paused": shown["paused"],
        "by": shown["paused_by"],
        "reason": shown["pause_reason"],
        "since": shown["paused_at"],
        "until": shown["paused_until"],
        "may": operates or (own and not locked),
        "locked": own and locked,
        "ends": ENDS.items(),
    }


def series(request: HttpRequest, more: dict[str, str]) -> str:
    """The address of the charts' data: the page's pool, tenant and span."""
    kept = {name: value for name in ("pool", "tenant") if (value := request.GET.get(name))}
    return f"/series.json?{urlencode({'span': span(request)} | kept | more)}"


def span(request: HttpRequest) -> str:
    """The chosen length of the charts."""
    chosen = request.GET.get("span", "")
    return chosen if chosen in history.SPANS else next(iter(history.SPANS))


def spans(request: HttpRequest) -> list[tuple[str, str, bool]]:
    """Name, address and whether it is the chosen one."""
    found = []
    for name in history.SPANS:
        query = request.GET.copy()
        query["span"] = name
        found.append((name.replace("m", " m").replace("h", " h"), f"?{query.urlencode()}", name == span(request)))
    return found


def facts(policy: dict[str, Any], tenant: dict[str, Any] | None) -> list[tuple[str, str]]:
    """What the policy says."""
    pairs = [
        ("Weight", words.weight(policy["weight"])),
        ("Guaranteed slots", words.count(policy["min"])),
        ("Maximum", "none" if policy["max"] is None else words.count(policy["max"])),
        ("SLO of the wait", words.limit(policy["slo_queue_s"])),
        ("Promoted after", words.limit(policy["max_wait_s"])),
        ("Level", str(policy["level"])),
    ]
    if tenant:
        pairs += [
            ("Tenant's weight", words.weight(tenant["weight"])),
            ("Tenant's quota", words.count(tenant["nominal"])),
            ("Tenant's maximum", "none" if tenant["max"] is None else words.count(tenant["max"])),
        ]
    return pairs


@pages.command
def pause(request: HttpRequest, scope: str, slug: str) -> pages.Told:
    """Stop new starts of a class, tenant or tool, with a reason and perhaps an end."""
    minutes = request.POST.get("minutes", "")
    if minutes not in ENDS:
        raise errors.Invalid(("minutes", "Choose one of the ends offered."))
    until = clock.now() + timedelta(minutes=int(minutes)) if minutes else None
    pausing.pause(pages.person(request), _scope(scope), slug, _reason(request), until)
    return f"{scope.capitalize()} {slug} paused, {ENDS[minutes].replace('in ', 'resumes in ')}", {}


@pages.command
def resume(request: HttpRequest, scope: str, slug: str) -> pages.Told:
    """Let it start again."""
    pausing.resume(pages.person(request), _scope(scope), slug, _reason(request))
    return f"{scope.capitalize()} {slug} resumed", {}


@pages.command
def pause_all(request: HttpRequest) -> pages.Told:
    """Stop every pool; the word has to be typed."""
    minutes = request.POST.get("minutes", "")
    if minutes not in ENDS:
        raise errors.Invalid(("minutes", "Choose one of the ends offered."))
    if request.POST.get("confirm", "").strip() != "pause all":
        raise errors.Invalid(("confirm", "Type the words pause all to confirm."))
    until = clock.now() + timedelta(minutes=int(minutes)) if minutes else None
    pausing.pause(pages.person(request), "all", None, _reason(request), until)
    return "All dispatch is paused", {}


@pages.command
def resume_all(request: HttpRequest) -> pages.Told:
    """Every pool dispatches again."""
    pausing.resume(pages.person(request), "all", None, _reason(request))
    return "All pools dispatch again", {}


def _scope(scope: str) -> str:
    if scope not in ("class", "tenant", "tool"):
        raise Http404
    return scope


def _reason(request: HttpRequest) -> str:
    reason = request.POST.get("reason", "").strip()
    if not reason:
        raise errors.Invalid(("reason", "Say why; it is kept in the audit."))
    return reason


def address(work_class: str, tenant: str = "") -> str:
    """Where a queue's page is."""
    return f"/queues/{quote(work_class)}" + (f"/{quote(tenant)}" if tenant else "")
