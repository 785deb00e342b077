"""Rows of groups of dead letters: state, spread, the last six hours as bars."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dispatch.live import words
from dispatch.live.cells import palette
from dispatch.live.cells.dead import cells as letters
from dispatch.live.cells.dead import error_line

#: state → icon, tone, word
STATES = {
    "new": ("plus", "breach", "new"),
    "came_back": ("back", "breach", "came back"),
    "ignore_ended": ("watch", "watch", "ignored no more"),
    "rising": ("up", "watch", "rising"),
    "assigned": ("person", "idle", "assigned"),
    "quiet": ("ok", "ok", "quiet"),
    "steady": ("right", "idle", "steady"),
    "resolved": ("ok", "ok", "resolved"),
    "ignored": ("pause", "idle", "ignored"),
}
WHY = {
    "new": "its first letter is younger than an hour",
    "came_back": "it was resolved, and has killed tasks since",
    "ignore_ended": "it outgrew the limits up to which it was ignored",
    "rising": "more than twice as many in this hour as in each of the five before",
    "assigned": "somebody looks after it",
    "quiet": "no new letter for half an hour",
    "steady": "letters keep coming as before",
    "resolved": "somebody said so, and nothing died of it since",
    "ignored": "somebody said so; it is inside the limits given",
}
STEP, BAR, HIGH = 5, 3, 16  #: of the drawing, whose height is 18


def version(snapshot: Mapping[str, Any]) -> str:
    """Changes whenever a letter came or went."""
    return str(letters(snapshot)["dead.version"])


def summary(found: Mapping[str, Any]) -> str:
    """`148 tasks in 8 groups, 2 new in 1 h`."""
    total = f"{'≥ ' if found['capped'] else ''}{words.count(found['total'])}"
    groups = words.plural(len(found["groups"]) + found["more"], "group")
    return f"{total} tasks in {groups}, {words.count(found['new_1h'])} new in 1 h"


def row(one: Mapping[str, Any], colours: Mapping[str, str]) -> dict[str, Any]:
    """One group as the list and its own page show it."""
    icon, tone, word = STATES[one["state"]]
    sample, mark = one["sample"] or {}, one["mark"] or {}
    error = sample.get("error")
    kind = error.get("type") if isinstance(error, Mapping) else ""
    reason = str(one["reasons"][0][0]).replace("_", " ")
    low, high = one["attempts"]
    main = one["classes"][0][0]
    return {
        "fingerprint": one["fingerprint"],
        "title": str(kind or "") or reason or "no error",
        "message": error_line(error) or "no error text",
        "reason": reason,
        "icon": icon,
        "tone": tone,
        "word": f"quiet {words.limit_short(one['last_age_s'])}" if one["state"] == "quiet" else word,
        "why": WHY[one["state"]] + (f", {mark['assignee']}" if one["state"] == "assigned" else ""),
        "class": main,
        "c": colours.get(main, palette.OTHER),
        "more_classes": len(one["classes"]) - 1,
        "tenants": spread(one["tenants"]),
        "tenants_full": ", ".join(f"{name} {words.count(count)}" for name, count in one["tenants"]),
        "count": one["count"],
        "new_1h": one["new_1h"],
        "first_at": one["first_at"],
        "last_at": one["last_at"],
        "last": words.age(one["last_age_s"]),
        "attempts": str(high) if low == high else f"{low} to {high}",
        "bars": bars(one["steps"]),
        "bars_text": bars_text(one["steps"]),
        "sample": sample.get("id"),
        "mark": mark,
        "open": one["open"],
    }


def spread(counts: Sequence[tuple[str, int]]) -> str:
    """The first two names, and how many more."""
    names = [name for name, _ in counts[:2]]
    rest = len(counts) - len(names)
    return ", ".join(names) + (f" +{rest}" if rest else "")


def bars(steps: Sequence[int]) -> dict[str, str]:
    """Path data of the quarters of six hours, the oldest at the left: `d` the bars, `zero` where nothing died."""
    top = max([*steps, 1])
    full, empty = [], []
    for place, count in enumerate(reversed(steps)):
        x = place * STEP
        if count:
            high = max(2.0, HIGH * count / top)
            full.append(f"M{x} 18v-{high:.1f}h{BAR}v{high:.1f}z")
        else:
            empty.append(f"M{x} 17.5h{BAR}")
    return {"d": "".join(full), "zero": "".join(empty)}


def bars_text(steps: Sequence[int]) -> str:
    """The same in words."""
    return f"{words.count(sum(steps[:4]))} in the last hour, {words.count(sum(steps))} in six hours"


def matrix(found: Iterable[tuple[str, Sequence[int]]], colours: Mapping[str, str]) -> list[dict[str, Any]]:
    """Rows of the class by age table: counts with bars on one scale."""
    rows = list(found)
    top = max((count for _, counts in rows for count in counts), default=1) or 1
    return [
        {
            "class": name,
            "c": colours.get(name, palette.OTHER),
            "cells": [(count, f"{100 * count / top:.1f}%") for count in counts],
            "sum": sum(counts),
        }
        for name, counts in rows
    ]


def detail(one: Mapping[str, Any], versions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What only the page of one group shows: is the cause gone, who is hit, which agents it came from."""
    queues = [(name[0], name[1], count) for name, count in one["queues"]]
    top = max((count for _, _, count in queues), default=1)
    return {
        "evidence": evidence(one, versions),
        "queues": [(c, n, count, f"{100 * count / top:.1f}%") for c, n, count in queues],
        "versions": versions,
    }


def evidence(one: Mapping[str, Any], versions: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Tone, icon, sentence and cause: does requeueing make sense now?"""
    since = words.age(one["last_age_s"])
    seen = {row["version"] for row in versions if row["version"] != "–"}
    newer = sorted(
        (row for row in one.get("live_versions") or [] if row["version"] not in seen), key=lambda row: row["since"]
    )
    came = f"All counted attempts came from version {next(iter(seen))}. " if len(seen) == 1 else ""
    live = f"Version {newer[-1]['version']} is live since {words.clock(newer[-1]['since'])} UTC." if newer else ""
    if one["new_1h"]:
        title = f"It still happens: {words.plural(one['new_1h'], 'task')} died of it within the last hour"
        return {"tone": "watch", "icon": "watch", "title": title, "cause": came or "Requeued tasks may die again."}
    title = "The cause looks fixed" if newer and seen else f"No new case for {since}"
    cause = (
        f"No new case for {since}. {came}{live}"
        if newer and seen
        else (came or "Whether the cause is gone is not known.")
    )
    return {"tone": "", "icon": "ok", "title": title, "cause": cause}
