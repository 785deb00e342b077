"""Our own processes, who dispatches, the database (services/system.py)."""

from collections.abc import Mapping, Sequence
from typing import Any

from dispatch.live import words

SILENT_S = 3.0  #: a dispatcher without a pulse for so long leads no more
UNITS = ("B", "kB", "MB", "GB", "TB")


def cells(snapshot: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Rows `s.l<place>.…` (leaders) and `s.p<id>.…` (processes), facts `s.…`, and the answer line."""
    found = {**_answer(own), **_database(own["database"])}
    found["leaders"] = [f"l{place}" for place in range(len(own["leaders"]))]
    for place, row in enumerate(own["leaders"]):
        found.update((f"s.l{place}.{name}", value) for name, value in _leader(row).items())
    found["processes"] = [f"p{row['id']}" for row in own["processes"]]
    found["processes.some"] = bool(own["processes"])
    for row in own["processes"]:
        found.update((f"s.p{row['id']}.{name}", value) for name, value in _process(row).items())
    totals = snapshot["totals"]
    found["s.hit"] = (
        f"No new task starts in any pool. In pool {snapshot['pool']}, {words.count(totals['running'])} running go on "
        f"to their end and {words.count(totals['queued'])} keep waiting; submits are taken."
    )
    return found


def _why_paused(leaders: Sequence[Mapping[str, Any]]) -> str:
    """Who paused what is paused, why and until when; each pause once."""
    told = []
    for row in leaders:
        if row["paused"]:
            until = row["paused_until"]
            end = "it is resumed" if until is None else words.stamp(until)
            told.append(f"Nothing new starts until {end}; {row['paused_by']}: {row['pause_reason']}")
    return " · ".join(dict.fromkeys(told))


def _answer(own: Mapping[str, Any]) -> dict[str, Any]:
    paused = [row["pool"] for row in own["leaders"] if row["paused"]]
    silent = [row["pool"] for row in own["leaders"] if _silent(row)]
    away = [row for row in own["processes"] if row["state"] == "silent"]
    if silent:
        return _line("breach", "lost", f"Nobody dispatches {', '.join(silent)}", "No dispatcher has a fresh pulse.")
    if paused:
        text = f"Paused: {', '.join(paused)}"
        return _line("watch", "pause", text, _why_paused(own["leaders"]))
    if away:
        names = ", ".join(sorted({row["kind"] for row in away}))
        return _line("watch", "watch", f"{words.plural(len(away), 'process', 'processes')} silent", f"Kinds: {names}.")
    pools = words.plural(len(own["leaders"]), "pool")
    text = f"{words.plural(len(own['processes']), 'process', 'processes')} beat, {pools} dispatched"
    return _line("ok", "ok", "All processes are well", text + ".")


def _line(tone: str, icon: str, text: str, cause: str) -> dict[str, Any]:
    return {"answer.tone": tone, "answer.icon": icon, "answer.text": text, "answer.cause": cause}


def _silent(row: Mapping[str, Any]) -> bool:
    return row["beat_age_s"] is not None and row["beat_age_s"] > SILENT_S


def _leader(row: Mapping[str, Any]) -> dict[str, Any]:
    beat = row["beat_age_s"]
    if beat is None:
        icon, tone, word = "none", "idle", "never led"
    elif _silent(row):
        icon, tone, word = "lost", "breach", "silent"
    elif row["paused"]:
        icon, tone, word = "pause", "idle", "paused"
    else:
        icon, tone, word = "ok", "ok", "dispatching"
    return {
        "pool": row["pool"],
        "icon": icon,
        "tone": tone,
        "word": word,
        "leader": f"{row['host']} · {row['pid']}" if row["pid"] else words.MISSING,
        "epoch": words.count(row["epoch"]),
        "cycles": words.count(row["cycle_no"]),
        "took": words.decimal(row["cycle_ms"]),
        "beat": words.MISSING if beat is None else f"{words.decimal(beat)} s ago",
    }


def _process(row: Mapping[str, Any]) -> dict[str, Any]:
    live = row["state"] == "live"
    return {
        "kind": row["kind"],
        "icon": "ok" if live else "lost",
        "tone": "ok" if live else "watch",
        "word": row["state"],
        "work": row["work"] or words.MISSING,
        "host": row["host"],
        "pid": str(row["pid"]),
        "started": row["started_at"].isoformat(),
        "beat": f"{words.age(row['beat_age_s'])} ago",
    }


def _database(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "s.version": row["version"],
        "s.size": size(row["bytes"]),
        "s.connections": words.count(row["connections"]),
        "s.schema": row["migration"],
        "s.started": row["started_at"].isoformat(),
        "s.answer": f"{words.decimal(row['answer_ms'])} ms",
    }


def size(count: float) -> str:
    """Bytes as `12.3 MB`."""
    for unit in UNITS:
        if count < 1000 or unit == UNITS[-1]:
            return f"{words.decimal(count, 0 if unit == 'B' else 1)} {unit}"
        count /= 1000
    return words.MISSING
