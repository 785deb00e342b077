"""The search line and the filters of the API are two ways to say the same."""

import pytest

from dispatch.ui import search


@pytest.mark.parametrize(
    ("text", "filters"),
    [
        ("", {}),
        ("state:queued class:batch", {"state": "queued", "class": "batch"}),
        ("state:queued,leased", {"state": "queued,leased"}),
        ("cap:ocr age>10m", {"capability": "ocr", "min_age_s": "600"}),
        ("age>1.5h", {"min_age_s": "5400"}),
        ("cost>2.5 args.repo:x", {"min_cost": "2.5", "args.repo": "x"}),
        ('args.job.name:"a b" id:4,5', {"args.job.name": "a b", "id": "4,5"}),
        ('error:"time out" type:index', {"error": "time out", "type": "index"}),
        ("connection refused", {"error": "connection refused"}),
        ('an "open quote', {"error": 'an "open quote'}),
        ("shoe:9", {"shoe": "9"}),
        ("state:", {"error": "state:"}),
    ],
)
def test_the_line_is_read(text: str, filters: dict[str, str]) -> None:
    assert search.parse(text) == filters


@pytest.mark.parametrize(
    "text",
    [
        "state:queued class:batch",
        "min",
        'error:"time out"',
        "age>90s",
        "age>10m cost>2 args.repo:x id:4,5",
        'error:"it\'s"',
    ],
)
def test_what_is_written_reads_the_same(text: str) -> None:
    filters = search.parse(text)
    assert search.parse(search.write(filters)) == filters


@pytest.mark.parametrize("text", ["481902", "481,902", "#481902", "id:481902", " # 481902 "])
def test_a_number_is_a_task(text: str) -> None:
    assert search.task_number(text) == 481_902


@pytest.mark.parametrize("text", ["", "4x", "-4", "id:", "4 5"])
def test_others_are_not(text: str) -> None:
    assert search.task_number(text) is None
