"""`/fairness`: weights, guarantees and limits of classes and tenants, and one editor for any of them.

The form carries what each field said when it was opened, so that only what the operator changed is saved, and an edit
of somebody else in between is told, never undone. `check` judges a draft while it is typed, by the rules of saving.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from dispatch import errors
from dispatch.live import snapshots, words
from dispatch.live.cells import palette
from dispatch.services import audit, audit_text, policy
from dispatch.ui import pages

#: kind → field, label, what an empty field means (no text: it needs a value)
FIELDS: Mapping[str, Sequence[tuple[str, str, str]]] = {
    "class": (
        ("weight", "Weight", ""),
        ("min", "Guaranteed slots", ""),
        ("max", "Maximum", "no maximum"),
        ("lend", "Lends up to", "all of it"),
        ("level", "Level", ""),
        ("aging_step_s", "Aging step, s", "never ages"),
        ("max_wait_s", "Longest wait, s", "never promoted"),
    ),
    "tenant": (
        ("weight", "Weight", ""),
        ("nominal", "Quota, slots", ""),
        ("max", "Maximum", "no maximum"),
        ("borrow", "Borrows up to", "no limit"),
        ("user_max", "Maximum of a user", "as the pool"),
    ),
}
CHANGES = 6  #: of one object, beside its editor
NUMBER = re.compile(r"[-+]?(\d{1,15}([.,]\d{0,9})?|[.,]\d{1,9})")

Values = Mapping[str, Any]


@pages.page
def fairness(request: HttpRequest, kind: str = "", slug: str = "") -> HttpResponse:
    """Both tables, and the editor of one object where the address names one."""
    return _show(request, policy.get(pages.person(request), _known(kind), slug) if kind else None, kind)


@login_required
def edit(request: HttpRequest, kind: str, slug: str) -> HttpResponse:
    """GET: the page with this object's editor. POST: save it, or come back with what is wrong."""
    return save(request, kind, slug) if request.method == "POST" else fairness(request, kind, slug)


def save(request: HttpRequest, kind: str, slug: str) -> HttpResponse:
    """Save what was changed; a refusal brings the draft back with the reason beside the fields."""
    draft = _draft(_known(kind), request.POST)
    caller = pages.person(request)
    try:
        if not draft:
            raise errors.Invalid(("body", "Nothing was changed."))
        reason = request.POST.get("reason", "").strip()
        policy.patch(caller, kind, slug, version(request.POST), _values(kind, draft), reason)
    except (errors.VersionConflict, errors.Invalid) as refusal:
        return _show(request, policy.get(caller, kind, slug), kind, draft, refusal)
    except errors.EvenflowError as refusal:
        return pages.failure(request, refusal)
    snapshots.expire()
    messages.success(request, f"{kind.capitalize()} {slug} saved: {', '.join(draft)}")
    return redirect(f"/fairness/{kind}/{slug}")


@pages.command
def undo(request: HttpRequest, kind: str, slug: str) -> pages.Told:
    """Set the values that one change of the audit replaced, unless they were changed again since."""
    person, entry = pages.person(request), request.POST.get("entry", "")
    current = policy.get(person, _known(kind), slug)
    found = next((one for one in _changes(person, kind, current) if str(one["id"]) == entry), None)
    if found is None or not found["undo"]:
        raise errors.Conflict("These values were changed again since; edit them instead.")
    policy.patch(person, kind, slug, current["version"], found["undo"], f"undo of: {found['text']}")
    return f"Undone: {found['text']}", {}


@require_POST
@login_required
def check(request: HttpRequest, kind: str, slug: str) -> HttpResponse:
    """Judge a draft without saving: sentences for the fields and a verdict, swapped in by htmx."""
    draft = _draft(_known(kind), request.POST)
    problems: list[dict[str, str]] = []
    context: dict[str, Any] = {"changed": len(draft)}
    try:
        found = policy.check(pages.person(request), kind, slug, _values(kind, draft))
        labels = {name: label.partition(",")[0] for name, label, _ in FIELDS[kind]}
        problems = found["errors"]
        context["warnings"] = [one | {"field": labels.get(one["field"], one["field"])} for one in found["warnings"]]
        if found["current"]["version"] != version(request.POST):
            context["news"] = _news(kind, request.POST, found["current"])
    except errors.Invalid as refusal:
        problems = refusal.errors
    except errors.EvenflowError as refusal:
        problems = [{"field": "body", "message": refusal.detail}]
    return render(request, "ui/parts/verdict.html", context | _errors(kind, problems))


def _known(kind: str) -> str:
    if kind not in FIELDS:
        raise Http404
    return kind


def _show(
    request: HttpRequest,
    current: Values | None,
    kind: str,
    draft: Mapping[str, str] | None = None,
    refusal: errors.EvenflowError | None = None,
) -> HttpResponse:
    caller = pages.person(request)
    now = pages.numbers(request)
    context: dict[str, Any] = {
        "tables": [{"kind": one, "fields": FIELDS[one], "rows": _rows(caller, one)} for one in FIELDS],
        "chosen": current,
        "kind": kind,
        "targets": {row["slug"]: words.percent(row["share_target"]) for row in now["classes"] if row["demand"]},
        "colours": palette.palette(row["slug"] for row in now["classes"]),
        "guaranteed": sum(row["min"] for row in now["classes"]),
        "slots": now["totals"]["slots"],
    }
    if current is not None:
        found = _errors(kind, getattr(refusal, "errors", []))
        context |= found | {"fields": _fields(kind, current, draft or {}, found["by_field"])}
        context["reason"] = request.POST.get("reason", "")
        context["changes"] = _changes(caller, kind, current)
        if isinstance(refusal, errors.VersionConflict):
            context["news"] = _news(kind, request.POST, current)
    response = pages.show(request, "ui/fairness.html", "fairness", **context)
    response.status_code = refusal.status if refusal else 200
    return response


def _changes(caller: Any, kind: str, current: Values) -> list[dict[str, Any]]:
    """The newest edits of one object, each with the values that undoing it would set (none: overtaken)."""
    narrow = {"target_kind": kind, "target": str(current["slug"]), "action": f"patch_{kind}", "only": "done"}
    found = []
    for row in audit.list_audit(caller, CHANGES, None, narrow).items:
        before, after = row["before"] or {}, row["after"] or {}
        names = [name for name, _, _ in FIELDS[kind] if name in after and before.get(name) != after[name]]
        stands = names and all(current[name] == after[name] for name in names)
        back = {name: before.get(name) for name in names} if stands else {}
        text = ", ".join(audit_text.changes(before, after)) or "other fields"
        found.append(row | {"text": text, "undo": back})
    return found


def _rows(caller: Any, kind: str) -> list[dict[str, Any]]:
    items, cursor = [], None
    while True:
        page = policy.list_(caller, kind, 100, cursor)
        items += page.items
        cursor = page.next_cursor
        if cursor is None:
            break
    return [
        {"slug": item["slug"], "values": [_word(item[name]) or "–" for name, _, _ in FIELDS[kind]]} for item in items
    ]


def _fields(
    kind: str, current: Values, draft: Mapping[str, str], problems: Mapping[str, str]
) -> list[dict[str, str | bool]]:
    return [
        {
            "name": name,
            "label": label,
            "empty": empty,
            "was": _word(current[name]),
            "value": draft.get(name, _word(current[name])),
            "error": problems.get(name, ""),
        }
        for name, label, empty in FIELDS[kind]
    ]


def _draft(kind: str, form: QueryDict) -> dict[str, str]:
    """What was typed into the fields that no longer say what they said when the form was opened."""
    typed = {name: form.get(name, form.get(f"was-{name}", "")).strip() for name, _, _ in FIELDS[kind]}
    return {name: text for name, text in typed.items() if text != form.get(f"was-{name}", "")}


def drafted(kind: str, form: QueryDict) -> dict[str, Any]:
    """The values that were changed in the form; 404 for a kind without an editor. Raises Invalid."""
    return _values(kind, _draft(_known(kind), form))


def _values(kind: str, draft: Mapping[str, str]) -> dict[str, Any]:
    """The typed numbers; an empty field means "none" only where the form says what that is."""
    if missing := [name for name, _, none in FIELDS[kind] if not none and draft.get(name) == ""]:
        raise errors.Invalid(*((name, "must be a number") for name in missing))
    return {name: _value(text) for name, text in draft.items()}


def _value(text: str) -> int | float | str | None:
    """A typed number; other text stays as it is, so that the service can say what is wrong with it."""
    if not text:
        return None
    if re.fullmatch(r"[-+]?\d{1,15}", text):
        return int(text)
    return float(text.replace(",", ".")) if NUMBER.fullmatch(text) else text


def version(form: QueryDict) -> int:
    """The version that the form was opened with; -1 for none."""
    text = form.get("version", "")
    return int(text) if re.fullmatch(r"\d{1,9}", text) else -1


def _word(value: float | None) -> str:
    return "" if value is None else words.weight(value)


def _errors(kind: str, problems: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """The sentences by field, in the order of the form, and those that belong to no field."""
    by_field = {one["field"]: one["message"] for one in problems}
    names = [name for name, _, _ in FIELDS[kind]] + ["reason"]
    return {
        "by_field": by_field,
        "field_errors": [(name, by_field.get(name, "")) for name in names],
        "rest": [text for name, text in by_field.items() if name not in names],
    }


def _news(kind: str, form: QueryDict, current: Values) -> str:
    """What somebody else saved since the form was opened."""
    labels = [(name, label) for name, label, _ in FIELDS[kind]]
    changed = [
        f"{label} {form.get(f'was-{name}') or 'empty'} → {_word(current[name]) or 'empty'}"
        for name, label in labels
        if form.get(f"was-{name}", "") != _word(current[name])
    ]
    return f"Somebody else saved version {current['version']} meanwhile: {', '.join(changed) or 'other fields'}."
