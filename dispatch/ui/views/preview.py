"""`/fairness/…/preview`: what a draft would do to the backlog as it stands, before and after, for the page Fairness."""

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_POST

from dispatch import errors
from dispatch.live import words
from dispatch.live.cells import palette
from dispatch.services import policy, policy_preview
from dispatch.ui import pages
from dispatch.ui.views import fairness

#: column → its number, how it is written, what None means
COLUMNS = (
    ("Share, %", "share", words.percent, words.MISSING),
    ("Wait p50", "wait_p50_s", words.age, words.MISSING),
    ("Wait p95", "wait_p95_s", words.age, words.MISSING),
    ("Last one starts in", "drain_s", words.age, "later"),
    ("Longest gap", "gap_s", words.age, words.MISSING),
)
TONES = {"worse": "watch", "better": "ok", "same": "idle"}
TEXTS = {"worse": "worse", "better": "better", "same": "unchanged"}


@require_POST
@login_required
def preview(request: HttpRequest, kind: str, slug: str) -> HttpResponse:
    """Try a draft; the panel, swapped in by htmx. What is wrong with the draft is told in the panel."""
    caller = pages.person(request)
    context: dict[str, Any] = {"columns": [head for head, *_ in COLUMNS]}
    try:
        draft = fairness.drafted(kind, request.POST)
        current = policy.get(caller, kind, slug)
        if not draft:
            raise errors.Conflict("Nothing was changed yet.")
        edit = {"kind": kind, "slug": slug, "version": fairness.version(request.POST), "set": draft}
        pool = current["pool"] if kind == "class" else pages.numbers(request)["pool"]
        found = policy_preview.preview(caller, [edit], pool)
        colours = palette.palette(line["slug"] for line in found["classes"])
        context |= {"found": found, "colours": colours, "span": words.age(found["span_s"])}
        context["window"] = words.age(found["window_s"])
        context["tables"] = [
            {"kind": plural, "rows": [_row(line) for line in found[plural]]} for plural in ("classes", "tenants")
        ]
    except errors.Invalid as refusal:
        fields = [(one["field"].rpartition(".")[2], one["message"]) for one in refusal.errors]
        context["refused"] = [f"{name}: {message}" for name, message in fields]
    except errors.EvenflowError as refusal:
        context["refused"] = [refusal.detail]
    return render(request, "ui/parts/preview.html", context)


def _row(line: Mapping[str, Any]) -> dict[str, Any]:
    cells = []
    for _, name, write, none in COLUMNS:
        was, will = (none if line[when][name] is None else write(line[when][name]) for when in ("before", "after"))
        cells.append({"was": was if was != will else "", "will": will})
    verdict = line["verdict"]
    return {"slug": line["slug"], "cells": cells, "tone": TONES[verdict], "verdict": TEXTS[verdict]}
