"""Expectations of a scenario: a path into the report, an operator, a value.

`{"metric": "share.class:critical", "op": "approx", "value": 0.6, "tol": 0.01}`; operators approx, <=, >=, ==, between.
A path is dotted; "ratio:a|b" divides two of them, "sum:a|b|…" adds them. What is missing counts 0.
Three things are expected of every run: no limit broken, no impossible assignment, no idle slot beside startable work.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from dispatch.core.sim.report import Report
from dispatch.core.sim.scenario import Scenario

SLACK = 1e-9  # floating-point noise of the report


class Check(NamedTuple):
    """One expectation and what became of it."""

    metric: str
    got: float
    wanted: str
    holds: bool


ALWAYS: tuple[Mapping[str, Any], ...] = tuple(
    {"metric": metric, "op": "==", "value": 0}
    for metric in ("violations.cap", "violations.invalid", "violations.work_conservation", "double_completions")
)


def check(scenario: Scenario, report: Report) -> list[Check]:
    """Every expectation of the scenario, and those that always hold."""
    return [_check(report, expectation) for expectation in (*scenario.expect, *ALWAYS)]


def _check(report: Report, expectation: Mapping[str, Any]) -> Check:
    got = value(report, expectation["metric"])
    tolerance = f" ±{expectation['tol']}" if "tol" in expectation else ""
    wanted = f"{expectation['op']} {expectation['value']}{tolerance}"
    return Check(expectation["metric"], got, wanted, _holds(got, expectation))


def _holds(got: float, expectation: Mapping[str, Any]) -> bool:
    want = expectation["value"]
    match expectation["op"]:
        case "approx":
            return bool(abs(got - want) <= expectation["tol"])
        case "<=":
            return bool(got <= want + SLACK)
        case ">=":
            return bool(got >= want - SLACK)
        case "==":
            return bool(got == want)
        case "between":
            return bool(want[0] - SLACK <= got <= want[1] + SLACK)
    raise ValueError(f"unknown operator {expectation['op']}")


def value(report: Report, path: str) -> float:
    """The number at a path of the report."""
    if path.startswith("ratio:"):
        above, below = path.removeprefix("ratio:").split("|")
        divisor = value(report, below)
        return value(report, above) / divisor if divisor else float("inf")
    if path.startswith("sum:"):
        return sum(value(report, part) for part in path.removeprefix("sum:").split("|"))
    here: Any = report
    for part in path.split("."):
        if isinstance(here, Mapping):
            here = here.get(part, 0)
        elif isinstance(here, (list, tuple)):
            here = here[int(part)] if int(part) < len(here) else 0
        else:
            return 0
    return float(here)
