"""Scheduling policies by name. A new one: a module with `plan(snapshot, memory) -> Plan` and one line here.

The conformance suite (tests/core/test_conformance.py) runs every registered policy.
"""

from collections.abc import Mapping
from typing import Protocol

from dispatch.core.memory import Memory
from dispatch.core.policies import fair, reserved, strict
from dispatch.core.types import Plan, Snapshot


class Planner(Protocol):
    """One cycle: decides, changes only the open transaction of `memory`, reads nothing else."""

    def __call__(self, snapshot: Snapshot, memory: Memory) -> Plan:
        """The plan for this snapshot."""


registry: Mapping[str, Planner] = {
    "fair": fair.plan,
    "strict": strict.plan,
    "reserved": reserved.plan,
}


def judged(name: str, snapshot: Snapshot) -> tuple[Snapshot, Planner]:
    """The snapshot with the limits as this policy reads them, and the planner for it: what explain judges by."""
    return (reserved.effective(snapshot), fair.plan) if name == "reserved" else (snapshot, registry[name])
