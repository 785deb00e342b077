"""The answer line and the six tiles of the Overview."""

from collections.abc import Mapping
from typing import Any

from dispatch.live import shapes, words
from dispatch.live.cells import levels

LEADER_SILENT_S = 5.0
TROUBLE = {
    "lost": "breach",
    "stale": "breach",
    "late": "watch",
    "stalled": "watch",
    "draining": "idle",
    "paused": "idle",
}


def cells(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """Answer line and tiles."""
    tone, icon, text, cause = answer(snapshot)
    found = {"answer.tone": tone, "answer.icon": icon, "answer.text": text, "answer.cause": cause}
    return found | _oldest(snapshot) | _flow(snapshot) | _capacity(snapshot) | _fleet(snapshot)


def waits(snapshot: Mapping[str, Any]) -> list[tuple[float, Mapping[str, Any], float]]:
    """Queues (class × tenant) with an SLO as (part of the SLO used, queue, SLO), most used first."""
    slo = {row["slug"]: row["slo_queue_s"] for row in snapshot["classes"]}
    found = []
    for queue in snapshot["grid"]:
        part = levels.used(queue["oldest_age_s"], slo.get(queue["class"]))
        if part is not None:
            found.append((part, queue, slo[queue["class"]]))
    return sorted(found, key=lambda item: -item[0])


def answer(snapshot: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Tone, icon, sentence and cause: is anyone starving?"""
    totals = snapshot["totals"]
    if not snapshot["classes"]:
        return ("idle", "none", "Nothing to dispatch yet", "Make a class and a tenant, then submit a first task.")
    beat = snapshot["leader"]["beat_age_s"]
    if beat is None or beat > LEADER_SILENT_S:
        since = "It has not started yet." if beat is None else f"Its last pulse was {words.age(beat)} ago."
        return ("breach", "breach", "Nothing is dispatched: the dispatcher is silent", since)
    if totals["queued"] and not totals["workers_live"]:
        return ("breach", "lost", "No worker is live", f"{words.plural(totals['queued'], 'task')} wait for one.")
    past = [item for item in waits(snapshot) if item[0] > 1]
    if past:
        return _starving(past, totals)
    if (close := waits(snapshot)) and close[0][0] >= levels.CLOSE:
        _, queue, slo = close[0]
        text = f"Nobody is starving, but {name(queue)} comes close"
        return ("watch", "watch", text, f"{words.age(queue['oldest_age_s'])} of its SLO of {words.limit(slo)}.")
    return ("ok", "ok", "Nobody is starving", _calm(totals))


def _starving(
    past: list[tuple[float, Mapping[str, Any], float]], totals: Mapping[str, Any]
) -> tuple[str, str, str, str]:
    _, queue, slo = past[0]
    first = f"{name(queue)} has waited {words.age(queue['oldest_age_s'])}"
    text = f"One queue is starving: {first}" if len(past) == 1 else f"{len(past)} queues are starving: {first}"
    busy = "no slot is free" if not totals["free"] else f"free slots of the fleet: {totals['free']}"
    return ("breach", "breach", text, f"Its SLO is {words.limit(slo)}; {queue['running']} of its tasks run, {busy}.")


def _calm(totals: Mapping[str, Any]) -> str:
    if not totals["queued"]:
        return "No task is waiting."
    waiting = f"{words.plural(totals['queued'], 'task')} {'waits' if totals['queued'] == 1 else 'wait'}"
    oldest = totals["oldest"]
    if totals["oldest_age_s"] is None or not oldest:
        return f"{waiting}, stopped by limits or a pause of their own."
    return f"{waiting}, the oldest for {words.age(totals['oldest_age_s'])} in {name(oldest)}."


def name(queue: Mapping[str, Any]) -> str:
    """`batch · legal`."""
    return f"{queue['class']} · {queue['tenant']}"


def _oldest(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    totals = snapshot["totals"]
    oldest = totals["oldest"]
    slo = next((row["slo_queue_s"] for row in snapshot["classes"] if oldest and row["slug"] == oldest["class"]), None)
    part = levels.used(totals["oldest_age_s"], slo)
    tone = levels.tone(part)
    return {
        "t.oldest": words.age(totals["oldest_age_s"]),
        "t.oldest.tone": f"hero-{tone}" if tone else "",
        "t.oldest.mark": tone,
        "t.oldest.icon": tone or "ok",
        "t.oldest.slo": "" if part is None else f"{words.decimal(part)} × SLO",
        "t.oldest.where": name(oldest) if oldest else "nothing waits",
        "t.oldest.noslo": part is None,
    }


def _flow(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    totals, rows = snapshot["totals"], snapshot["classes"]
    kinds = snapshot.get("dead_kinds", {"groups": 0, "new_1h": 0})
    arrived = sum(row["arrived_per_s"] or 0 for row in rows)
    sent = totals["dispatched_per_s"] or 0
    growth = words.signed((arrived - sent) * 60, 0)
    return {
        "t.queued": words.count(totals["queued"]),
        "t.queued.trend": "steady" if growth == "0" else f"{growth} a minute",
        "t.rate": words.decimal(sent),
        "t.arrived": f"{words.decimal(arrived)} / s arriving",
        "t.dead": words.count(kinds["new_1h"]),
        "t.dead.all": f"{words.plural(snapshot['dead']['total'], 'task')} in {words.plural(kinds['groups'], 'group')}",
    }


def _capacity(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    totals = snapshot["totals"]
    slots = totals["slots"]
    use = 100 * totals["running"] / slots if slots else 0
    return {
        "t.running": words.count(totals["running"]),
        "t.slots": f"of {words.plural(slots, 'slot')}",
        "t.free": f"{words.count(totals['free'])} free · {words.decimal(use)} % used" if slots else "no slots",
        "t.running.bar": shapes.pct(use),
    }


def _fleet(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    totals, workers = snapshot["totals"], snapshot["workers"]
    marks = sorted(
        (TROUBLE.get(worker["state"], "ok") for worker in workers), key=["ok", "idle", "watch", "breach"].index
    )
    squares = _squares(marks)
    trouble = [
        f"{words.count(number)} {word}"
        for word in TROUBLE
        if (number := sum(worker["state"] == word for worker in workers))
    ]
    return {
        "t.live": words.count(totals["workers_live"]),
        "t.workers": f"live of {words.count(totals['workers'])}",
        "t.trouble": " · ".join(trouble[:2]) or ("all well" if workers else "none registered"),
        **{f"t.fleet.{kind}": path for kind, path in squares.items()},
    }


def _squares(marks: list[str]) -> dict[str, str]:
    """Two rows of small squares, one per worker (thinned out past 26)."""
    most = 26
    if len(marks) > most:
        marks = [marks[(index + 1) * len(marks) // most - 1] for index in range(most)]
    paths = dict.fromkeys(("ok", "idle", "watch", "breach"), "")
    for index, mark in enumerate(marks):
        paths[mark] += f"M{index % 13 * 10 + 1} {index // 13 * 10 + 1}h6v6h-6z"
    return paths
