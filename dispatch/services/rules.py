"""The rules behind alerts: what the detectors can be told, for everything or for one class, by operators.

A rule that nobody changed has no row and version 0. Values that are not set for a class are the rule's own.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from django.db.models.functions import Now

from dispatch.core import validate
from dispatch.core.detectors import RULES, Dials, Rule
from dispatch.errors import Invalid, NotFound, VersionConflict
from dispatch.models import AlertRule, WorkClass
from dispatch.services import access, audit
from dispatch.services.messages import Caller
from dispatch.store import db

MISSING = "There is no such rule."


def list_rules(caller: Caller) -> list[dict[str, Any]]:
    """All rules (scope `read`) with their thresholds, what is set, and what is set for single classes."""
    access.require(caller, "read")
    stored = _stored()
    return [_shown(rule, stored[rule.name]) for rule in RULES.values()]


def get_rule(caller: Caller, name: str) -> dict[str, Any]:
    """One rule as in the list."""
    access.require(caller, "read")
    return _shown(_rule(name), _stored()[name])


def patch_rule(
    caller: Caller,
    name: str,
    version: int,
    changes: Mapping[str, Any],
    reason: str,
    work_class: str | None = None,
) -> dict[str, Any]:
    """Set `thresholds` (a threshold of None: back to the default) and `enabled`, of a rule or of it for one class.

    Needs `operate` everywhere and the `version` that was read (of the rule, or of its line for that class).
    """
    target = name if work_class is None else f"{name}/{work_class}"
    with audit.refusals(caller, "patch_rule", "rule", target), db.atomic():
        access.require_everywhere(caller, "operate")
        rule = _rule(name)
        of = _class(rule, work_class)
        _check(rule, changes, reason)
        row, _ = AlertRule.objects.get_or_create(rule=name, work_class=of, defaults={"version": 0})
        row = AlertRule.objects.select_for_update().get(pk=row.pk)
        before = {"enabled": row.enabled, "thresholds": row.thresholds}
        if row.version != version:
            current = _shown(rule, _stored()[name])
            raise VersionConflict(f"The rule {target} has version {row.version} by now.", current=current)
        merged = row.thresholds | dict(changes.get("thresholds", {}))
        after = {
            "enabled": changes.get("enabled", row.enabled),
            "thresholds": {key: value for key, value in merged.items() if value is not None},
        }
        AlertRule.objects.filter(pk=row.pk).update(
            **after, version=version + 1, updated_at=Now(), updated_by=caller.name
        )
        audit.record(caller, "patch_rule", "rule", target, before, after, reason)
        return _shown(rule, _stored()[name])


def dials(open_subjects: Mapping[str, frozenset[str]]) -> dict[str, Dials]:
    """What each rule is told, by name; `open_subjects`: what is open of each."""
    stored = _stored()
    return {name: made(rule, stored[name], open_subjects.get(name, frozenset())) for name, rule in RULES.items()}


def made(rule: Rule, rows: list[AlertRule], open_subjects: frozenset[str] = frozenset()) -> Dials:
    """The dials of one rule out of what is stored of it."""
    general = next((row for row in rows if row.work_class_id is None), None)
    single = {row.work_class_id: row for row in rows if row.work_class_id is not None}
    return rule.dials(
        classes={class_id: row.thresholds for class_id, row in single.items()},
        off=frozenset([None] if general and not general.enabled else [])
        | frozenset(class_id for class_id, row in single.items() if not row.enabled),
        open_subjects=open_subjects,
        changed=general.thresholds if general else {},
    )


def stored(name: str) -> list[AlertRule]:
    """The rows of one rule."""
    return _stored()[name]


def _stored() -> dict[str, list[AlertRule]]:
    found: dict[str, list[AlertRule]] = defaultdict(list)
    for row in AlertRule.objects.select_related("work_class").order_by("rule", "work_class__slug"):
        found[row.rule].append(row)
    return found


def _rule(name: str) -> Rule:
    if name not in RULES:
        raise NotFound(MISSING)
    return RULES[name]


def _class(rule: Rule, slug: str | None) -> WorkClass | None:
    if slug is None:
        return None
    if "class" not in rule.scope:
        raise Invalid(("class", f"this rule is about a {rule.scope}"))
    found = WorkClass.objects.filter(slug=slug, archived_at=None).first() if validate.is_slug(slug) else None
    if found is None:
        raise Invalid(("class", "there is no such class"))
    return found


def _check(rule: Rule, changes: Mapping[str, Any], reason: str) -> None:
    problems = [("body", "name thresholds or enabled")] if not changes else []
    if problem := validate.text(reason, 1, audit.REASON_LENGTH):
        problems.append(("reason", problem))
    if "enabled" in changes and (problem := validate.boolean(changes["enabled"])):
        problems.append(("enabled", problem))
    if found := threshold_problems(rule, changes.get("thresholds", {}), null=True):
        problems += found
    if problems:
        raise Invalid(*problems)


def threshold_problems(rule: Rule, values: Mapping[str, Any], *, null: bool = False) -> list[tuple[str, str]]:
    """What is wrong with thresholds, by field; `null` permits None."""
    known = {one.name: one for one in rule.thresholds}
    problems = []
    for name, value in values.items():
        if name not in known:
            problems.append((f"thresholds.{name}", f"is not a threshold of {rule.name}"))
        elif not (null and value is None) and (problem := validate.whole(value, known[name].low, known[name].high)):
            problems.append((f"thresholds.{name}", problem))
    return problems


def _shown(rule: Rule, rows: list[AlertRule]) -> dict[str, Any]:
    general = next((row for row in rows if row.work_class_id is None), None)
    now = made(rule, rows).defaults
    return {
        "rule": rule.name,
        "scope": rule.scope,
        "text": rule.text,
        "replays": rule.replays,
        "enabled": general is None or general.enabled,
        "version": general.version if general else 0,
        "thresholds": [
            {
                **{field: getattr(one, field) for field in ("name", "default", "low", "high", "text")},
                "value": now[one.name],
            }
            for one in rule.thresholds
        ],
        "classes": [
            {
                "class": row.work_class.slug,
                "enabled": row.enabled,
                "version": row.version,
                "thresholds": dict(row.thresholds),
            }
            for row in rows
            if row.work_class is not None
        ],
    }
