"""Several edits of the policy at once, all or nothing; the versions of the whole policy, and going back to one.

A version is the number of the audit entry of an edit: list them, name one, and `restore` makes every object again what
it was right after it, as edits of now (each with its audit entry and history row). Objects made since stay as they are
and are told; objects taken away since come back. Pauses and cooldowns are events, not settings: they stay.
`version`, where given, must still be the newest one, so that nobody overwrites what they have not seen.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from dispatch.core import validate
from dispatch.errors import EvenflowError, Invalid, NotFound, VersionConflict
from dispatch.services import access, audit, paging, policy
from dispatch.services.messages import Caller, Page
from dispatch.store import db
from dispatch.store import policy as store

ORDER = ("pool", "class", "tenant", "tool")
KEPT = frozenset({"paused", "cooldown_until"})
MOST = 200  # edits in one set


class _Rollback(Exception):
    """A dry run ends."""


def list_versions(caller: Caller, limit: int = 100, cursor: str | None = None) -> Page:
    """Edits of the policy newest first (`read` for the whole installation).

    Items: {"version", "at", "actor", "action", "kind", "slug", "reason", "before", "after"}.
    """
    access.require_everywhere(caller, "read")
    limit = paging.check_limit(limit)
    below = paging.decode("policy_versions", cursor)[0] if cursor else 2**63 - 1
    found = db.rows("list_policy_versions", {"below": below, "limit": limit + 1})
    return paging.page("policy_versions", found, limit, lambda row: [row["version"]])


def apply(
    caller: Caller, changes: Sequence[Mapping[str, Any]], reason: str, *, dry_run: bool = False
) -> dict[str, Any]:
    """Make edits {"kind", "slug", "version", "set"} together (scope `operate`): {"version", "warnings"}.

    Version 0 makes an object that is not there yet.
    Raises Invalid with `changes[i].field` names, VersionConflict. With `dry_run` everything is judged, nothing kept.
    """
    warnings: list[dict[str, str]] = []
    try:
        with audit.refusals(caller, "apply_policy", "policy", ""), db.atomic():
            access.require_everywhere(caller, "operate")
            warnings = make(caller, changes, reason)
            version = newest()
            if dry_run:
                raise _Rollback
    except _Rollback:
        return {"version": newest(), "warnings": warnings}
    return {"version": version, "warnings": warnings}


def make(caller: Caller, changes: Sequence[Mapping[str, Any]], reason: str) -> list[dict[str, str]]:
    """The edits of `apply` inside the caller's transaction; the warnings."""
    if not 1 <= len(changes) <= MOST:
        raise Invalid(("changes", f"must be 1 to {MOST} edits"))
    return _all(caller, [dict(change) for change in changes], reason)


def restore(caller: Caller, version: int, reason: str, seen: int | None = None) -> dict[str, Any]:
    """Make the policy what it was right after a version: {"version", "changed", "revived", "made_since", "warnings"}.

    `seen`: the newest version that the caller knows. Raises NotFound, VersionConflict, Invalid (nothing is changed).
    """
    with audit.refusals(caller, "restore_policy", "policy", version), db.atomic():
        access.require_everywhere(caller, "operate")
        if problem := validate.text(reason, 1, audit.REASON_LENGTH):
            raise Invalid(("reason", problem))
        at = db.one("policy_version", {"version": version}) if 0 < version < 2**63 else None
        if at is None:
            raise NotFound("There is no such version of the policy.")
        if seen is not None and newest() != seen:
            raise VersionConflict(f"The policy has version {newest()} by now.", current={"version": newest()})
        edits, revived, since = _differences(at["at"])
        for kind, slug, fields in revived:
            policy.create(caller, kind, slug, fields, reason)
        warnings = _all(caller, edits, reason)
        told = {
            "changed": [f"{edit['kind']}/{edit['slug']}" for edit in edits],
            "revived": [f"{kind}/{slug}" for kind, slug, _ in revived],
            "made_since": since,
        }
        audit.record(caller, "restore_policy", "policy", version, after=told, reason=reason)
        return told | {"version": newest(), "warnings": warnings}


def newest() -> int:
    """The number of the newest version; 0 before the first edit."""
    return int(db.tuples("newest_policy_version")[0][0])


def _all(caller: Caller, edits: list[dict[str, Any]], reason: str) -> list[dict[str, str]]:
    """Make all edits, in any order that the rules between objects permit; the first refusal when none goes."""
    warnings: list[dict[str, str]] = []
    left = list(enumerate(edits))
    while left:
        refused: list[tuple[int, dict[str, Any], EvenflowError]] = []
        for index, edit in left:
            try:
                with db.atomic():
                    done = _one(caller, edit, reason)
                where = f"changes[{index}]."
                warnings += [{"field": where + one["field"], "message": one["message"]} for one in done["warnings"]]
            except Invalid as refusal:
                refused.append((index, edit, refusal))
        if len(refused) == len(left):
            index, _, error = refused[0]
            assert isinstance(error, Invalid)
            raise Invalid(*[(f"changes[{index}].{one['field']}", one["message"]) for one in error.errors])
        left = [(index, edit) for index, edit, _ in refused]
    return warnings


def _one(caller: Caller, edit: Mapping[str, Any], reason: str) -> dict[str, Any]:
    kind, slug, fields = edit["kind"], edit["slug"], dict(edit["set"])
    if edit["version"] == 0:
        return policy.create(caller, kind, slug, fields, reason)
    return policy.patch(caller, kind, slug, edit["version"], fields, reason)


Revived = tuple[str, str, dict[str, Any]]


def _differences(at: Any) -> tuple[list[dict[str, Any]], list[Revived], list[str]]:
    """Edits that lead back to a moment, objects to bring back, and names of those made since."""
    edits, revived, since = [], [], []
    for kind in ORDER:
        names = [name for name, field in validate.FIELDS[kind].items() if not field.fixed and name not in KEPT]
        then = store.as_of(kind, at)
        for row in store.every(kind):
            old = then.get(row.pk)
            if old is None or old.archived_at is not None:
                since += [f"{kind}/{row.slug}"] if row.archived_at is None else []
                continue
            values = {name: getattr(old, name) for name in names}
            if row.archived_at is not None:
                fixed = {"pool": row.pool.slug} if kind == "class" else {}
                revived.append((kind, row.slug, values | fixed))
                continue
            changed = {name: value for name, value in values.items() if getattr(row, name) != value}
            if changed:
                edits.append({"kind": kind, "slug": row.slug, "version": row.version, "set": changed})
    return edits, revived, since
