"""Alerts: their count beside the navigation, the newest one for those who must hear of it, rows of the page."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote
from zlib import crc32

from dispatch.live import words

#: severity → icon, tone
LOOKS = {"critical": ("breach", "breach"), "warning": ("watch", "watch"), "info": ("queued", "idle")}
SPOKEN = ("critical", "warning")  #: severities that are announced
TOP = 4  #: rows on the Overview
SENTENCE = 160  #: characters of an announcement


def frame(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """What every page knows of alerts; `alerts.newest` is announced once, so muted ones are left out."""
    items = snapshot.get("alerts", {}).get("items", [])
    loud = [one for one in items if one["state"] == "firing" and not one["muted"] and one["severity"] in SPOKEN]
    newest = max(loud, key=lambda one: one["id"], default=None)
    states = [(one["id"], one["state"], one["severity"], one["muted"]) for one in items]
    return {
        "alerts.version": f"{len(items)}.{crc32(repr(states).encode()):x}",
        "alerts.newest": newest["id"] if newest else 0,
        "alerts.text": f"Alert: {newest['text'][:SENTENCE]}" if newest else "",
    }


def top(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """The rows of the Overview: what fires before what was acknowledged, the newest first."""
    alerts = snapshot.get("alerts", {"items": [], "firing": 0, "acknowledged": 0})
    items = sorted(alerts["items"], key=lambda one: (one["state"] != "firing" or bool(one["muted"]), -one["id"]))[:TOP]
    found: dict[str, Any] = {
        "open": [str(one["id"]) for one in items],
        "open.none": not items,
        "open.sum": f"{words.count(alerts['firing'])} firing, {words.count(alerts['acknowledged'])} acknowledged",
    }
    for one in items:
        shown = row(one)
        since = one["fired_at"]
        found |= {
            f"z.{one['id']}.icon": shown["icon"],
            f"z.{one['id']}.tone": shown["tone"],
            f"z.{one['id']}.title": shown["title"],
            f"z.{one['id']}.about": shown["about"][0],
            f"z.{one['id']}.text": one["text"][:SENTENCE],
            f"z.{one['id']}.state": "" if one["state"] == "firing" else shown["word"],
            f"z.{one['id']}.since": since if isinstance(since, str) else since.isoformat(),
            f"z.{one['id']}.seen": one["state"] != "firing",
        }
    return found


def row(one: Mapping[str, Any]) -> dict[str, Any]:
    """One alert of the list."""
    icon, tone = LOOKS[one["severity"]]
    state = one["state"]
    return {
        **one,
        "icon": icon if state != "resolved" else "ok",
        "tone": tone if state == "firing" and not one["muted"] else "idle",
        "word": state if not one["muted"] else f"{state}, {one['muted']}",
        "title": words.title(str(one["rule"])),
        "about": about(one),
        "evidence": [value(name, found) for name, found in _flat(one["evidence"])],
        "matcher": f"rule={one['rule']} subject={one['subject']}",
    }


def about(one: Mapping[str, Any]) -> tuple[str, str]:
    """What it is about, and the page of that thing."""
    kind, _, key = str(one["subject"]).partition(":")
    links = {"worker": f"/workers/{key}", "task": f"/tasks/{key}", "bulk": f"/bulk/{key}"}
    if kind in links and key.isdecimal():
        return str(one["subject"]).replace(":", " "), links[kind]
    if one.get("class"):
        tenant = one.get("tenant")
        text = f"{one['class']} · {tenant}" if tenant else f"class {one['class']}"
        return text, f"/queues/{quote(one['class'])}" + (f"/{quote(tenant)}" if tenant else "")
    if one.get("tenant"):
        return f"tenant {one['tenant']}", f"/tasks?q=tenant%3A{quote(one['tenant'])}"
    return str(one["subject"]).replace(":", " "), ""


def value(name: str, found: Any) -> tuple[str, str]:
    """A piece of the evidence: its name, and the number with its unit."""
    label = words.measured(name, 0)[0]
    if isinstance(found, bool) or found is None:
        return label, {True: "yes", False: "no", None: words.MISSING}[found]
    if isinstance(found, int | float):
        return words.measured(name, found)
    if isinstance(found, list):
        return label, ", ".join(map(str, found[:8])) + (" …" if len(found) > 8 else "")
    return label, str(found)[:200]


def _flat(evidence: Any) -> list[tuple[str, Any]]:
    """Names and values, nested ones one level down."""
    found: list[tuple[str, Any]] = []
    for name, inner in evidence.items() if isinstance(evidence, Mapping) else []:
        if isinstance(inner, Mapping):
            found += [(f"{name} {key}", part) for key, part in inner.items()]
        else:
            found.append((str(name), inner))
    return found[:16]
