"""The pace of bulk jobs: rate, room in flight, canary, brake."""

from dispatch.core.pacing import Pace, Progress, step
from dispatch.core.types import MICRO


def at(state: str = "running", pending: int = 100, **more: int) -> Progress:
    return Progress(state=state, pending=pending, **more)


def test_without_limits_a_whole_batch_moves_and_an_empty_job_is_done() -> None:
    assert (step(Pace(), at(), 500).take, step(Pace(), at(), 50).take) == (100, 50)
    assert step(Pace(), at(pending=0), 50).state == "done"


def test_a_rate_never_gives_more_than_its_time_and_loses_nothing() -> None:
    pace, credit, moved = Pace(rate=3 * MICRO), 0, 0
    for _ in range(40):  # 40 ticks of 0.25 s
        done = step(pace, at(pending=1000 - moved, credit=credit, elapsed=MICRO // 4, moved=moved), 500)
        credit, moved = done.credit, moved + done.take
        assert done.take <= 1
    assert moved == 30
    assert step(pace, at(elapsed=3600 * MICRO), 500).take == 6, "a pause of an hour saves up two seconds"
    assert step(Pace(rate=MICRO // 10), at(elapsed=10 * MICRO), 500).take == 1, "one in ten seconds"


def test_no_more_than_so_many_are_in_flight() -> None:
    pace = Pace(max_in_flight=5)
    assert step(pace, at(), 500).take == 5
    assert step(pace, at(moved=5), 500).take == 0
    assert step(pace, at(moved=9, well=6), 500).take == 2


def test_the_canary_goes_alone_and_has_to_do_well() -> None:
    pace = Pace(canary=3)
    assert step(pace, at("canary"), 500).take == 3
    waiting = step(pace, at("canary", moved=3, well=2), 500)
    assert (waiting.take, waiting.state) == (0, "canary")
    assert (
        step(pace, at("canary", moved=3, well=3), 500).take,
        step(pace, at("canary", moved=3, well=3), 500).state,
    ) == (
        100,
        "running",
    )
    assert step(pace, at("canary", moved=3, well=2, again=1), 500).state == "stopped"
    lenient = Pace(canary=3, stop_above=MICRO // 2)
    assert step(lenient, at("canary", moved=3, well=2, again=1), 500).state == "running"


def test_a_canary_larger_than_the_job_ends_with_it() -> None:
    pace = Pace(canary=10)
    assert step(pace, at("canary", pending=2), 500).take == 2
    assert step(pace, at("canary", pending=0, moved=2), 500).state == "canary"
    assert step(pace, at("canary", pending=0, moved=2, well=2), 500).state == "done"
    assert step(pace, at("canary", pending=0, moved=2, again=2), 500).state == "stopped"
    assert step(pace, at("canary", pending=0), 500).state == "done", "everything was skipped"


def test_the_brake_needs_ten_ended_tasks() -> None:
    pace = Pace(stop_above=MICRO // 5)
    assert step(pace, at(moved=9, again=9), 500).state == "running"
    assert step(pace, at(moved=10, well=8, again=2), 500).state == "running"
    stopped = step(pace, at(moved=10, well=7, again=3), 500)
    assert (stopped.state, stopped.take, stopped.note) == ("stopped", 0, "3 of 10 that ended were dead again")
