"""Hypothesis worlds: small policies, fleets, lanes and loads that leave no rule of the core untouched."""

import os

from hypothesis import strategies as st

from dispatch.core.types import (
    ClassPolicy,
    CostBudget,
    Head,
    Lane,
    Load,
    Policy,
    Slot,
    Snapshot,
    TenantPolicy,
    ToolPolicy,
    UserPolicy,
)
from tests.core.worlds import NOW, S

EXAMPLES = int(os.environ.get("EVENFLOW_EXAMPLES", "50"))  # per property; raise it for a long hunt

CAPSETS = [frozenset(), frozenset({"x"}), frozenset({"y"}), frozenset({"x", "y"}), frozenset({"z"})]
CLASSES, TENANTS, USERS, TOOLS = (1, 2, 3), (1, 2, 3, 4), (1, 2, 3), (1, 2)

weights = st.sampled_from([0, S // 2, S, S, 2 * S, 5 * S, 9 * S])
maximum = st.one_of(st.none(), st.none(), st.integers(0, 6))


@st.composite
def class_policies(draw):
    least = draw(st.sampled_from([0, 0, 0, 1, 2, 3]))
    most = draw(maximum)
    return ClassPolicy(
        weight=draw(weights),
        min=least if most is None else min(least, most),
        max=most,
        lend=draw(st.sampled_from([None, None, 0])) if most is None or most >= least else None,
        level=draw(st.sampled_from([1, 1, 2, 3])),
        aging_step=draw(st.sampled_from([None, 10 * S, 100 * S])),
        max_wait=draw(st.sampled_from([None, None, 30 * S])),
        paused=draw(st.sampled_from([False] * 9 + [True])),
    )


@st.composite
def tenant_policies(draw):
    return TenantPolicy(
        weight=draw(weights),
        nominal=draw(st.sampled_from([0, 0, 1, 2])),
        max=draw(maximum),
        borrow=draw(st.sampled_from([None, None, None, 1])),
        user_max=draw(st.sampled_from([None, None, 2])),
        class_max=draw(st.sampled_from([{}, {}, {}, {1: 1}, {1: 0, 2: 2}])),
        paused=draw(st.sampled_from([False] * 9 + [True])),
    )


@st.composite
def policies(draw):
    tools = st.builds(
        ToolPolicy,
        max=maximum,
        cooldown_until=st.sampled_from([None, None, NOW - S, NOW + 60 * S]),
        paused=st.sampled_from([False] * 9 + [True]),
    )
    return Policy(
        budget=draw(st.one_of(st.none(), st.integers(0, 12))),
        promotion_slots=draw(st.integers(0, 2)),
        user_max=draw(st.one_of(st.none(), st.integers(1, 4))),
        max_task_cost=draw(st.sampled_from([None, 50 * S])),
        paused=draw(st.sampled_from([False] * 19 + [True])),
        classes={c: draw(class_policies()) for c in CLASSES},
        tenants={t: draw(tenant_policies()) for t in TENANTS[:3]},
        users={(1, 1): UserPolicy(weight=draw(weights), max=draw(maximum))},
        tools={t: draw(tools) for t in TOOLS},
        cost_budgets=draw(cost_budgets()),
    )


@st.composite
def cost_budgets(draw):
    kinds = st.builds(
        CostBudget,
        tenant=st.sampled_from(TENANTS),
        left=st.sampled_from([-S, 0, S // 2, S, 5 * S, 25 * S, 1000 * S]),
        limit=st.just(1000 * S),
        work_class=st.sampled_from([None, None, 1]),
        user=st.sampled_from([None, None, 1]),
        spared=st.sampled_from([None, None, 3]),
        refused=st.booleans(),
    )
    return dict(enumerate(draw(st.lists(kinds, max_size=draw(st.sampled_from([0, 0, 3])))), 1))


@st.composite
def fleets(draw):
    slots = []
    for i in range(draw(st.integers(0, 6))):
        size = draw(st.integers(1, 3))
        slots.append(
            Slot(
                id=i + 1,
                worker=i // 2 + 1,
                slots=size,
                free=draw(st.integers(0, size)),
                caps=draw(st.sampled_from(CAPSETS)),
                weight=draw(st.sampled_from([S, S, 2 * S, 5 * S])),
                load=draw(st.integers(0, 3)) * 10 * S,
                tenant=draw(st.sampled_from([None] * 5 + [1])),
            )
        )
    return tuple(slots)


@st.composite
def lanes(draw, most=8):
    keys = draw(
        st.lists(
            st.tuples(
                st.sampled_from(CLASSES),
                st.sampled_from(TENANTS),
                st.sampled_from(USERS),
                st.sampled_from(range(len(CAPSETS))),
                st.sampled_from([(), (), (), (1,), (1, 2)]),
            ),
            unique=True,
            max_size=most,
        )
    )
    made = []
    for i, (work_class, tenant, user, caps, tools) in enumerate(keys, 1):
        ages = sorted(draw(st.lists(st.integers(0, 200), min_size=1, max_size=4)), reverse=True)
        heads = tuple(
            Head(
                id=i * 1000 + n,
                enqueued_at=NOW - age * S,
                est=draw(st.sampled_from([None, S, 10 * S, 100 * S])),
                avoid=draw(st.sampled_from([None, None, None, 1])),
            )
            for n, age in enumerate(ages)
        )
        made.append(
            Lane(
                id=i,
                work_class=work_class,
                tenant=tenant,
                user=user,
                caps=CAPSETS[caps],
                tools=tools,
                queued=len(heads) + draw(st.sampled_from([0, 0, 50])),
                heads=heads,
            )
        )
    return tuple(made)


@st.composite
def loads(draw):
    keys = draw(
        st.lists(
            st.tuples(
                st.sampled_from(CLASSES),
                st.sampled_from(TENANTS),
                st.sampled_from(USERS),
                st.sampled_from([(), (), (1,)]),
                st.integers(1, 3),
            ),
            max_size=4,
        )
    )
    return tuple(Load(work_class=c, tenant=t, user=u, tools=k, running=n) for c, t, u, k, n in keys)


@st.composite
def snapshots(draw):
    return Snapshot(now=NOW, policy=draw(policies()), slots=draw(fleets()), lanes=draw(lanes()), loads=draw(loads()))
