"""`/alerts`: what fires, is acknowledged or resolved, and why; acknowledge, silence. `/alerts/rules`: thresholds."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_POST

from dispatch import errors
from dispatch.live import words
from dispatch.live.cells import alerts as cells
from dispatch.services import alerts, backtest, clock, rules, silences
from dispatch.ui import once, pages

PAGE = 100
TABS = (("firing", "Firing"), ("acknowledged", "Acknowledged"), ("resolved", "Resolved"))
#: how long an acknowledgement or a silence holds → words, seconds
HOLDS = (("3600", "1 hour"), ("14400", "4 hours"), ("86400", "24 hours"), ("604800", "7 days"))
#: what a rule is tried on → seconds, words
SPANS = (("3600", "hour"), ("10800", "3 hours"), ("86400", "24 hours"), ("172800", "2 days"))
NONE_YET = {
    "firing": ("Nothing fires", "Detectors look at queues, workers and the dispatcher every second."),
    "acknowledged": (
        "None is acknowledged",
        "An acknowledged alert keeps quiet until its time, or until it gets worse.",
    ),
    "resolved": ("None is resolved yet", "Alerts resolve by themselves when what they found holds no more."),
}


@pages.page
def page(request: HttpRequest) -> HttpResponse:
    """Alerts of one state, and the silences."""
    state = request.GET.get("state", "firing")
    state = state if state in dict(TABS) else "firing"
    caller = pages.caller(request)
    found = alerts.list_alerts(caller, state=state, limit=PAGE, cursor=request.GET.get("after") or None)
    counts = pages.numbers(request)["alerts"]
    query = urlencode({"state": state, "after": found.next_cursor or ""})
    context: dict[str, Any] = {
        "state": state,
        "segments": [(word, f"/alerts?state={name}", name == state, counts.get(name)) for name, word in TABS],
        "rows": [cells.row(one) for one in found.items],
        "none": NONE_YET[state],
        "older": f"/alerts?{query}" if found.next_cursor else "",
        "silences": [one for one in silences.list_silences(caller, PAGE).items if one["state"] != "over"],
        "holds": HOLDS,
        "may_ack": pages.may(request, "operate"),
        "version": cells.frame(pages.numbers(request))["alerts.version"],
        "once": once.token(),
    }
    return pages.show(request, "ui/alerts.html", **context)


@require_POST
@login_required
def ack(request: HttpRequest, alert_id: int) -> HttpResponse:
    """Say that it has been seen, why that is enough, and until when it keeps quiet."""
    back = "/alerts"

    def act() -> tuple[str, str]:
        note, until = request.POST.get("note", "").strip(), _until(request.POST.get("hold", ""))
        found = alerts.ack(pages.caller(request), alert_id, note, until)
        return back, f"Acknowledged: {words.title(found['rule'])}" + (
            f" until {words.clock(until)} UTC" if until else ""
        )

    return once.run(request, act, back)


@require_POST
@login_required
def silence(request: HttpRequest) -> HttpResponse:
    """Keep everything that matches quiet for a while."""
    back = "/alerts"

    def act() -> tuple[str, str]:
        until = _until(request.POST.get("hold", ""))
        if until is None:
            raise errors.Invalid(("until", "choose how long it lasts"))
        matcher = _matcher(request.POST.get("matcher", ""))
        made = silences.create_silence(pages.caller(request), matcher, request.POST.get("note", "").strip(), until)
        return back, f"Silence {made['id']} holds until {words.clock(until)} UTC"

    return once.run(request, act, back)


@require_POST
@login_required
def end_silence(request: HttpRequest, silence_id: int) -> HttpResponse:
    """A silence ends now."""

    def act() -> tuple[str, str]:
        silences.end_silence(pages.caller(request), silence_id)
        return "/alerts", f"Silence {silence_id} ended"

    return once.run(request, act, "/alerts")


@pages.page
def rule_list(request: HttpRequest) -> HttpResponse:
    """The rules with their thresholds."""
    return _rules(request, request.GET.get("rule", ""))


def _rules(request: HttpRequest, chosen: str, **more: Any) -> HttpResponse:
    """The page of the rules with one of them in the editor; `typed`: thresholds that were not saved."""
    found = [rule | {"title": words.title(rule["rule"])} for rule in rules.list_rules(pages.caller(request))]
    typed: dict[str, Any] = more.pop("typed", {})
    edited = next((rule for rule in found if rule["rule"] == chosen), None)
    if edited and typed:
        fields = [
            one | {"value": one["default"] if (new := typed[one["name"]]) is None else new}
            for one in edited["thresholds"]
        ]
        form = {"enabled": bool(request.POST.get("enabled")), "version": request.POST.get("version", "")}
        edited = edited | form | {"thresholds": fields}
    for rule in found:
        rule["told"] = [
            (one["text"], *words.measured(one["name"], one["value"]), _usual(one)) for one in rule["thresholds"]
        ]
    context: dict[str, Any] = {"rules": found, "chosen": edited, "once": once.token(), "spans": SPANS, **more}
    return pages.show(request, "ui/alertrules.html", **context)


def _usual(one: Mapping[str, Any]) -> str:
    """The default of a threshold, where it was changed."""
    return "" if one["value"] == one["default"] else words.measured(one["name"], one["default"])[1]


@require_POST
@login_required
def try_rule(request: HttpRequest, name: str) -> HttpResponse:
    """When the rule would have fired with what is typed; nothing is saved."""
    caller, form = pages.caller(request), request.POST
    span = form.get("span", "") if form.get("span", "") in dict(SPANS) else SPANS[0][0]
    try:
        typed = _thresholds(form, rules.get_rule(caller, name)["thresholds"])
        changed = {field: value for field, value in typed.items() if value is not None}
    except errors.NotFound as missing:
        raise Http404 from missing
    except errors.EvenflowError as refusal:
        return pages.failure(request, refusal)
    try:
        tried = backtest.backtest(caller, name, changed, span_s=int(span))
    except errors.EvenflowError as error:
        return _rules(request, name, typed=typed, span=span, refused=once.refusal(error))
    return _rules(request, name, typed=typed, span=span, tried=tried, during=dict(SPANS)[span])


@require_POST
@login_required
def save_rule(request: HttpRequest, name: str) -> HttpResponse:
    """Set the thresholds of one rule, or switch it off."""
    back = f"/alerts/rules?rule={name}"

    def act() -> tuple[str, str]:
        form = request.POST
        caller = pages.caller(request)
        known = rules.get_rule(caller, name)
        changes = {"enabled": bool(form.get("enabled")), "thresholds": _thresholds(form, known["thresholds"])}
        version = form.get("version", "")
        rules.patch_rule(
            caller, name, int(version) if version.isdecimal() else -1, changes, form.get("reason", "").strip()
        )
        return back, f"Rule {words.title(name)} saved"

    def invalid(error: errors.Invalid) -> HttpResponse:
        known = rules.get_rule(pages.caller(request), name)["thresholds"]
        names = {f"thresholds.{one['name']}": one["text"] for one in known}
        told = "; ".join(f"{names.get(one['field'], one['field'])}: {one['message']}" for one in error.errors)
        typed = _thresholds(request.POST, known)
        return _rules(request, name, typed=typed, refused=told, reason=request.POST.get("reason", ""))

    return once.run(request, act, back, invalid)


def _thresholds(form: Mapping[str, str], known: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What was typed: a number, or nothing for the default; other text stays, so that the service refuses it."""
    found: dict[str, Any] = {}
    for one in known:
        text = form.get(one["name"], "").strip()
        found[one["name"]] = (
            None if not text else int(text) if text.lstrip("-").isdecimal() and len(text) < 16 else text
        )
    return found


def _until(text: str) -> datetime | None:
    """From the choice of a form; None: until it is resolved."""
    return clock.now() + timedelta(seconds=int(text)) if text in dict(HOLDS) else None


def _matcher(text: str) -> dict[str, str]:
    """`rule=queue_slo class=batch` as words; a part without "=" is refused by its name."""
    found: dict[str, str] = {}
    for part in text.split():
        name, sign, value = part.partition("=")
        if not sign or not value:
            raise errors.Invalid(("matcher", f"{part}: write it as name=value"))
        found[name] = value
    return found
