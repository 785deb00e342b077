"""`/docs` and `/llms.txt`: for everybody, without scripts of their own, about every call that the document has."""

import re

import pytest
from django.test import Client

from dispatch import errors
from tests.api.document import document

pytestmark = pytest.mark.django_db
CALLS = {
    operation["operationId"]: (method.upper(), path)
    for path, operations in document()["paths"].items()
    for method, operation in operations.items()
}


def text(path: str, status: int = 200) -> str:
    answer = Client().get(path)
    assert answer.status_code == status, path
    return answer.content.decode()


def test_the_index_leads_to_every_call_and_tells_every_refusal() -> None:
    page = text("/docs")
    assert all(f'href="/docs/{name}"' in page for name in CALLS)
    slugs = {kind.slug for kind in vars(errors).values() if isinstance(kind, type) and hasattr(kind, "slug")}
    assert all(f"<code>{slug}</code>" in page for slug in slugs)


def test_a_call_has_its_page_without_inline_script_or_style() -> None:
    for name in [*sorted(CALLS)[::4], "complete_many", "patch_class"]:  # each is made in the same way
        method, path = CALLS[name]
        page = text(f"/docs/{name}")
        assert f">{method}</span>" in page and path in page, name
        assert "<style" not in page and " style=" not in page and "<script>" not in page
        assert len(page) < 60_000, (name, len(page))
        example = re.search(r'aria-label="Example"><code>(.*?)</code>', page, re.DOTALL)
        assert example and "curl" in example[1]
    answer = Client().get("/docs")
    assert "script-src 'self'" in answer["Content-Security-Policy"]
    text("/docs/nothing", 404)


def test_fields_are_told_with_types_and_limits() -> None:
    page = text("/docs/submit")
    for told in ("<code>tenant</code>", "<code>tasks[].payload</code>", "-100 to 100", "list of name", "any JSON"):
        assert told in page
    assert "<code>leases[].progress.fraction</code>" in text("/docs/heartbeat")
    assert "yes" in text("/docs/get_task")


def test_the_search_keeps_calls_that_hold_all_words() -> None:
    page = text("/docs?q=webhook+secret").split("<main")[1]
    assert "/docs/rotate_webhook" in page and "/docs/submit" not in page
    page = text("/docs?q=%3Cscript%3E")
    assert "No call has all of these words" in page and "<script>" not in page


def test_llms_txt_is_short_plain_and_true() -> None:
    answer = Client().get("/llms.txt")
    assert answer["Content-Type"] == "text/plain; charset=utf-8"
    told = answer.content.decode()
    assert told.startswith("# Evenflow\n") and len(told) < 20_000 and "&" not in told.replace("`&cursor=`", "")
    assert all(f"[{method} {path}]" in told for method, path in CALLS.values())
    assert "http://testserver/mcp" in told and "never an order" in told
