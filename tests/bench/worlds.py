"""Large snapshots for the planning benchmark: slots × lanes, with 200,000 tasks in flight as aggregated loads."""

from dispatch.core.types import MICRO, ClassPolicy, Head, Lane, Load, Policy, Slot, Snapshot, TenantPolicy

NOW = 10**9 * MICRO
IN_FLIGHT = 200_000
CLASSES, TENANTS = 4, 50


def snapshot(free: int, lanes: int, *, caps: bool = False) -> Snapshot:
    """`free` slots on workers of 4, `lanes` active lanes spread over 4 classes and 50 tenants."""
    return Snapshot(
        now=NOW,
        policy=Policy(
            classes={
                c: ClassPolicy(weight=w * MICRO, min=m) for c, w, m in ((1, 6, 20), (2, 3, 10), (3, 1, 0), (4, 1, 0))
            },
            tenants={t: TenantPolicy(weight=(1 + t % 3) * MICRO, max=IN_FLIGHT) for t in range(1, TENANTS + 1)},
        ),
        slots=tuple(_slots(free, caps)),
        lanes=tuple(_lane(i, max(4, min(free, 20_000 // lanes)), caps) for i in range(lanes)),
        loads=tuple(_loads(lanes)),
    )


def _slots(free: int, caps: bool) -> list[Slot]:
    sizes = [4] * (free // 4) + ([free % 4] if free % 4 else [])
    gpu, plain = frozenset({"code", "gpu"}), frozenset({"code"})
    offers = [gpu if caps and i % 5 == 0 else plain if caps else frozenset() for i in range(len(sizes))]
    return [
        Slot(id=i, worker=i, slots=8, free=n, caps=offer, load=(i * 7919 % 100) * MICRO)
        for i, (n, offer) in enumerate(zip(sizes, offers, strict=True))
    ]


def _key(i: int) -> tuple[int, int, int]:
    return (1 + i % CLASSES, 1 + i // CLASSES % TENANTS, 1 + i // (CLASSES * TENANTS))


def _lane(i: int, heads: int, caps: bool) -> Lane:
    work_class, tenant, user = _key(i)
    needs = frozenset({"gpu"} if caps and i % 10 == 0 else {"code"} if caps else ())
    return Lane(
        id=i,
        work_class=work_class,
        tenant=tenant,
        user=user,
        caps=needs,
        queued=1000,
        heads=tuple(
            Head(id=i * 100_000 + n, enqueued_at=NOW - (i * 31 % 1000 + 1000 - n) * MICRO, est=(5 + i % 20) * MICRO)
            for n in range(heads)
        ),
    )


def _loads(lanes: int) -> list[Load]:
    each, rest = divmod(IN_FLIGHT, lanes)
    keys = [_key(i) for i in range(lanes)]
    return [Load(work_class=c, tenant=t, user=u, running=each + (i < rest)) for i, (c, t, u) in enumerate(keys)]
