"""The starvation drama: critical work never stops coming. Strict priority starves background work and the alerts name
it; the fair policy serves it and nothing rings. Services and PostgreSQL, on a clock that the test turns.
"""

import pytest

from dispatch.models import Alert
from dispatch.services import detection, numbers, policy, rules, sampling
from tests import fleet
from tests.fleet import ROOT
from tests.services.leader import Leader, forget, park
from tests.services.test_sampling import pass_time

pytestmark = pytest.mark.django_db
SLOTS = 4
WINDOW = {"thresholds": {"window_s": 20}}
SIGNS = {"queue_age_rising": {**WINDOW["thresholds"], "age_s": 15}, "near_zero_dispatch": WINDOW["thresholds"]}


class Drama:
    """Four slots, tasks of a second, four critical tasks a second and a background one every other second."""

    def __init__(self, name: str) -> None:
        forget()
        sampling._workers.clear()
        sampling._rest_until.clear()
        numbers._stopped.clear()
        fleet.world(classes=())
        for slug, weight in (("critical", 6), ("background", 1)):
            policy.create(ROOT, "class", slug, {"weight": weight, "slo_queue_s": 15})
        policy.patch(ROOT, "pool", "default", 1, {"policy": name}, "the drama")
        for rule, thresholds in SIGNS.items():
            rules.patch_rule(ROOT, rule, 0, {"thresholds": thresholds}, "a short drama")
        self.leader, self.session = Leader(), fleet.join(slots=SLOTS).session_id
        self.served = dict.fromkeys(("critical", "background"), 0)
        fleet.put(20)

    def second(self, number: int) -> None:
        """Submit, dispatch, work, let a second pass, sample; every five seconds the detectors look."""
        fleet.put(SLOTS)
        if number % 2 == 0:
            fleet.put(1, work_class="background")
        demand = park(self.session, SLOTS)
        self.leader.run()
        leases = fleet.ask(self.session, SLOTS, demand_id=demand).leases
        assert len(leases) == SLOTS, "no slot is ever idle"
        pass_time(1)
        sampling.sample()
        for lease in leases:
            self.served[lease.work_class] += 1
            fleet.ended("complete", lease.task_id, lease.token)
        if number % 5 == 4:
            detection.detect()

    def play(self, seconds: int) -> set[tuple[str, str]]:
        """So many seconds; what ever rang."""
        for number in range(seconds):
            self.second(number)
        return set(Alert.objects.values_list("rule", "subject"))


def test_strict_priority_starves_background_work_and_the_alerts_name_it() -> None:
    drama = Drama("strict")
    rang = drama.play(30)
    assert drama.served["background"] == 0
    assert rang >= {(rule, "class:background") for rule in (*SIGNS, "queue_slo")}
    assert not [subject for _, subject in rang if subject == "class:critical"]
    alert = Alert.objects.get(rule="queue_age_rising")
    assert alert.evidence["dispatched_before_it"]["critical"] >= 60


def test_under_the_fair_policy_nothing_rings() -> None:
    drama = Drama("fair")
    rang = drama.play(30)
    assert drama.served["background"] >= 12
    assert rang == set()
