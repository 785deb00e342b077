"""What looks at failures every few seconds reads failed attempts only, however many succeeded."""

import pytest
from django.db import connection

from tests import fleet
from tests.plans import plan_of

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("statement", ["failing_streaks", "failing_types"])
def test_failures_are_found_without_a_scan_of_all_attempts(statement: str) -> None:
    fleet.world()
    held = fleet.held()
    fleet.end("complete", held.task, held.token)
    fleet.sql(
        "INSERT INTO attempt (task_id, token, attempt, pool_id, lane_id, session_id, worker_id, worker_name,"
        " granted_at, ended_at, outcome, counted, reason)"
        " SELECT task_id, token, attempt, pool_id, lane_id, session_id, worker_id,"
        " worker_name, granted_at, ended_at, CASE WHEN n %% 500 = 0 THEN 1 ELSE 0 END, false, ''"
        " FROM attempt, generate_series(1, 50000) n"
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE attempt")
    plan = plan_of(statement, {"threshold": 10})
    found = plan.split("CTE c")[0]
    assert "Seq Scan on attempt" not in found, plan
