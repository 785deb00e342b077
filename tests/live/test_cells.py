"""Cells say what the numbers say, with the yardstick beside every value."""

import copy
from typing import Any

import pytest

from dispatch.live import cells, shapes
from dispatch.live.cells import palette, tiles, workers
from tests.ui import sample


@pytest.fixture
def numbers() -> dict[str, Any]:
    return copy.deepcopy(sample.numbers())


def test_every_topic_has_flat_values_only(numbers: dict[str, Any]) -> None:
    for topic in cells.PARTS:
        for key, value in cells.cells(topic, numbers).items():
            assert value is None or isinstance(value, str | int | float | bool | list), (topic, key)


def test_a_queue_past_its_slo_is_the_answer(numbers: dict[str, Any]) -> None:
    found = cells.cells("overview", numbers)
    assert found["answer.tone"] == "breach"
    assert found["answer.text"] == "One queue is starving: batch · legal has waited 41 m 12 s"
    assert (found["t.oldest"], found["t.oldest.slo"]) == ("41 m 12 s", "1.4 × SLO")


def test_close_to_the_slo_is_watched_and_below_is_quiet(numbers: dict[str, Any]) -> None:
    legal = next(row for row in numbers["grid"] if row["oldest_age_s"] == 2472)
    legal["oldest_age_s"] = 100
    assert tiles.answer(numbers)[:3] == ("watch", "watch", "Nobody is starving, but batch · finance comes close")
    for row in numbers["grid"]:
        row["oldest_age_s"] = 1
    assert tiles.answer(numbers)[:3] == ("ok", "ok", "Nobody is starving")


@pytest.mark.parametrize(
    ("queued", "oldest", "sentence"),
    [
        (0, None, "No task is waiting."),
        (1, 3, "1 task waits, the oldest for 3 s in batch · legal."),
        (2, 3, "2 tasks wait, the oldest for 3 s in batch · legal."),
        (2, None, "2 tasks wait, stopped by limits or a pause of their own."),
    ],
)
def test_the_quiet_answer_says_who_waits(
    numbers: dict[str, Any], queued: int, oldest: float | None, sentence: str
) -> None:
    for row in numbers["grid"]:
        row["oldest_age_s"] = oldest
    where = {"class": "batch", "tenant": "legal"} if oldest else None
    numbers["totals"] |= {"queued": queued, "oldest_age_s": oldest, "oldest": where}
    assert tiles.answer(numbers)[3] == sentence


@pytest.mark.parametrize("beat", [None, 5.1])
def test_a_silent_dispatcher_comes_before_any_wait(beat: float | None, numbers: dict[str, Any]) -> None:
    numbers["leader"]["beat_age_s"] = beat
    assert tiles.answer(numbers)[2] == "Nothing is dispatched: the dispatcher is silent"


def test_work_without_workers_is_told(numbers: dict[str, Any]) -> None:
    numbers["totals"]["workers_live"] = 0
    assert tiles.answer(numbers)[2:] == ("No worker is live", "1,284 tasks wait for one.")


def test_an_empty_installation_says_what_comes_first(numbers: dict[str, Any]) -> None:
    empty = numbers | {name: [] for name in ("classes", "tenants", "grid", "workers", "commands")}
    empty["dead"] = {"total": 0, "new_1h": 0, "items": []}
    empty["totals"] = dict.fromkeys(numbers["totals"], 0) | {"oldest": None, "oldest_age_s": None}
    assert tiles.answer(empty)[2] == "Nothing to dispatch yet"
    for topic in cells.PARTS:
        cells.cells(topic, empty)


def test_no_demand_is_neither_zero_nor_starved(numbers: dict[str, Any]) -> None:
    found = cells.cells("overview", numbers)
    idle = {name: found[f"c.maintenance.{name}"] for name in ("queued", "oldest", "target", "share", "deficit", "tone")}
    assert idle == {"queued": "no demand", "oldest": "–", "target": "–", "share": "–", "deficit": "–", "tone": "idle"}


def test_a_share_below_its_target_shows_the_gap() -> None:
    bar = shapes.share_bar(0.119, 0.15, 0.5)
    assert bar == {"bar": "23.80%", "gap_x": "23.80%", "gap_w": "6.20%", "tick": "30.00%"}
    assert shapes.share_bar(0.476, 0.45, 0.5)["gap_w"] == "0.00%"


def test_rows_that_need_a_hand_come_first(numbers: dict[str, Any]) -> None:
    found = cells.cells("overview", numbers)
    names = [found[f"w.{number}.name"] for number in found["workers"]]  # type: ignore[union-attr]
    assert names[:3] == ["ocr-02", "gen-07", "gen-09"]
    assert found["workers.rest"] == "and 1 more"


def test_an_agent_that_beats_without_progress_is_told_in_words(numbers: dict[str, Any]) -> None:
    row = next(row for row in numbers["workers"] if row["leases"])
    row["state"] = "stalled"
    row["leases"][0]["progress_age_s"] = 725
    assert workers.cells(numbers)[f"w.{row['id']}.state"] == "alive, not progressing for 12 m 05 s"


def test_a_big_worker_keeps_the_proportion_of_its_slots() -> None:
    paths = shapes.slots(["1"] * 500 + ["free"] * 500, ("1", "free"))
    assert paths["1"].count("M") == paths["free"].count("M") == 10


def test_known_classes_keep_their_colour_and_a_sixth_is_grey() -> None:
    assert palette.palette(["critical", "interactive", "background"]) == {
        "critical": "1",
        "interactive": "2",
        "background": "3",
    }
    assert list(palette.palette(list("abcdef")).values()) == ["1", "2", "3", "4", "5", "5"]


def test_changes_name_what_is_new_other_and_gone() -> None:
    assert cells.changes({"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 4, "d": None}) == {"b": 4, "d": None, "c": None}


def test_applying_changes_gives_the_new_map(numbers: dict[str, Any]) -> None:
    old = cells.cells("overview", numbers)
    numbers["workers"].pop(0)
    numbers["classes"][0]["queued"] = 9
    new = cells.cells("overview", numbers)
    changed = cells.changes(old, new)
    assert {key: value for key, value in (old | changed).items() if value is not None} == {
        key: value for key, value in new.items() if value is not None
    }
    assert len(changed) < len(new) / 3


def test_ages_stand_beside_their_slo(numbers: dict[str, Any]) -> None:
    found = cells.cells("overview", numbers)
    assert (found["a.batch.tone"], found["a.batch.now"]) == ("breach", "41 m 12 s")
    assert found["a.maintenance.now"] == "no demand"
