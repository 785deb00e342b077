"""A department's overview: its share bar with what is borrowed or lent, its waits by class, its users."""

from collections.abc import Mapping
from typing import Any

from dispatch.live import shapes, words
from dispatch.live.cells import levels, palette


def cells(snapshot: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """All of it, from services/departments.overview."""
    share = own["share"]
    past = [row for row in own["classes"] if _tone(row) == "breach"]
    health = f"{words.plural(len(past), 'class', 'classes')} past its SLO" if past else "nothing past its SLO"
    return {
        "own.sum": f"{words.count(own['queued'])} queued, {words.count(own['running'])} running, {health}",
        "own.dead": words.count(own["dead"]),
        **_share(share),
        **_classes(own),
        **_users(own["users"]),
    }


def _tone(row: Mapping[str, Any]) -> str:
    return levels.tone(levels.used(row["oldest_age_s"], row["slo_queue_s"]))


def _share(share: Mapping[str, Any]) -> dict[str, Any]:
    nominal, running, cap = share["nominal"], share["running"], share["cap"]
    top = max(nominal, running, min(cap, 4 * max(nominal, running, 1)) if cap is not None else 0, 1)
    if share["borrowed"]:
        icon, balance = "lend", f"{words.count(share['borrowed'])} borrowed"
    elif share["lent"]:
        icon, balance = "lend", f"{words.count(share['lent'])} lent to other tenants"
    else:
        icon, balance = "ok", "nothing borrowed or lent"
    return {
        "share.running": words.count(running),
        "share.text": f"running, {words.count(min(running, nominal))} of them in slots of ours",
        "share.icon": icon,
        "share.balance": balance,
        "share.own": shapes.pct(100 * min(running, nominal) / top),
        "share.over": shapes.pct(100 * min(running, nominal) / top),
        "share.overw": shapes.pct(100 * share["borrowed"] / top),
        "share.quota": shapes.pct(100 * nominal / top),
        "share.noquota": not nominal,
        "share.cap": shapes.pct(100 * (cap or 0) / top),
        "share.nocap": cap is None or cap > top or cap == nominal,
        "share.quotaword": f"{words.count(nominal)} our quota" if nominal else "no quota of our own",
        "share.capword": "no maximum" if cap is None else f"{words.count(cap)} with borrowing",
        "share.why": share["why"],
    }


def _classes(own: Mapping[str, Any]) -> dict[str, Any]:
    rows = own["classes"]
    colours = palette.palette(row["slug"] for row in rows)
    found: dict[str, Any] = {
        "mine": [row["slug"] for row in rows],
        "mine.some": bool(rows),
        "mine.queued": words.count(own["queued"]),
        "mine.running": words.count(own["running"]),
    }
    for row in rows:
        icon, tone, word = levels.health(row["oldest_age_s"], row["slo_queue_s"], bool(row["queued"] or row["running"]))
        if row["oldest_age_s"] is None and row["queued"]:
            icon, word = "pause", f"{words.count(row['limited'])} at a limit"
        part = levels.used(row["oldest_age_s"], row["slo_queue_s"])
        shown = {
            "name": row["slug"],
            "c": colours[row["slug"]],
            "oldest": words.age(row["oldest_age_s"]),
            "slo": f"of {words.limit(row['slo_queue_s'])}" if row["slo_queue_s"] else "no SLO",
            "bar": shapes.pct(100 * (part or 0) / 1.5),
            "noslo": row["slo_queue_s"] is None,
            "level": levels.tone(part),
            "icon": icon,
            "tone": tone,
            "health": word,
            "queued": words.count(row["queued"]),
            "running": words.count(row["running"]),
        }
        found.update((f"o.{row['slug']}.{key}", value) for key, value in shown.items())
    return found


def _users(rows: list[Mapping[str, Any]]) -> dict[str, Any]:
    top = max([row["running"] for row in rows] + [row["max"] or 0 for row in rows] + [1])
    found: dict[str, Any] = {"users": [row["user"] for row in rows], "users.some": bool(rows)}
    for row in rows:
        shown = {
            "name": "no user given" if row["user"] == "-" else row["user"],
            "bar": shapes.pct(100 * row["running"] / top),
            "tick": shapes.pct(100 * (row["max"] or 0) / top),
            "nomax": row["max"] is None,
            "running": words.count(row["running"]),
            "queued": words.count(row["queued"]),
            "held": f"{words.count(row['limited'])} at a limit" if row["limited"] else "",
            "max": "–" if row["max"] is None else words.count(row["max"]),
        }
        found.update((f"s.{row['user']}.{key}", value) for key, value in shown.items())
    return found
