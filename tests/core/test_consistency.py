"""The rules between policy objects: what is refused where, what is only doubted, what is left alone."""

from typing import Any

import pytest

from dispatch.core.consistency import Setting, errors, promotion_slots, warnings

CLASS: dict[str, Any] = {
    "slug": "c",
    "weight": 1,
    "min": 0,
    "max": None,
    "level": 1,
    "aging_step_s": None,
    "max_wait_s": None,
    "slo_queue_s": None,
}
POOL: dict[str, Any] = {"slug": "p", "budget": 10, "promotion_slots": None}
TENANT: dict[str, Any] = {"slug": "t", "nominal": 0, "max": None, "cost_budget": None, "budget_window_s": None}


def fields(findings: list[tuple[str, str]]) -> list[str]:
    return [name for name, _ in findings]


@pytest.mark.parametrize(
    ("setting", "promoting", "slots", "expected"),
    [
        (None, False, 100, 0),
        (None, True, 100, 5),
        (None, True, 10, 1),
        (None, True, 0, 0),
        (0, True, 100, 0),
        (7, False, 100, 7),
    ],
)
def test_promotion_slots(setting: int | None, promoting: bool, slots: int, expected: int) -> None:
    classes = [CLASS | {"max_wait_s": 60}] if promoting else [CLASS]
    assert promotion_slots(POOL | {"promotion_slots": setting}, classes, slots) == expected


@pytest.mark.parametrize(
    ("kind", "changed", "pool", "minimums", "max_wait_s", "expected"),
    [
        ("class", {"min"}, {}, (6, 4), None, []),
        ("class", {"min"}, {}, (6, 5), None, ["min"]),
        ("class", {"weight"}, {}, (6, 5), None, []),
        ("class", {"min", "weight"}, {"budget": None}, (600, 5), None, []),
        ("class", {"max_wait_s"}, {}, (6, 4), 60, ["max_wait_s"]),
        ("class", {"max_wait_s"}, {}, (5, 4), 60, []),
        ("class", {"max_wait_s"}, {"promotion_slots": 0}, (6, 4), 60, ["max_wait_s"]),
        ("class", {"weight"}, {"promotion_slots": 0}, (6, 4), 60, []),
        ("pool", {"promotion_slots"}, {"promotion_slots": 0}, (6, 4), 60, ["promotion_slots"]),
        ("pool", {"promotion_slots"}, {"promotion_slots": 2}, (6, 3), None, ["promotion_slots"]),
        ("pool", {"budget"}, {"budget": 8}, (6, 3), None, ["budget"]),
        ("pool", {"budget"}, {"budget": 0}, (0, 0), 60, []),
    ],
)
def test_floors_and_promotion(
    kind: str,
    changed: set[str],
    pool: dict[str, Any],
    minimums: tuple[int, ...],
    max_wait_s: float | None,
    expected: list[str],
) -> None:
    classes = [CLASS | {"min": least, "max_wait_s": max_wait_s} for least in minimums]
    setting = Setting(pool=POOL | pool, pools=[POOL | pool], classes=classes)
    assert fields(errors(kind, frozenset(changed), setting)) == expected


@pytest.mark.parametrize(
    ("budgets", "nominals", "changed", "expected"),
    [
        ((10,), (5, 5), {"nominal"}, []),
        ((10,), (5, 6), {"nominal"}, ["nominal"]),
        ((10,), (5, 6), {"budget"}, ["budget"]),
        ((10,), (5, 6), {"weight"}, []),
        ((10, 20), (5, 6), {"nominal"}, []),
        ((10, None), (50, 60), {"nominal"}, []),
    ],
)
def test_nominal_quotas(
    budgets: tuple[int | None, ...], nominals: tuple[int, ...], changed: set[str], expected: list[str]
) -> None:
    pools = [POOL | {"budget": budget} for budget in budgets]
    setting = Setting(pools=pools, tenants=[TENANT | {"nominal": nominal} for nominal in nominals])
    assert fields(errors("tenant", frozenset(changed), setting)) == expected


@pytest.mark.parametrize(
    ("kind", "value", "more", "expected"),
    [
        ("class", CLASS, {}, []),
        ("class", CLASS | {"max": 0}, {}, ["max"]),
        ("class", CLASS | {"max": 2}, {"running": 3}, ["max"]),
        ("class", CLASS | {"max": 3}, {"running": 3}, []),
        ("class", CLASS | {"weight": 0}, {}, ["weight"]),
        ("class", CLASS | {"weight": 0, "min": 1}, {}, []),
        ("class", CLASS | {"weight": 0, "max_wait_s": 5}, {}, []),
        ("class", CLASS | {"level": 2}, {}, ["level"]),
        ("class", CLASS | {"level": 2, "aging_step_s": 5}, {}, []),
        ("class", CLASS | {"max_wait_s": 9, "slo_queue_s": 5}, {}, ["max_wait_s"]),
        ("class", CLASS | {"min": 5}, {"tenants": [TENANT | {"max": 2}, TENANT | {"max": 2}]}, ["min"]),
        ("class", CLASS | {"min": 5}, {"tenants": [TENANT | {"max": 2}, TENANT]}, []),
        ("class", CLASS | {"min": 5}, {"live_slots": 4, "classes": [CLASS | {"min": 5}]}, ["min"]),
        ("class", CLASS | {"min": 5}, {"live_slots": 0, "classes": [CLASS | {"min": 5}]}, []),
        ("pool", POOL, {"live_slots": 4, "classes": [CLASS | {"min": 5}]}, ["budget"]),
        ("pool", POOL | {"budget": 0}, {}, ["budget"]),
        ("tenant", TENANT | {"nominal": 5}, {"classes": [CLASS | {"max": 2}, CLASS | {"max": 2}]}, ["nominal"]),
        ("tenant", TENANT | {"max": 3}, {"user_maxima": {"ann": 4, "bob": 2}}, ["max"]),
        ("tenant", TENANT | {"cost_budget": 3}, {}, ["cost_budget"]),
        ("tool", {"slug": "x", "max": 0}, {}, ["max"]),
        ("capability", {"slug": "x"}, {}, []),
    ],
)
def test_warnings(kind: str, value: dict[str, Any], more: dict[str, Any], expected: list[str]) -> None:
    assert fields(warnings(kind, value, Setting(pool=POOL, **more))) == expected
