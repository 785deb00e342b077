"""/metrics: who may read it, what it says, that it parses, and that names in dashboard and rules exist."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import LazySettings
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from dispatch.models import Alert
from dispatch.services import keys, metrics, sampling, slo
from tests import fleet
from tests.fleet import ROOT
from tests.services.test_sampling import pass_time

pytestmark = pytest.mark.django_db
DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
NAMES = {  # the ones that others build on
    *(
        "evenflow_queue_depth",
        "evenflow_queue_oldest_age_seconds",
        "evenflow_queue_wait_seconds",
        "evenflow_dispatches",
    ),
    *("evenflow_share_target_ratio", "evenflow_share_achieved_ratio", "evenflow_deficit_credits", "evenflow_reclaims"),
    *("evenflow_dead_letters", "evenflow_worker_slots", "evenflow_lease_renewals", "evenflow_dispatch_cycle_seconds"),
    *("evenflow_alerts_firing", "evenflow_slots_wanted"),
}


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    fleet.world()
    metrics.forget()
    slo.forget()
    sampling._workers.clear()
    sampling._rest_until.clear()
    yield
    metrics.forget()


def scrape(*scopes: str, tenant: str | None = None) -> dict[str, dict[tuple[str, ...], float]]:
    """The samples by metric (with its suffix) and values of the labels in the order of their names."""
    made = keys.create_key(ROOT, name="prometheus", scopes=scopes or ("read",), tenant=tenant)
    answer = Client().get("/metrics", headers={"authorization": f"Bearer {made['key']}"})
    assert answer.status_code == 200, answer.content
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(answer.content.decode()):
        found.setdefault(family.name, {})
        for sample in family.samples:
            labels = tuple(value for _, value in sorted(sample.labels.items()))
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


def test_the_numbers_are_those_of_the_rows() -> None:
    sampling.sample()
    session = fleet.join(slots=4, caps=("gpu",)).session_id
    one, two = fleet.put(2, capabilities=("gpu",))
    fleet.sql("UPDATE task SET queued_at = now() - interval '40 s', enqueued_at = now() - interval '40 s'")
    (lease,) = fleet.hold(session, one)
    fleet.beat(session, (one, lease.token), (two, 1))
    fleet.sql("INSERT INTO decision (pool_id, cycle_no, assigned, by_class, by_tier, picks) SELECT id, 1, 1, '{}',"
              " jsonb_build_object((SELECT id FROM work_class WHERE slug = 'critical') || '/'"
              " || (SELECT id FROM tenant WHERE slug = 'alpha') || '/G', 3), '[]' FROM pool")  # fmt: skip
    Alert.objects.create(rule="queue_slo", subject="class:critical", severity="warning", text="x", evidence={})
    pass_time(4)
    sampling.sample()
    found = scrape()
    assert found.keys() >= NAMES
    assert found["evenflow_queue_depth"]["critical", "queued", "alpha"] == 1
    assert found["evenflow_queue_depth"]["critical", "leased", "alpha"] == 1
    assert found["evenflow_queue_oldest_age_seconds"]["critical", "alpha"] == pytest.approx(44, abs=1)
    assert found["evenflow_dispatches_total"]["critical", "guarantee", "alpha"] == 3
    assert found["evenflow_queue_wait_seconds_count"]["critical",] == 1
    assert found["evenflow_queue_wait_seconds_bucket"]["critical", "60.0"] == 1
    assert found["evenflow_queue_wait_seconds_bucket"]["critical", "30.0"] == 0
    assert found["evenflow_slots_wanted"]["gpu", "default"] == 2
    assert found["evenflow_worker_slots"]["default", "busy"] == 1
    assert found["evenflow_worker_slots"]["default", "free"] == 3
    assert found["evenflow_alerts_firing"]["queue_slo",] == 1
    assert found["evenflow_lease_renewals_total"]["renewed",] >= 1
    assert found["evenflow_lease_renewals_total"]["lost",] >= 1
    assert found["evenflow_reclaims_total"]["lost",] == 0


def test_dead_letters_are_told_by_fingerprint_and_the_rest_together() -> None:
    fleet.put(3)
    fleet.sql("UPDATE task SET state = 5, queued_at = NULL, finished_at = now(), fingerprint = 'f' || mod(id, 2)")
    found = scrape()["evenflow_dead_letters"]
    assert sum(found.values()) == 3
    assert found["critical", "other"] == 0


def test_it_needs_a_key_that_reads_all_tenants(settings: LazySettings) -> None:
    assert Client().get("/metrics").status_code == 401
    for scopes, tenant in ((("work",), None), (("read",), "alpha")):
        made = keys.create_key(ROOT, name="x", scopes=scopes, tenant=tenant)
        answer = Client().get("/metrics", headers={"authorization": f"Bearer {made['key']}"})
        assert (answer.status_code, answer.json()["type"]) == (403, "forbidden")
    assert Client().get("/metrics", headers={"authorization": "Bearer ef_x_y"}).status_code == 401
    assert Client().post("/metrics").status_code == 405
    settings.EVENFLOW_METRICS_OPEN = True
    assert Client().get("/metrics").status_code == 200


def test_many_scrapes_cost_one_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    first = scrape()
    monkeypatch.setattr(metrics, "_read", None)  # a second reading would call it
    assert scrape().keys() == first.keys()
    metrics.forget()
    monkeypatch.undo()
    assert scrape().keys() == first.keys()


def test_dashboard_and_rules_ask_for_metrics_that_exist() -> None:
    known = scrape().keys()
    dashboard = json.loads((DEPLOY / "grafana" / "evenflow.json").read_text())
    texts = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    texts.append((DEPLOY / "prometheus" / "evenflow.rules.yml").read_text())
    asked = {name for text in texts for name in re.findall(r"evenflow_[a-z_]+", text)}
    missing = {name for name in asked if name not in known and re.sub(r"_(total|bucket)$", "", name) not in known}
    assert missing == set()
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def _promtool(*arguments: str) -> str:
    tool = shutil.which("promtool")
    if tool is None:
        if os.environ.get("CI"):
            pytest.fail("promtool is missing: install Debian's prometheus")
        pytest.skip("needs promtool, of Debian's package prometheus")
    done = subprocess.run([tool, *arguments], capture_output=True, text=True, timeout=60, cwd=DEPLOY / "prometheus")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_takes_rules_and_configuration_and_the_rules_fire() -> None:
    assert "SUCCESS" in _promtool("check", "rules", "evenflow.rules.yml")
    _promtool("check", "config", "--syntax-only", "prometheus.yml")
    _promtool("test", "rules", "evenflow.rules.test.yml")
