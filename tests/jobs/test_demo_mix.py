"""The demo's stream of tasks fits what the demo sets up."""

import itertools
import random
from pathlib import Path

from dispatch.core import validate
from dispatch.jobs.demo import launch, mix, seed

ROOT = Path(__file__).resolve().parent.parent.parent
SOME = list(itertools.islice(mix.stream(ROOT, launch.SLOTS, random.Random(7)), 3000))


def test_tasks_name_only_what_the_seed_makes_and_the_fleet_offers() -> None:
    assert set(mix.PEOPLE) == set(seed.DEPARTMENTS) == set(mix.TOOL)
    assert set(mix.CLASSES) == set(seed.CLASSES)
    assert set(mix.TOOL.values()) == set(seed.TOOLS)
    offered = {word for _, words, _, _ in launch.FLEET for word in words.split(",")}
    assert {word for one in SOME for word in one.task.get("capabilities", ())} == offered
    assert all(validate.is_slug(name) for name, *_ in launch.FLEET)
    assert len(launch.FLEET) >= 8


def test_the_seed_s_objects_are_valid_policy() -> None:
    for kind, objects in (("class", seed.CLASSES), ("tenant", seed.DEPARTMENTS), ("tool", seed.TOOLS)):
        for slug, fields in objects.items():
            assert validate.slug(slug) is None
            assert validate.fields(kind, fields) == []
    assert validate.fields("pool", seed.POOL) == []


def test_lengths_are_1_to_60_seconds_and_average_what_the_load_is_made_for() -> None:
    lengths = [one.task["cost"] for one in SOME if one.task["type"] != "poison"]
    assert min(lengths) >= 1 and max(lengths) <= 60
    assert max(lengths) > 40
    assert abs(sum(lengths) / len(lengths) - mix.MEAN_S) < 1
    slots_asked = sum(lengths) / sum(one.after_s for one in SOME)
    assert abs(slots_asked / launch.SLOTS - mix.LOAD) < 0.1


def test_all_kinds_of_work_come_early_poison_too() -> None:
    assert {one.task["type"] for one in SOME[:40]} == {"index_text", "hash_files", "run_command", "poison"}
    assert [one.after_s for one in SOME[:12]] == [0.0] * 12
    assert "poison" in {one.task["type"] for one in SOME[:12]}


def test_steps_fit_the_progress_deadline() -> None:
    for one in SOME:
        step = one.task["payload"].get("pace_s", 0)
        assert step < one.task.get("progress_timeout_s", float("inf"))
