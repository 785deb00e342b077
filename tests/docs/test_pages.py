"""Documents agree with the code and with each other, as far as a program can see."""

import ast
import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, blocks

READ = re.compile(r"""env\.\w+\(\s*"(\w+)"|os\.environ\.setdefault\("(EVENFLOW_\w+)\"""")
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)[^)]*\)")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    inside = [link for link in LINK.findall(page.read_text()) if "://" not in link]
    assert [link for link in inside if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_python_is_python(page: Path) -> None:
    for text in blocks(page, "python"):
        compile(text, name(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_every_setting_is_documented_and_every_documented_one_is_read() -> None:
    code = "".join(path.read_text() for path in (ROOT / "controlplane").glob("*.py"))
    read = {first or second for first, second in READ.findall(code)}
    store = "".join(path.read_text() for path in (ROOT / "dispatch/store").glob("*.py"))
    itself = (ROOT / "controlplane/asgi.py").read_text()  # what the web process tells itself is no setting
    read -= set(re.findall(r'os\.environ\["(\w+)"\] =', itself))
    read |= set(re.findall(r'os\.environ\.get\("(EVENFLOW_\w+)"', store))
    page = (ROOT / "docs/reference/settings.md").read_text()
    documented = set(re.findall(r"^\| `(\w+)`", page, re.MULTILINE))
    assert documented == read


def test_problem_slugs_are_the_documented_ones() -> None:
    from dispatch import errors

    kinds = [value for value in vars(errors).values() if isinstance(value, type)]
    slugs = {kind.slug for kind in kinds if issubclass(kind, errors.EvenflowError)}
    table = (ROOT / "docs/reference/api.md").read_text().split("| `type` |")[1].split("\n\n")[0]
    rows = [line.split("|")[1] for line in table.splitlines()[2:]]
    assert {slug for row in rows for slug in re.findall(r"`([\w-]+)`", row)} == slugs


def test_state_diagram_has_only_permitted_steps() -> None:
    from dispatch.core.states import TRANSITIONS

    permitted = {(old.word, new.word) for old, news in TRANSITIONS.items() for new in news}
    (diagram,) = [text for text in blocks(ROOT / "docs/architecture.md", "mermaid") if "stateDiagram" in text]
    drawn = set(re.findall(r"^\s+(\w+) --> (\w+)", diagram, re.MULTILINE))
    assert drawn
    assert drawn <= permitted
