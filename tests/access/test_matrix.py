"""Every operation, page, live topic and tool as everybody who may come: the answers are those of table.py.

A new one fails here until it is listed. `python -m tests.access.write` writes what the product answers now; read the
difference before you keep it. Foreign things answer to people and keys of a department as missing ones, and no answer
ever holds a word of the foreign department (MARK).
"""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction
from django.test import Client

from dispatch.core import validate
from dispatch.live import cells, topics
from dispatch.mcp.server import TOOLS
from dispatch.store import lanes
from tests.access import calls, table
from tests.access.world import FOREIGN, KEYS, MARK, OWN, PERSONS, Side, headers, make_world, people

pytestmark = pytest.mark.django_db

BOUND = [name for name in KEYS if "@" in name]
INSIDERS = ("admin", "member", "viewer")
NOT_ALLOWED = 405
Answers = dict[str, str]


def undone(call: Callable[[], Any]) -> Any:
    """Make a call and take back what it did."""
    with transaction.atomic():
        answer = call()
        transaction.set_rollback(True)
    lanes.forget()
    return answer


def text(answer: Any) -> str:
    content = b"".join(answer.streaming_content) if answer.streaming else answer.content
    return str(content.decode(errors="replace")).lower()


def api() -> tuple[Answers, list[str]]:
    """operation → statuses of all keys for the own and, where it names one, the foreign department; and the leaks."""
    world, keys, client = make_world(), headers(), Client(raise_request_exception=False)
    found: Answers = {}
    leaks: list[str] = []
    heard: set[str] = set()  # where a key without a department hears of the foreign one: the control

    def ask(operation: str, method: str, path: str, spec: Any, side: Side, name: str) -> int:
        body = calls.body(operation, spec, side)
        given = {} if body is None else {"data": body, "content_type": "application/json"}
        where = calls.address(operation, path, side)
        answer = undone(lambda: client.generic_json(method, where, keys[name], given))  # type: ignore[attr-defined]
        if name == "read" and MARK in text(answer):
            heard.add(operation)
        if "@" in name and _tells(text(answer), where, body):
            leaks.append(f"{operation} as {name}: {where}")
        return int(answer.status_code)

    client.generic_json = lambda method, where, header, given: getattr(client, method.lower())(  # type: ignore[attr-defined]
        where, headers=header, **given
    )
    for operation, method, path, spec in calls.operations():
        own = [ask(operation, method, path, spec, world["own"], name) for name in KEYS]
        row = " ".join(map(str, own))
        if calls.names_a_department(operation, method, path):
            row += " | " + " ".join(str(ask(operation, method, path, spec, world["foreign"], name)) for name in BOUND)
        found[operation] = row
    silent = {"list_tasks", "list_tenants", "list_audit", "list_alerts", "list_dead_letters", "get_stats"} - heard
    assert not silent, f"the foreign department does not show where it should: {silent}"
    return found, leaks


def _tells(shown: str, where: str, body: Any) -> bool:
    """Whether an answer says the mark other than by repeating what was asked."""
    if MARK in where or MARK in str(body):
        shown = shown.replace(FOREIGN, "").replace(f"f{MARK}", "").replace(f"{MARK}-user", "")
    return MARK in shown


def console(method: str) -> tuple[Answers, list[str]]:
    """address → statuses of all persons, and of the department's own people for the foreign one; and the leaks.

    What is about signing in and oneself is looked at by a stranger and by somebody without a role only.
    """
    world, browsers = make_world(), people()
    cookies = {name: client.cookies["sessionid"].value for name, client in browsers.items() if client.cookies}
    found: Answers = {}
    leaks: list[str] = []

    def look(route: str, side: Side, name: str) -> int:
        where, client = calls.place(route, side), browsers[name]
        if name in cookies:
            client.cookies["sessionid"] = cookies[name]  # the call before may have signed out
        if method == "GET":
            answer = undone(lambda: client.get(where))
        else:
            answer = undone(lambda: client.post(where, calls.FORM, headers={"HX-Request": "true"}))
        if name in INSIDERS and _tells(text(answer), where, None):
            leaks.append(f"{route} as {name}: {where}")
        return int(answer.status_code)

    for route, _ in calls.pages():
        if look(route, world["own"], "operator") == NOT_ALLOWED:
            continue  # pages that are no commands, and commands that are no pages
        persons = ("anonymous", "nobody") if calls.is_about_oneself(route) else PERSONS
        row = " ".join(str(look(route, world["own"], name)) for name in persons)
        if "<" in route and persons is PERSONS:
            row += " | " + " ".join(str(look(route, world["foreign"], name)) for name in INSIDERS)
        found[route or "/"] = row
    return found, leaks


def live() -> tuple[Answers, list[str]]:
    """topic → statuses of all persons looking at everything, then of the department's people at the foreign one."""
    world, browsers = make_world(), people()
    found: Answers = {}
    leaks: list[str] = []
    keyed = {
        "bulk": "job_id", "task": "task_id", "worker": "worker_id", "queue": "",
    }  # fmt: skip

    def look(kind: str, side: Side, name: str, query: str) -> int:
        key = keyed.get(kind)
        topic = f"{kind}:{side.ids[key]}" if key else f"queue:standard/{side.tenant}" if kind == "queue" else kind
        answer = browsers[name].get(f"/live/{topic}.json{query}")
        if name in INSIDERS and _tells(text(answer), topic + query, None):
            leaks.append(f"{topic}{query} as {name}")
        return int(answer.status_code)

    for kind in sorted({*cells.PARTS, *topics.READERS}):
        query = f"?tenant={OWN}" if kind == "department" else ""
        row = " ".join(str(look(kind, world["own"], name, query)) for name in PERSONS)
        there = "" if kind in keyed else f"?tenant={FOREIGN}"
        found[kind] = f"{row} | {' '.join(str(look(kind, world['foreign'], name, there)) for name in INSIDERS)}"
    return found, leaks


def tools() -> Answers:
    """MCP tool → the scope without which it is not there; each calls the API, whose table is above."""
    return {tool.run.__name__: tool.scope for tool in TOOLS}


def compare(found: Answers, expected: Answers) -> None:
    assert found.keys() == expected.keys(), "list what is new in tests/access/table.py, take out what is gone"
    differing = {name: (expected[name], row) for name, row in found.items() if row != expected[name]}
    assert not differing, differing


def test_every_operation_answers_every_key_as_listed() -> None:
    found, leaks = api()
    compare(found, table.API)
    assert not leaks, leaks


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_every_page_answers_every_person_as_listed(method: str) -> None:
    found, leaks = console(method)
    compare(found, table.PAGES if method == "GET" else table.COMMANDS)
    assert not leaks, leaks


def test_every_live_topic_answers_every_person_as_listed() -> None:
    found, leaks = live()
    compare(found, table.TOPICS)
    assert not leaks, leaks


def test_every_tool_is_there_for_the_listed_scope() -> None:
    compare(tools(), table.TOOLS)


def test_foreign_things_are_missing_things() -> None:
    """No key and no person of a department gets another answer for what is foreign than for what is not there."""
    for name, row in (table.API | table.TOPICS).items():
        _, _, foreign = row.partition(" | ")
        assert not {code for code in foreign.split() if code.startswith("2")} or name in table.HARMLESS, name
    assert validate.is_slug(FOREIGN)
