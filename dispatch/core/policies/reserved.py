"""Reserved only: every class may use its guaranteed minimum and nothing else; nothing is lent or borrowed.

Inside a class tenants and users share as under the fair policy. Idle reservations stay idle: choose it where a class
must find its slots free at once, whatever the others want.
"""

from dataclasses import replace

from dispatch.core.memory import Memory
from dispatch.core.policies import fair
from dispatch.core.quota import NO_CLASS
from dispatch.core.types import ClassPolicy, Id, Plan, Snapshot


def plan(snapshot: Snapshot, memory: Memory) -> Plan:
    """One cycle of the fair policy under reserved maxima."""
    return fair.plan(effective(snapshot), memory)


def effective(snapshot: Snapshot) -> Snapshot:
    """The same snapshot with every class limited to its minimum; a class without one runs nothing."""
    policy = snapshot.policy
    classes = {key: _reserved(policy.classes.get(key, NO_CLASS)) for key in _classes(snapshot)}
    return replace(snapshot, policy=replace(policy, classes=classes))


def _classes(snapshot: Snapshot) -> list[Id]:
    return sorted({*snapshot.policy.classes, *(lane.work_class for lane in snapshot.lanes)})


def _reserved(policy: ClassPolicy) -> ClassPolicy:
    most = policy.min if policy.max is None else min(policy.min, policy.max)
    return replace(policy, max=most, lend=None)
