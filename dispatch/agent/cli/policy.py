"""`evenflow policy export` and `evenflow policy apply -f FILE`: the policy as a file under version control.

A file holds the settings of pools, classes, tenants and tools by name; pauses and cooldowns are events and stay out.
`export` writes JSON, which is YAML as well. `apply` reads that, and any YAML where Python has PyYAML. It changes what
differs, makes what is missing, all or nothing, and leaves alone what the file does not name.
"""

import argparse
import importlib
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dispatch.agent.cli import exits, grammar
from dispatch.agent.cli.output import Output
from dispatch.agent.cli.server import Server, connect
from dispatch.agent.errors import ApiError

KINDS = {"pools": "pool", "classes": "class", "tenants": "tenant", "tools": "tool"}
#: what an object tells of itself that is no setting
STATE = frozenset(
    {"slug", "version", "created_at", "updated_at", "ceilings", "warnings", "cooldown_until"}
) | frozenset({"paused", "paused_at", "paused_until", "paused_by", "pause_reason"})

Objects = Mapping[str, list[dict[str, Any]]]  # plural → objects as the API lists them


def add(commands: grammar.Grammar) -> None:
    """Declare both commands."""
    actions = commands.command("policy", "keep the policy in a file").add_subparsers(metavar="ACTION", required=True)
    export = actions.add_parser("export", help="print the policy as JSON, which is YAML too", parents=[commands.common])
    export.set_defaults(run=run_export)
    apply = actions.add_parser("apply", help="make the policy what a file says", parents=[commands.common])
    apply.add_argument("-f", "--file", required=True, metavar="FILE", help="`-` reads stdin")
    apply.add_argument("--reason", help="for the audit; needed unless it is a dry run")
    apply.add_argument("--dry-run", action="store_true", help="only say what would change")
    apply.set_defaults(run=run_apply)


def run_export(args: argparse.Namespace, out: Output) -> int:
    """Print the document; with and without --json it is the same."""
    print(json.dumps(document(_objects(connect(args))), indent=2, ensure_ascii=False))
    return exits.OK


def run_apply(args: argparse.Namespace, out: Output) -> int:
    """Send what differs in one set."""
    if not args.dry_run and not (args.reason or "").strip():
        raise exits.Trouble("`policy apply` needs --reason for the audit (or --dry-run)", exits.USAGE)
    wanted = _read(args.file)
    server = connect(args)
    changes = differences(wanted, now := _objects(server))
    answer: dict[str, Any] = {"warnings": []}
    if changes:
        body = {"changes": changes, "reason": args.reason or "dry run", "dry_run": args.dry_run}
        try:
            answer = server.post("/policy/apply", body)
        except ApiError as error:
            error.errors = [{**item, "field": _place(item.get("field"), changes)} for item in error.errors]
            raise
    if out.as_json:
        out.document({"dry_run": args.dry_run, "changes": changes, "warnings": answer["warnings"]})
        return exits.OK
    for line in lines(changes, now):
        out.line(line)
    named = [{**item, "field": _place(item.get("field"), changes)} for item in answer["warnings"]]
    out.warnings({"warnings": named})
    out.note(f"{len(changes)} objects {'would change' if args.dry_run else 'changed'}" if changes else "no difference")
    return exits.OK


def document(objects: Objects) -> dict[str, Any]:
    """The settings by kind and name."""
    return {
        plural: {item["slug"]: {name: item[name] for name in item if name not in STATE} for item in objects[plural]}
        for plural in KINDS
    }


def differences(wanted: Mapping[str, Any], objects: Objects) -> list[dict[str, Any]]:
    """The edits that make the policy what the document says; version 0 makes an object. Trouble for a bad document."""
    changes = []
    for plural, kind in KINDS.items():
        known = {item["slug"]: item for item in objects[plural]}
        for slug, fields in wanted.get(plural, {}).items():
            if state := sorted(STATE & set(fields)):
                raise exits.Trouble(f"{kind}/{slug}: {', '.join(state)} cannot be set by a file", exits.REFUSED)
            current = known.get(slug)
            if current is None:
                changes.append({"kind": kind, "slug": slug, "version": 0, "set": dict(fields)})
                continue
            changed = {
                name: value for name, value in fields.items() if name not in current or not _same(value, current[name])
            }
            if changed:
                changes.append({"kind": kind, "slug": slug, "version": current["version"], "set": changed})
    return changes


def _same(one: Any, other: Any) -> bool:
    """Equal, and no truth value taken for a number."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def lines(changes: list[dict[str, Any]], objects: Objects) -> list[str]:
    """What changes, an object or a field a line."""
    plural = {kind: name for name, kind in KINDS.items()}
    told = []
    for change in changes:
        known = {item["slug"]: item for item in objects[plural[change["kind"]]]}
        current = known.get(change["slug"])
        name = f"{change['kind']}/{change['slug']}"
        if current is None:
            told.append(f"{name}: new")
        before = current or {}
        told += [
            f"{name}: {field} {json.dumps(before[field]) + ' → ' if field in before else ''}{json.dumps(value)}"
            for field, value in change["set"].items()
        ]
    return told


def _objects(server: Server) -> Objects:
    return {plural: list(server.pages(f"/{plural}")) for plural in KINDS}


def _place(field: Any, changes: list[dict[str, Any]]) -> str:
    """`changes[3].weight` as `class/batch.weight`."""
    match = re.match(r"changes\[(\d+)\]", str(field))
    if match is None or int(match[1]) >= len(changes):
        return str(field)
    change = changes[int(match[1])]
    return f"{change['kind']}/{change['slug']}{str(field)[match.end() :]}"


def _read(file: str) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise exits.Trouble(f"{file} is not text in UTF-8", exits.REFUSED) from error
    try:
        found = grammar.strict_json(text)
    except ValueError as error:
        found = _yaml(file, text, error)
    known = isinstance(found, dict) and set(found) <= set(KINDS)
    if not known or not all(isinstance(part, dict) for part in found.values()):
        raise exits.Trouble(f"{file}: a policy is an object of {', '.join(KINDS)}, each by name", exits.REFUSED)
    for plural, part in found.items():
        for slug, fields in part.items():
            if not isinstance(slug, str) or not isinstance(fields, dict):
                raise exits.Trouble(f"{file}: {plural}: {slug} must be an object with its settings", exits.REFUSED)
    return dict(found)


def _yaml(file: str, text: str, not_json: ValueError) -> Any:
    """The document where PyYAML is installed; its dates and the like become a refusal, as in JSON."""
    try:
        yaml = importlib.import_module("yaml")
    except ImportError:
        hint = "YAML other than JSON needs PyYAML beside this program."
        raise exits.Trouble(f"{file} is not JSON: {not_json}", exits.REFUSED, hint=hint) from not_json
    try:
        return grammar.strict_json(json.dumps(yaml.safe_load(text)))
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        place = " ".join(str(error).split())
        raise exits.Trouble(f"{file} is neither JSON nor YAML: {place}", exits.REFUSED) from error
