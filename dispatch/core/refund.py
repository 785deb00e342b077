"""Taking back assignments that could not be written: the task was cancelled or taken between snapshot and write."""

from collections.abc import Collection
from dataclasses import replace

from dispatch.core.cost import SCALE
from dispatch.core.matching import Fleet, Place, shared_deficits
from dispatch.core.memory import Memory
from dispatch.core.quota import NO_CLASS, NO_TENANT, NO_USER
from dispatch.core.types import MICRO, Id, Lane, Plan, Snapshot


def refund(snapshot: Snapshot, memory: Memory, plan: Plan, taken: Collection[Id]) -> Plan:
    """The plan without the assignments of the tasks in `taken`, nothing of them charged.

    Call it with the snapshot and the still uncommitted memory of `plan`, before memory.changes(). Virtual times go back
    exactly; worker deficits are shared out again without them.
    """
    lost = set(taken)
    if not lost:
        return plan
    lanes = {lane.id: lane for lane in snapshot.lanes}
    for assignment in plan.assignments:
        if assignment.task in lost:
            _uncharge(snapshot, memory, lanes[assignment.lane], assignment.charged)
    kept = tuple(a for a in plan.assignments if a.task not in lost)
    fleet = Fleet(snapshot.slots, [lane for lane in snapshot.lanes if lane.heads])
    places: dict[Id, Place] = {place.id: place for group in fleet.groups for place in group.places}
    placed = [(fleet.need(lanes[a.lane]), places[a.session], a.charged) for a in kept]
    return replace(
        plan,
        assignments=kept,
        deficits=shared_deficits(fleet.groups, placed, memory.scalars.cmax),
        picks=tuple(pick for pick in plan.picks if pick.task not in lost),
    )


def _uncharge(snapshot: Snapshot, memory: Memory, lane: Lane, cost: int) -> None:
    policy = snapshot.policy
    steps = (
        ("c", lane.work_class, policy.classes.get(lane.work_class, NO_CLASS).weight),
        ("t", lane.tenant, policy.tenants.get(lane.tenant, NO_TENANT).weight),
        ("u", lane.user, policy.users.get((lane.tenant, lane.user), NO_USER).weight),
    )
    account = memory.root
    for kind, key, weight in steps:
        account = memory.child(account, kind, key)
        memory.touch(account)
        account.vt -= cost * SCALE // (weight or MICRO)
