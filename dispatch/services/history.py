"""The past of the queues, from the reconciler's samples: what the charts of the console draw."""

from collections.abc import Mapping
from typing import Any

from dispatch.errors import Invalid
from dispatch.services import access, audit_text
from dispatch.services.messages import Caller
from dispatch.store import db

SPANS: Mapping[str, tuple[int, int]] = {"15m": (900, 10)}  #: name → length and step in seconds
LINES = ("oldest", "queued", "running", "dispatched", "arrived", "share")

Line = list[float | None]


def series(
    caller: Caller, pool: str, span: str, work_class: str | None = None, tenant: str | None = None
) -> dict[str, Any]:
    """Lines of a span, one value a step and oldest first, None where nothing was seen (scope `read`).

    `classes` maps a class to its `slo_s` and LINES: `oldest` wait in seconds, tasks `queued` and `running` (means),
    `dispatched` and `arrived` a second, `share` of what ran. `end` is when the last step ends (ms since 1970);
    `marks` are changes of the policy. The samples of a whole class are those of all tenants: who does not see them all
    gets a tenant's only.
    """
    access.require(caller, "read")
    if span not in SPANS:
        raise Invalid(("span", f"must be one of {', '.join(SPANS)}"))
    length_s, step_s = SPANS[span]
    tenant_id = access.narrow(caller, tenant).tenant_id
    answer: dict[str, Any] = {"step_s": step_s, "classes": {}, "marks": [], "end": 0}
    with db.atomic():
        now = db.rows("series_end")[0]["now"]
        answer["end"] = (now // (step_s * 1000) + 1) * step_s * 1000
        if tenant_id is None and not access.everywhere(caller):
            return answer
        asked = {"pool": pool, "span_s": length_s, "step_s": step_s, "tenant_id": tenant_id, "class": None}
        rows = db.rows("series", asked)
        answer["marks"] = _marks(caller, length_s)
    steps = length_s // step_s
    answer["classes"] = _lines(rows, steps, step_s)
    if work_class is not None:
        answer["classes"] = {slug: one for slug, one in answer["classes"].items() if slug == work_class}
    return answer


def _lines(rows: list[dict[str, Any]], steps: int, step_s: int) -> dict[str, Any]:
    found: dict[str, dict[str, Any]] = {}
    running: Line = [None] * steps
    for row in sorted(rows, key=lambda row: -row["back"]):
        place = steps - 1 - row["back"]
        if not 0 <= place < steps:
            continue
        one = found.setdefault(row["slug"], {"slo_s": row["slo_queue_s"], **{name: [None] * steps for name in LINES}})
        one["oldest"][place] = _short(row["oldest_age_s"])
        one["queued"][place], one["running"][place] = _short(row["queued"]), _short(row["running"])
        seen_s = min(step_s, max(1, row["samples"]))
        one["dispatched"][place] = _short(row["dispatched"] / seen_s)
        if (before := one.get("queued_last")) is not None:  # what came in is what left plus what the queue grew by
            one["arrived"][place] = _short(max(0.0, row["queued_last"] - before + row["dispatched"]) / seen_s)
        one["queued_last"] = row["queued_last"]
        running[place] = (running[place] or 0) + row["running"]
    for one in found.values():
        one.pop("queued_last", None)
        one["share"] = [
            _short(part / whole) if part is not None and whole else None
            for part, whole in zip(one["running"], running, strict=True)
        ]
    return found


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _marks(caller: Caller, span_s: int) -> list[dict[str, Any]]:
    rows = db.rows("queue_marks", {"span_s": span_s, "tenants": access.visible_tenants(caller)})
    return [
        {"at": round(row["at"].timestamp() * 1000), "text": f"{audit_text.sentence(row)}, {row['actor_name']}"}
        for row in rows
    ]


def dead_kinds(caller: Caller, pool: str) -> dict[str, int]:
    """`groups` of dead letters by what they died of, and `new_1h`, those that began within the last hour."""
    found = db.one("numbers_dead_kinds", {"pool": pool, "tenants": access.visible_tenants(caller)})
    return found or {"groups": 0, "new_1h": 0}
