"""Which alerts keep quiet: matchers, silences, inhibition."""

import pytest

from dispatch.core.alerting import DISPATCHER_LATE, NO_WORKERS, Mute, Open, matches, mutes, worse

WORDS = {"rule": "queue_slo", "subject": "class:background", "severity": "warning", "pool": "default"}
WORDS |= {"class": "background", "tenant": None}


def alert(id_: int, rule: str, pool_id: int | None = 1, **words: str) -> Open:
    return Open(id_, pool_id, {**WORDS, "rule": rule, **words})


@pytest.mark.parametrize(
    ("matcher", "fits"),
    [
        ({"rule": "queue_slo"}, True),
        ({"rule": "queue_*"}, True),
        ({"rule": "queue"}, False),
        ({"subject": "class:*", "severity": "warning"}, True),
        ({"subject": "class:*", "severity": "critical"}, False),
        ({"class": "background", "pool": "default"}, True),
        ({"tenant": "alpha"}, False),
        ({"tenant": "*"}, False),
    ],
)
def test_all_words_of_a_matcher_have_to_fit(matcher: dict[str, str], fits: bool) -> None:
    assert matches(matcher, WORDS) is fits


def test_no_workers_mutes_starvation_of_its_own_pool_only() -> None:
    found = mutes([alert(1, NO_WORKERS), alert(2, "queue_slo"), alert(3, "queue_slo", 2), alert(4, "breaker")], [])
    assert found == {1: Mute(), 2: Mute(None, 1), 3: Mute(), 4: Mute()}


def test_a_source_without_a_pool_explains_all_pools() -> None:
    found = mutes([alert(1, DISPATCHER_LATE, None), alert(2, "near_zero_dispatch"), alert(3, "floor_unmet", 2)], [])
    assert (found[2].inhibited_by, found[3].inhibited_by) == (1, 1)


def test_a_silence_and_an_inhibition_are_both_told() -> None:
    found = mutes([alert(1, NO_WORKERS), alert(2, "queue_slo")], [(7, {"rule": "breaker"}), (8, {"rule": "queue_*"})])
    assert found == {1: Mute(), 2: Mute(8, 1)}


def test_severities_rise() -> None:
    assert worse("critical", "warning")
    assert not worse("warning", "warning")
    assert not worse("info", "warning")
