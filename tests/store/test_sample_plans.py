"""Plans over three months of samples: a line costs its points, not the history."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from tests import fleet
from tests.plans import plan_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def history() -> int:
    """20,000 lines of samples of 15 minutes, and 8,000 of the other steps."""
    fleet.sql(
        "INSERT INTO queue_sample (at, step, pool_id, class_id, queued, running, dispatched)"
        " SELECT now() - make_interval(secs => 900 * n), 900, %s, c, 1, 1, 1 FROM generate_series(1, 4000) n,"
        " generate_series(1, 5) c",
        fleet.pool_id(),
    )
    fleet.sql(
        "INSERT INTO queue_sample (at, step, pool_id, class_id, queued, running, dispatched)"
        " SELECT now() - make_interval(secs => s * n), s, %s, 1, 1, 1, 1 FROM generate_series(1, 2000) n,"
        " unnest('{1,10,60}'::int[]) s",
        fleet.pool_id(),
    )
    fleet.sql("ANALYZE queue_sample")
    return fleet.pool_id()


def test_a_line_reads_its_span_by_index(history: int) -> None:
    now = timezone.now()
    asked: dict[str, Any] = {"pool_id": history, "by": "class", "tenants": None, "until": now}
    for step, span in ((1, 60), (10, 600), (60, 3600), (900, 86400)):
        plan = plan_of("sample_series", {**asked, "step": step, "bin_s": step, "since": now - timedelta(seconds=span)})
        assert "Seq Scan" not in plan, plan
        assert "sample_at" in plan or "sample_line" in plan, plan


def test_roll_ups_and_retention_read_what_is_due(history: int) -> None:
    plan = plan_of("roll_up_samples", {"source": 60, "target": 900, "most": 500})
    assert "Seq Scan on queue_sample" not in plan, plan
    plan = plan_of("drop_old_samples", {"step": 60, "keep_s": 100_000, "next": 900})
    assert "Seq Scan on queue_sample" not in plan, plan
