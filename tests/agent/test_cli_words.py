"""The command line's small languages: search words, durations, protocol lines, exit codes, texts for a terminal."""

import argparse
import io
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dispatch.agent.cli import exits, grammar, lines, parser, search, verdict
from dispatch.agent.cli.bar import Bar
from dispatch.agent.cli.output import age, cell, clean, moment, percent
from dispatch.agent.errors import ApiError, Unreachable


@pytest.mark.parametrize(
    ("words", "query"),
    [
        ([], {}),
        (["state:dead", "tenant:sales"], {"state": "dead", "tenant": "sales"}),
        (["state:dead tenant:sales cap:gpu"], {"state": "dead", "tenant": "sales", "capability": "gpu"}),
        (['error:"timed out: 5 s"'], {"error": "timed out: 5 s"}),
        (["age>10m", "user:-"], {"min_age_s": 600.0, "user": "-"}),
        (["age:1h30m"], {"min_age_s": 5400.0}),
        (["key:a:b", "type:t", "tool:crm", "worker:w", "class:c", "pool:p"], None),
    ],
)
def test_search_words_become_filters(words: list[str], query: dict[str, Any] | None) -> None:
    expected = (
        query
        if query is not None
        else {"key": "a:b", "type": "t", "tool": "crm", "worker": "w", "class": "c", "pool": "p"}
    )
    assert search.filters(words) == expected


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("stat:dead", "Did you mean state:…"),
        ("dead", "no search word"),
        ("state:", "value is missing"),
        ("age>soon", "no duration"),
        ("state:dead state:held", "given twice"),
    ],
)
def test_a_word_that_is_none_is_named(word: str, said: str) -> None:
    with pytest.raises(exits.Trouble) as caught:
        search.filters([word])
    assert said in f"{caught.value} {caught.value.hint}"
    assert caught.value.code == exits.USAGE


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("1.5m", 90), ("2h", 7200), ("1d", 86400), ("1h30m", 5400)]
)
def test_durations(text: str, seconds: float) -> None:
    assert grammar.duration(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "-5", "5 m", "5x", "1h30", "nan", "inf", "1e3"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        grammar.duration(text)


def test_rates_fractions_and_ids() -> None:
    assert (grammar.rate("5/s"), grammar.rate("5"), grammar.rate("30/m")) == (5, 5, 0.5)
    assert (grammar.fraction("20%"), grammar.fraction("0.2")) == (0.2, 0.2)
    assert grammar.task_id("12") == 12
    for read, text in (
        (grammar.rate, "0/s"),
        (grammar.rate, "fast"),
        (grammar.fraction, "120%"),
        (grammar.fraction, "nan"),
        (grammar.task_id, "x"),
        (grammar.task_id, str(2**63)),
        (grammar.time, "2030-01-31T08:00:00"),
        (grammar.time, "tomorrow"),
    ):
        with pytest.raises(argparse.ArgumentTypeError):
            read(text)


def test_json_is_strict() -> None:
    assert grammar.strict_json('{"a": 1}') == {"a": 1}
    for text in ("NaN", "[Infinity]", "1e400", "{", "[" * 100_000):
        with pytest.raises(ValueError):
            grammar.strict_json(text)


@pytest.mark.parametrize(
    ("line", "word", "value"),
    [
        (
            '::progress {"step": 3, "fraction": 0.5, "note": "half"}',
            "progress",
            {"step": 3, "fraction": 0.5, "note": "half"},
        ),
        ('::progress {"cost": 2, "step": null}', "progress", {"cost": 2}),
        ("::checkpoint [1, 2]", "checkpoint", [1, 2]),
        ('::journal "sent mail 7"', "journal", "sent mail 7"),
        ("::result null", "result", None),
        (
            '::error {"message": "busy", "kind": "tool_limited", "tool": "crm", "retry_after_s": 30}',
            "error",
            verdict.ErrorReport(message="busy", kind="tool_limited", retry_after_s=30, tool="crm"),
        ),
    ],
)
def test_protocol_lines(line: str, word: str, value: Any) -> None:
    assert lines.read(line) == lines.Said(word, value)


@pytest.mark.parametrize(
    "line", ["", "hello", ":: progress {}", "::warning file=x", "a ::progress {}", "::progressive 1"]
)
def test_plain_output_is_no_protocol(line: str) -> None:
    assert lines.read(line) is None


@pytest.mark.parametrize(
    "line",
    [
        "::progress",
        "::progress 3",
        "::progress {}",
        '::progress {"step": 1.5}',
        '::progress {"step": true}',
        '::progress {"step": 9223372036854775808}',
        '::progress {"fraction": 1.1}',
        '::progress {"fraction": NaN}',
        '::progress {"note": 7}',
        '::progress {"steps": 7}',
        "::checkpoint {",
        "::result oops",
        '::error "broken"',
        '::error {"kind": "fatal"}',
        '::error {"message": 1}',
        '::error {"retry_after_s": -1}',
    ],
)
def test_malformed_lines(line: str) -> None:
    with pytest.raises(lines.Malformed):
        lines.read(line)


def test_notes_are_made_storable() -> None:
    assert lines.progress({"note": "a\0b\ud800"})["note"] == "a\ufffdb?"


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (0, "complete"),
        (1, "transient"),
        (2, "transient"),
        (64, "permanent"),
        (65, "permanent"),
        (66, "permanent"),
        (69, "tool_limited"),
        (75, "transient"),
        (127, "transient"),
        (-9, "transient"),
    ],
)
def test_exit_codes(code: int, outcome: str) -> None:
    assert verdict.judge(code, None, "").outcome == outcome


def test_a_verdict_says_what_happened() -> None:
    assert verdict.judge(-11, None, "").message == "killed by SIGSEGV"
    assert verdict.judge(3, None, "no such file").message == "exit code 3: no such file"
    assert verdict.judge(3, None, "", {3: "release"}).outcome == "release"


def test_an_error_line_wins_over_the_exit_code() -> None:
    said = verdict.ErrorReport(message="full", kind="tool_limited", tool="crm")
    assert verdict.judge(64, said, "x") == verdict.Verdict("tool_limited", "full", "exit code 64", None, "crm")
    assert verdict.judge(65, verdict.ErrorReport(message="bad"), "").outcome == "permanent"
    assert verdict.judge(0, verdict.ErrorReport(message="bad"), "").outcome == "transient"


def test_exit_code_options() -> None:
    assert verdict.entry("2=permanent") == (2, "permanent")
    for text in ("2", "2=fatal", "x=release", "256=release", "-1=release"):
        with pytest.raises(argparse.ArgumentTypeError):
            verdict.entry(text)


def test_foreign_text_cannot_steer_a_terminal() -> None:
    assert clean("a\x1b[31mred\x1b[0m\tb") == "ared b"
    assert clean("x\x1b]0;title\x07\r\n\u202e") == r"x\x1b]0;title\x07\r\n\u202e"
    assert clean("Zoë – ok") == "Zoë – ok"


def test_cells() -> None:
    assert [cell(value) for value in (None, "", True, 1.25, 1234.5, ["a", "b"], 0)] == [
        "–",
        "–",
        "yes",
        "1.25",
        "1234",
        "a,b",
        "0",
    ]
    assert [age(value) for value in (None, 0.42, 12, 185, 7800, 180_000)] == [
        "–",
        "0.4s",
        "12s",
        "3m05s",
        "2h10m",
        "2d02h",
    ]
    assert (percent(None), percent(0.125)) == ("–", "12.5%")
    assert (moment("2026-11-30T14:00:00+01:00"), moment("odd\n")) == ("2026-11-30 13:00:00Z", r"odd\n")


def test_a_bar_is_for_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = io.StringIO()
    monkeypatch.setattr(sys, "stderr", plain)
    with Bar("submitting", 10) as bar:
        bar.show(5, now=True)
    assert plain.getvalue() == ""
    assert bar.text(5, "", 2.0).startswith("submitting  [███████████████···············]  5/10  2.0s left")
    monkeypatch.setattr(plain, "isatty", lambda: True)
    with Bar("waiting") as bar:
        bar.show(1, "step\x1b]0;x", now=True)
    assert "waiting  1" in plain.getvalue()
    assert r"step\x1b]0;x" in plain.getvalue()
    assert plain.getvalue().endswith("\r\x1b[K")


def _unreachable(cause: Exception) -> Unreachable:
    error = Unreachable("GET /x: it broke")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (
            ApiError(422, "validation", "", [{"field": "class", "message": "there is no such class"}]),
            65,
            "class: there is",
        ),
        (ApiError(404, "not-found", "There is no such task."), 66, "There is no such task."),
        (
            ApiError(404, "not-found", "There is no such address.", no_such_address=True),
            66,
            "does not know that address (404 There is no",
        ),
        (ApiError(404, "", "Not Found", no_such_address=True), 66, "does not know that address (404 Not Found)"),
        (ApiError(401, "unauthenticated", "no"), 77, "evenflow login"),
        (ApiError(403, "forbidden", "needs operate"), 77, "needs operate"),
        (ApiError(409, "version-conflict", "changed"), 65, "changed"),
        (ApiError(429, "rate-limited", "slow", retry_after_s=7), 75, "in 7 s"),
        (ApiError(405, "", "Method Not Allowed"), 65, "405 Method Not Allowed"),
        (_unreachable(ApiError(503, "unavailable", "busy")), 75, "busy"),
        (_unreachable(ConnectionRefusedError(111, "refused")), 69, "manage.py up"),
        (_unreachable(TimeoutError("late")), 69, "no answer in time"),
        (FileNotFoundError(2, "No such file or directory", "x.json"), 66, "x.json: No such file"),
    ],
)
def test_errors_become_a_sentence_and_a_code(error: Exception, code: int, said: str) -> None:
    problem = exits.explain(error)
    assert problem.code == code
    assert said in f"{problem.sentence} {problem.hint}"


ROOT = Path(__file__).parents[2]


def _options(command: argparse.ArgumentParser) -> set[str]:
    found = set()
    for action in command._actions:
        found |= {option for option in action.option_strings if option.startswith("--")}
        if isinstance(action.choices, dict):
            found |= {option for inner in action.choices.values() for option in _options(inner)}
    return found


def test_the_documents_name_every_command_and_no_other_option() -> None:
    commands = next(action.choices for action in parser()._actions if isinstance(action.choices, dict))
    reference = (ROOT / "docs/reference/cli.md").read_text()
    table = reference.split("## Commands")[1].split("## Search words")[0]
    assert {name for name in commands if f"`{name} " not in table} == set()
    known = {option for command in commands.values() for option in _options(command)} | {"--prompt-file"}
    guide = (ROOT / "docs/guides/wrap-a-command.md").read_text()
    assert set(re.findall(r"--[a-z][a-z-]+", reference + guide)) <= known


def test_the_documented_exit_codes_are_the_ones_in_use() -> None:
    reference = (ROOT / "docs/reference/cli.md").read_text().split("## Exit codes")[1].split("## Commands")[0]
    used = {value for name, value in vars(exits).items() if name.isupper() and isinstance(value, int)}
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", reference, re.M)} == used
    guide = (ROOT / "docs/guides/wrap-a-command.md").read_text().split("## How the command exits")[1]
    assert {int(code) for row in re.findall(r"^\| ([\d, ]+)", guide, re.M) for code in re.findall(r"\d+", row)} == set(
        verdict.TABLE
    )
    protocol = (ROOT / "docs/guides/wrap-a-command.md").read_text()
    for line in re.findall(r"^::.*$", protocol, re.M):
        assert lines.read(line) is not None
    assert {lines.read(line).word for line in re.findall(r"^::.*$", protocol, re.M)} == set(lines.WORDS)  # type: ignore[union-attr]


def test_the_command_line_imports_nothing_but_the_standard_library() -> None:
    code = (
        "import sys, dispatch.agent.cli; "
        "print(sorted({name.split('.')[0] for name in sys.modules} - set(sys.stdlib_module_names) - {'__main__'})); "
        "print(sorted(name for name in sys.modules if name.startswith('dispatch.') and 'agent' not in name))"
    )
    done = subprocess.run([sys.executable, "-S", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["['dispatch']", "[]"]
