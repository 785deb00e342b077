"""What is called: every operation of the OpenAPI document and every page, with ids of one department filled in."""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone

from tests.access.world import Side
from tests.api.document import document

#: values of body fields by name; those that are not here are made from the schema
FIELDS: dict[str, Any] = {
    "class": "standard",
    "reason": "matrix",
    "note": "matrix",
    "payload": {"n": 1},
    "scopes": ["admin"],
    "overlap_s": 0,
    "wait_s": 0,
    "max": 1,
    "slots": 1,
    "capabilities": [],
    "weight": 2,
    "events": ["task.dead"],
    "url": "https://93.184.216.34/hook",
    "action": "cancel",
    "scope": "tenant",
    "error": {"message": "x"},
    "outcome": "complete",
    "draining": True,
    "enabled": True,
    "changes": {"max": 3},
    "leases": [],
}
#: fields that an operation needs beside those that its schema demands
MORE: dict[str, dict[str, Any]] = {
    "patch_tenant": {"max": 50},
    "patch_class": {"weight": 2},
    "patch_pool": {"budget": 5},
    "patch_tool": {"max": 5},
    "patch_task": {"priority": 1},
    "patch_worker": {"draining": True},
    "patch_webhook": {"name": "new name"},
    "patch_alert_rule": {"enabled": False},
    "put_tenant_user": {"max": 1},
    "put_tenant_class": {"max": 1},
    "create_key": {"name": "made"},
    "create_bulk": {"action": "cancel", "filter": None, "dry_run": True, "reason": "matrix"},
    "apply_policy": {"changes": [{"kind": "tool", "slug": "spare", "version": 1, "set": {"max": 3}}]},
    "preview_policy": {"changes": [{"kind": "tool", "slug": "spare", "version": 1, "set": {"max": 3}}]},
    "create_quota_request": {"changes": {"nominal": 3}},
    "pause": {"slug": None},
    "resume": {"slug": None},
}
#: addresses whose parts do not follow from their names: operation → part → value
PARTS = {
    "pools": "spare",
    "classes": "spare",
    "tools": "spare",
    "capabilities": "spare",
    "alert-rules": "queue_age_rising",
}
TAKES_LEASED = {"complete", "fail", "release", "checkpoint", "revoke"}


def operations() -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """(operation id, method, path, operation) of the whole document."""
    for path, found in document()["paths"].items():
        for method, operation in found.items():
            yield operation["operationId"], method.upper(), path, operation


def names_a_department(operation: str, method: str, path: str) -> bool:
    """Whether a call names something of one department, in its address or its body."""
    parts = re.findall(r"{(\w+)}", path)
    return any(part not in ("slug", "worker_id") or "/tenants/" in path for part in parts) or operation in {
        "submit", "claim", "heartbeat", "goodbye", "complete_many", "create_key", "create_webhook",
        "create_quota_request", "create_silence", "create_bulk", "pause", "resume",
    }  # fmt: skip


def address(operation: str, path: str, side: Side) -> str:
    """The path with the department's ids in it."""

    def part(found: re.Match[str]) -> str:
        name = found[1]
        if name == "slug":
            return side.tenant if "/tenants/" in path else PARTS[path.split("/")[3]]
        if name == "name":
            return side.ids["user"] if "/users/" in path else "monthly" if "/budgets/" in path else "standard"
        if name == "task_id" and operation in TAKES_LEASED:
            return str(side.ids["leased"])
        if name == "task_id" and operation == "requeue":
            return str(side.ids["dead"])
        return str(side.ids.get(name, 1))

    return re.sub(r"{(\w+)}", part, path)


def body(operation: str, spec: dict[str, Any], side: Side) -> Any:
    """A body that the schema takes, about this department; None where there is none."""
    if "requestBody" not in spec:
        return None
    (content,) = spec["requestBody"]["content"].values()
    made = _made(content["schema"], operation, side)
    return made | _known(MORE.get(operation, {}), side) if isinstance(made, dict) else made


def _known(fields: dict[str, Any], side: Side) -> dict[str, Any]:
    return {name: _value(name, side) if value is None else value for name, value in fields.items()}


def _value(name: str, side: Side, value: Any = None) -> Any:
    own = {
        "tenant": side.tenant,
        "slug": side.tenant,
        "session_id": side.ids["session_id"],
        "task_id": side.ids["leased"],
        "token": side.ids["token"],
        "version": side.ids["version"],
        "until": (timezone.now() + timedelta(hours=1)).isoformat(),
        "filter": {"tenant": side.tenant},
        "matcher": {"tenant": side.tenant},
    }
    return own.get(name, FIELDS.get(name, value))


def _made(schema: dict[str, Any], operation: str, side: Side, name: str = "") -> Any:
    """The smallest value of a JSON schema, with our own values for the fields that we know."""
    if "$ref" in schema:
        return _made(document()["components"]["schemas"][schema["$ref"].split("/")[-1]], operation, side, name)
    for choice in schema.get("anyOf", []) + schema.get("oneOf", []):
        if choice.get("type") != "null":
            return _made(choice, operation, side, name)
    if "properties" in schema or schema.get("type") == "object":
        needed = set(schema.get("required", ())) | ({"tenant"} & set(schema.get("properties", {})))
        return {
            one: _value(one, side, _made(schema["properties"][one], operation, side, one) if _free(one) else None)
            for one in sorted(needed)
        } | ({"slug": "fresh"} if operation.startswith("create_") and "slug" in needed else {})
    if "enum" in schema or "const" in schema:
        return schema.get("const", (schema.get("enum") or [None])[0])
    kind = schema.get("type")
    if kind == "array":
        return [_made(schema["items"], operation, side, name)] if schema.get("minItems") else []
    return {"string": "x", "integer": schema.get("minimum", 1), "number": 1, "boolean": True}.get(str(kind), "x")


def _free(name: str) -> bool:
    """Whether the value of a field has to be made from its schema."""
    return name not in FIELDS


#: what every form of the console sends at most; who lacks the right is refused before any of it is looked at
FORM = {"reason": "matrix", "weight": "2", "version": "1", "note": "matrix", "name": "x", "q": "", "once": "matrix"}
SKIPPED = re.compile(r"api/|\^api|t/<str:tenant>/.*<")  # the API has a table of its own


def pages() -> Iterator[tuple[str, URLPattern]]:
    """(address as it is written, pattern) of everything outside the API."""

    def walk(resolver: URLResolver, before: str) -> Iterator[tuple[str, URLPattern]]:
        for found in resolver.url_patterns:
            route = before + str(found.pattern)
            if isinstance(found, URLResolver):
                yield from walk(found, route)
            elif not SKIPPED.match(route):
                yield route, found

    yield from walk(get_resolver(), "")


def is_about_oneself(route: str) -> bool:
    """Whether a page is the same for everybody: signing in, the own account, the reference."""
    return route.lstrip("^").startswith(
        ("account", "login", "logout", "invitation", "docs", "llms", "healthz", "readyz")
    )


def place(route: str, side: Side) -> str:
    """A page's address with the department's ids in it."""
    if "uidb36" in route:
        return "/account/password/reset/1-set-password"

    def part(found: re.Match[str]) -> str:
        name = found[1]
        fixed = {
            "work_class": "standard", "kind": "tenant", "scope": "tenant", "slug": side.tenant, "view_id": "1",
            "provider_id": "company", "pk": "1", "name": "queue_age_rising",
            "verb": "pause" if "workers" in route else "edit",
        }  # fmt: skip
        if name == "name" and route.startswith("live/"):
            return "overview"
        if name == "token":
            return "no-such-token"
        if name == "task_id" and route.endswith("revoke"):
            return str(side.ids["leased"])
        if name == "session_id":
            return "1"
        return str(side.ids.get(name, fixed.get(name, "x")))

    return "/" + re.sub(r"<(?:\w+:)?(\w+)>", part, route)


def narrowed(path: str, tenant: str) -> str:
    """The address looking at one department."""
    return f"{path}?{urlencode({'tenant': tenant})}"
