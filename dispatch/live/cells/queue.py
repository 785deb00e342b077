"""One queue: its numbers against their yardsticks, who uses it, what starts next (services/queue.py)."""

from collections.abc import Mapping
from typing import Any

from dispatch.live import shapes, words
from dispatch.live.cells import levels, palette

USERS = 10  #: rows of those who use it
HELD = "held by limits of their own"


def cells(snapshot: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Cells `u.…`, rows `x.<place>.…` (next in line) and `y.<place>.…` (who uses it)."""
    count, policy = own["count"], own["class"]
    slo = policy["slo_queue_s"]
    tone = levels.tone(levels.used(count["oldest_age_s"], slo))
    slug = policy["slug"]
    whole = own["tenant"] is None
    waits = None if count["oldest_age_s"] is None else count["oldest_age_s"]
    found: dict[str, Any] = {
        "u.queued": words.count(count["queued"]),
        "u.running": words.count(count["running"]),
        "u.rest": f"{words.count(count['scheduled'])} scheduled, {words.count(count['held'])} held",
        "u.oldest": words.age(waits),
        "u.oldest.tone": f"hero-{tone}" if tone else "",
        "u.slo": f"SLO {words.limit(slo)}" if slo else "no SLO",
        "u.rate": words.decimal(own["rate"], 2 if own["rate"] < 1 else 1),
        "u.limited": f"{words.count(count['limited'])} {HELD}" if count["limited"] else "none held by limits",
        "u.share": words.percent(own["share_achieved"]),
        "u.target": f"of {words.percent(own['share_target'])} %" if own["share_target"] is not None else "",
        "u.deficit": words.signed(own["deficit"]),
        "u.owed": _owed(own["deficit"]),
        "u.promoted": f"{words.count(own['promoted'])} of them promoted" if own["promoted"] else "by turn",
        "u.paused": policy["paused"] or bool(own["tenant"] and own["tenant"]["paused"]),
        "u.hit": _hit(count, slug if whole else own["tenant"]["slug"]),
        **_answer(own, slug, slo),
        **_share(own),
        **_users(snapshot, own),
        **_next(own),
    }
    return found


def _answer(own: Mapping[str, Any], slug: str, slo: float | None) -> dict[str, Any]:
    count = own["count"]
    name = slug if own["tenant"] is None else f"{slug} · {own['tenant']['slug']}"
    stops = ", ".join(own["limits"])
    oldest = words.age(count["oldest_age_s"])
    tone = levels.tone(levels.used(count["oldest_age_s"], slo))
    by = own["tenant"] if own["tenant"] and own["tenant"]["paused"] else own["class"]
    if by["paused"]:
        until = "until it is resumed" if by["paused_until"] is None else "until its time is over"
        text, cause = f"{by['slug']} is paused {until}", f"{by['paused_by']}: {by['pause_reason']}"
        return _line("idle", "pause", text, cause)
    if count["oldest_age_s"] is None:
        waiting = words.plural(count["queued"], "task")
        if count["queued"]:
            return _line("watch", "lock", f"{waiting} of {name} may not start", f"Stopped by: {stops or 'a limit'}.")
        return _line("ok", "ok", f"Nothing waits in {name}", f"{words.plural(count['running'], 'task')} of it run.")
    limit = f"Its SLO is {words.limit(slo)}." if slo else "It has no SLO."
    some = f" {words.count(count['limited'])} more are stopped by: {stops}." if count["limited"] and stops else ""
    if tone:
        words_ = "is starving: it has waited" if tone == "breach" else "comes close: it has waited"
        return _line(tone, tone, f"{name} {words_} {oldest}", limit + some)
    return _line("ok", "ok", f"{name} waits {oldest} at most", limit + some)


def _line(tone: str, icon: str, text: str, cause: str) -> dict[str, Any]:
    return {"answer.tone": tone, "answer.icon": icon, "answer.text": text, "answer.cause": cause}


def _owed(deficit: float | None) -> str:
    if deficit is None:
        return "no demand"
    return "is owed" if deficit > 0 else "is ahead" if deficit < 0 else "even"


def _hit(count: Mapping[str, Any], name: str) -> str:
    waits = words.plural(count["queued"], "queued task")
    return f"{waits} of {name} {'keeps' if count['queued'] == 1 else 'keep'} waiting; {_goes_on(count['running'])}"


def _goes_on(running: int) -> str:
    return "nothing of it runs." if not running else f"{words.count(running)} running go on to their end."


def _share(own: Mapping[str, Any]) -> dict[str, Any]:
    achieved, target = own["share_achieved"] or 0.0, own["share_target"] or 0.0
    bar = shapes.share_bar(achieved, target, max(0.25, achieved, target))
    return {f"u.{key}": value for key, value in bar.items()}


def _users(snapshot: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    rows = sorted(own["users"], key=lambda row: (-row["running"], -row["queued"]))[:USERS]
    most = max([row["running"] for row in rows] or [1]) or 1
    found: dict[str, Any] = {"users": [str(place) for place in range(len(rows))], "users.some": bool(rows)}
    for place, row in enumerate(rows):
        tenant, user = row["name"]
        found |= {
            f"y.{place}.tenant": tenant,
            f"y.{place}.user": "" if user == "-" else user,
            f"y.{place}.running": words.count(row["running"]),
            f"y.{place}.queued": words.count(row["queued"]),
            f"y.{place}.oldest": words.age(row["oldest_age_s"]),
            f"y.{place}.limit": ", ".join(row["limits"]),
            f"y.{place}.bar": shapes.pct(100 * row["running"] / most),
        }
    return found


def _next(own: Mapping[str, Any]) -> dict[str, Any]:
    rows = own["next"]
    found: dict[str, Any] = {"next": [str(row["id"]) for row in rows], "next.some": bool(rows)}
    found["next.how"] = (
        f"queues take turns by tenant weight, at the last minute's pace of {words.decimal(own['rate'], 2)} / s"
        if own["rate"]
        else "queues take turns by tenant weight; nothing of it started in the last minute, so no time is told"
    )
    for row in rows:
        key = f"x.{row['id']}"
        promoted = row["promoted_in_s"]
        found |= {
            f"{key}.place": words.count(row["place"]),
            f"{key}.id": words.count(row["id"]),
            f"{key}.type": row["type"] or "task",
            f"{key}.who": row["tenant"] if row["user"] == "-" else f"{row['tenant']} · {row['user']}",
            f"{key}.waited": words.age(row["waited_s"]),
            f"{key}.starts": words.MISSING if row["starts_in_s"] is None else f"in {words.age(row['starts_in_s'])}",
            f"{key}.promoted": ""
            if promoted is None
            else ("promoted" if promoted == 0 else f"in {words.age(promoted)}"),
        }
    return found


def colour(snapshot: Mapping[str, Any], slug: str) -> str:
    """The mark colour of a class."""
    return palette.palette(row["slug"] for row in snapshot["classes"]).get(slug, palette.OTHER)
