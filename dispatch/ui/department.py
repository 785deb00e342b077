"""The frame of a department's pages under `/t/<tenant>/`: its own navigation in the place of the console's."""

import re
from typing import Any

PATH = re.compile(r"/t/([a-z0-9][a-z0-9._-]{0,62})(?:/|$)")

#: group → name, page (under /t/<tenant>/, or of the console where it begins with "/"), icon, badge
PAGES = [
    (
        "",
        [
            ("Overview", "", "overview", ""),
            ("Quota", "quota", "fairness", ""),
            ("Tasks", "/tasks", "tasks", ""),
            ("Dead letters", "/dead", "dead", "dead"),
        ],
    ),
    (
        "Settings",
        [
            ("Members", "members", "people", ""),
            ("API keys", "keys", "key", ""),
            ("Webhooks", "webhooks", "hook", ""),
            ("Usage", "usage", "usage", ""),
            ("Audit", "/audit", "audit", ""),
        ],
    ),
]
TABS = ("Overview", "Quota", "Tasks", "Dead letters")
SHORT = {"Dead letters": "Dead"}


def in_path(path: str) -> str:
    """The department in an address, or nothing."""
    found = PATH.match(path)
    return found[1] if found else ""


def links(tenant: str, path: str, everywhere: bool, own: list[str]) -> dict[str, Any]:
    """Navigation and tab bar; who sees all departments finds the way back to the whole console."""
    found = [(group or tenant, [_link(tenant, path, *entry) for entry in entries]) for group, entries in PAGES]
    if everywhere:
        back = {"name": "All departments", "href": "/", "icon": "back", "badge": "", "here": False, "letter": "o"}
        found.append(("Console", [back]))
    if others := [_other(slug) for slug in own if slug != tenant]:
        found.append(("Other departments", others))
    flat = [link for _, group in found for link in group]
    tabs = [link | {"name": SHORT.get(link["name"], link["name"])} for link in flat if link["name"] in TABS]
    return {
        "keep": f"?tenant={tenant}",
        "department": tenant,
        "navigation": found,
        "tabs": tabs,
        "more": [link for link in flat if link["name"] not in TABS],
    }


def _other(slug: str) -> dict[str, Any]:
    return {"name": slug, "href": f"/t/{slug}/", "icon": "building", "badge": "", "here": False, "letter": ""}


def _link(tenant: str, path: str, name: str, page: str, icon: str, badge: str) -> dict[str, Any]:
    href = f"{page}?tenant={tenant}" if page.startswith("/") else f"/t/{tenant}/{page}"
    mark = href.partition("?")[0]
    here = path == mark if page == "" else path == mark or path.startswith(f"{mark}/")
    return {"name": name, "href": href, "icon": icon, "badge": badge, "here": here, "letter": ""}
