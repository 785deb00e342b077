"""The OpenAPI document as people read it: calls by group, their parameters, bodies and answers as flat rows, examples.

Pure: a document in, plain values out. /docs draws them, /llms.txt lists them.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

DEEP = 3  # how far nested objects are told
SLUG = r"^[a-z0-9][a-z0-9._-]{0,62}$"

GROUPS = {
    "tasks": ("Tasks", "Submit work, follow it, cancel it. Scopes submit and read; requeue needs operate."),
    "agents": ("Agents", "Register, claim, heartbeat, end. Scope work."),
    "commands": ("Commands", "Explain and steer work that exists. Scope operate; reading needs read."),
    "dead letters": ("Dead letters", "Look at what died, and move many tasks at once. Scopes read and operate."),
    "policy": ("Policy", "Pools, classes, tenants, tools, capabilities. Scope operate; reading needs read."),
    "quotas": ("Quotas", "Users and parts of a tenant, and requests for more."),
    "budgets": ("Budgets", "What tenants may spend in a period. Scope operate; reading needs read."),
    "webhooks": ("Webhooks", "Signed messages when tasks end or alerts change. Scope operate."),
    "alerts": ("Alerts", "What needs a look. Scope read; acknowledging needs operate."),
    "operations": ("Operations", "Keys, numbers, the audit. Scopes read and admin."),
}
KINDS = frozenset({"pools", "classes", "tenants", "tools", "capabilities"})  # tags of their own, one group here


@dataclass(frozen=True, slots=True)
class Row:
    """One parameter or field: its path, its type in words, whether it must be there."""

    name: str
    kind: str
    needed: bool
    note: str = ""


@dataclass(slots=True)
class Call:
    """One operation."""

    id: str
    method: str
    path: str
    text: str
    group: str
    parameters: list[Row] = field(default_factory=list)
    body: list[Row] = field(default_factory=list)
    answers: list[tuple[str, str, list[Row]]] = field(default_factory=list)  # status, sentence, fields
    example: str = ""


@dataclass(slots=True)
class Group:
    """Calls that belong together."""

    name: str
    text: str
    calls: list[Call] = field(default_factory=list)


def read(document: Mapping[str, Any]) -> list[Group]:
    """All calls by group, in the document's order."""
    groups = {tag: Group(*told) for tag, told in GROUPS.items()}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            tag = (operation.get("tags") or ["operations"])[0]
            tag = "policy" if tag in KINDS else tag
            group = groups.setdefault(tag, Group(tag.capitalize(), ""))
            group.calls.append(_call(document, path, method, operation, group.name))
    return [group for group in groups.values() if group.calls]


def _call(document: Mapping[str, Any], path: str, method: str, operation: Mapping[str, Any], group: str) -> Call:
    schemas = document["components"]["schemas"]
    text = (operation.get("description") or operation["summary"]).replace("`", "")
    call = Call(operation["operationId"], method.upper(), path, text, group)
    for one in operation.get("parameters", ()):
        kind, note = _told(one["schema"], schemas)
        call.parameters.append(Row(one["name"], kind, one.get("required", False) or one["in"] == "path", note))
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if body is not None:
        call.body = list(_rows(body, schemas))
    for status, answer in operation["responses"].items():
        if int(status) < 300:
            (content,) = list(answer.get("content", {}).values()) or [{}]
            schema = content.get("schema", {})
            named = _resolve(schema, schemas)
            call.answers.append((str(status), named.get("description", ""), list(_rows(schema, schemas))))
    call.example = _example(call, body, schemas)
    return call


def _resolve(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema itself, behind references and "or null"."""
    while True:
        if "$ref" in schema:
            schema = schemas[schema["$ref"].rsplit("/", 1)[-1]]
            continue
        options = _options(schema)
        if len(options) != 1:
            return schema
        schema = options[0]


def _options(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf") or []
    return [option for option in found if option.get("type") != "null"]


def _rows(schema: Mapping[str, Any], schemas: Mapping[str, Any], path: str = "", depth: int = 0) -> Iterator[Row]:
    """The fields of an object, those of nested ones after their own."""
    found = _resolve(schema, schemas)
    for number, option in enumerate(_options(found)):  # one of several shapes: told one after the other
        yield from _rows(option, schemas, path, depth + number if depth else 0)
    needed = set(found.get("required", ()))
    for name, part in found.get("properties", {}).items():
        kind, note = _told(part, schemas)
        yield Row(f"{path}{name}", kind, name in needed, note)
        inner, mark = _resolve(part, schemas), ""
        if inner.get("type") == "array":
            inner, mark = _resolve(inner.get("items", {}), schemas), "[]"
        if depth < DEEP and (inner.get("properties") or _options(inner)):
            yield from _rows(inner, schemas, f"{path}{name}{mark}.", depth + 1)


def _told(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> tuple[str, str]:
    """A type in words, and what limits it."""
    found, empty = _resolve(schema, schemas), any(one.get("type") == "null" for one in schema.get("anyOf", ()))
    kind = _kind(found, schemas) + (" or null" if empty else "")
    notes = []
    if "default" in schema and schema["default"] not in (None, "", []):
        notes.append(f"default {json.dumps(schema['default'])}")
    low, high = found.get("minimum"), found.get("maximum")
    if low is not None and high is not None:
        notes.append(f"{low:g} to {high:g}")
    elif (above := found.get("exclusiveMinimum")) is not None:
        notes.append(f"above {above:g}")
    elif low is not None:
        notes.append(f"at least {low:g}")
    for word, most in (("characters", found.get("maxLength")), ("items", found.get("maxItems"))):
        if most is not None:
            notes.append(f"at most {most} {word}")
    return kind, "; ".join(notes)


def _kind(found: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    if "enum" in found:
        return " | ".join(str(value) for value in found["enum"])
    if "const" in found:
        return str(found["const"])
    if len(options := _options(found)) > 1:
        return " or ".join(dict.fromkeys(_kind(_resolve(option, schemas), schemas) for option in options))
    if found.get("pattern") == SLUG:
        return "name"
    if found.get("format") == "date-time":
        return "time"
    match found.get("type"):
        case "array":
            return f"list of {_kind(_resolve(found.get('items', {}), schemas), schemas)}"
        case "integer":
            return "integer"
        case "string":
            return "text"
        case None:
            return "object" if found.get("properties") else "any JSON"
        case kind:
            return str(kind)


def _example(call: Call, body: Mapping[str, Any] | None, schemas: Mapping[str, Any]) -> str:
    """A call as it is typed, with what must be in it."""
    path = re.sub(r"\{(\w+)\}", lambda part: "default" if part[1] == "slug" else "1", call.path)
    words = ["curl", '"$URL' + path + '"', '-H "Authorization: Bearer $KEY"']
    if call.method != "GET":
        words.insert(1, f"-X {call.method}")
    if body is not None:
        words += ["-H 'Content-Type: application/json'", f"-d '{json.dumps(_sample(body, schemas))}'"]
    return " \\\n  ".join([" ".join(words[: -3 if body is not None else -1]), *words[-3 if body is not None else -1 :]])


def _sample(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Any:
    """The least that the schema takes."""
    found = _resolve(schema, schemas)
    if options := _options(found):
        return _sample(options[0], schemas)
    if "enum" in found:
        return found["enum"][0]
    match found.get("type"):
        case "object":
            parts = found.get("properties", {})
            return {name: _sample(parts[name], schemas) for name in found.get("required", ()) if name in parts}
        case "array":
            return [_sample(found["items"], schemas)] if found.get("minItems") else []
        case "integer" | "number":
            return found.get("minimum") or 1
        case "boolean":
            return True
        case "string":
            return "2030-01-31T12:00:00Z" if found.get("format") == "date-time" else "name"
    return {"any": "JSON"}
