"""The leader of a pool in a test: cycles on demand, in the test's own transaction and process."""

from dispatch.services import dispatch
from dispatch.store import snapshot
from tests import fleet


def forget() -> None:
    """Lanes and capability sets that this process met in another test's database."""
    snapshot._lanes.clear()
    snapshot._capsets.clear()


class Leader:
    """Takes the lead of one pool when it is made: whoever led before is deposed."""

    def __init__(self, pool: str = "default") -> None:
        self.pool = fleet.pool_id(pool)
        fleet.sql("UPDATE pool_leader SET epoch = epoch + 1 WHERE pool_id = %s", self.pool)
        self.epoch = fleet.value("SELECT epoch FROM pool_leader WHERE pool_id = %s", self.pool)
        self.memory = dispatch.load_memory(self.pool)

    def cycle(self) -> dispatch.Cycle:
        """One cycle."""
        return dispatch.cycle(self.pool, self.epoch, self.memory)

    def run(self) -> int:
        """Cycles until none makes progress; how many tasks were offered."""
        total = 0
        for _ in range(50):
            done = self.cycle()
            total += done.assigned
            if not done.more:
                return total
        raise AssertionError("the dispatcher never came to rest")


def park(session: int, most: int = 1000) -> int:
    """A claim that finds nothing and waits: its demand row."""
    answer = fleet.ask(session, most, wait_s=10)
    assert answer.leases == []
    return int(answer.demand_id)


def running(column: str = "tenant_id", pool: str | None = None) -> dict[str, int]:
    """What runs (offers included), by tenant or by class, in one pool or in all."""
    table = "tenant" if column == "tenant_id" else "work_class"
    return dict(
        fleet.sql(
            "SELECT x.slug, count(*) FROM lease l JOIN lane a ON a.id = l.lane_id JOIN pool p ON p.id = a.pool_id"
            f" JOIN {table} x ON x.id = a.{column} WHERE %s::text IS NULL OR p.slug = %s GROUP BY 1",
            pool,
            pool,
        )
    )
