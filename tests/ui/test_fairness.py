"""The editor of classes and tenants: only what was changed is saved, refusals come back with the draft."""

from collections.abc import Callable
from typing import Any

from django.test import Client

from dispatch.models import AuditEvent, Tenant, WorkClass
from dispatch.services import policy
from dispatch.services.messages import Caller
from dispatch.ui.views.fairness import FIELDS

Browse = Callable[..., Client]
PATH = "/fairness/class/interactive"
OLD = {"weight": "1", "min": "0", "max": "", "lend": "", "level": "1", "aging_step_s": "", "max_wait_s": ""}


def form(version: int = 1, reason: str = "quarter end", **changes: str) -> dict[str, Any]:
    """The whole form as the browser sends it after some edits."""
    return (
        OLD | {f"was-{name}": value for name, value in OLD.items()} | {"version": version, "reason": reason} | changes
    )


def test_the_page_lists_and_offers_an_editor_to_operators_only(pool: None, browse: Browse) -> None:
    text = browse().get(PATH).content.decode()
    assert 'hx-post="/fairness/class/interactive/check"' in text and 'href="/fairness/tenant/sales#editor"' in text
    for field, _, _ in FIELDS["class"]:
        assert f'name="{field}" value="{OLD[field]}"' in text
    text = browse("auditor").get(PATH).content.decode()
    assert "Only operators change these values" in text and "hx-post" not in text
    text = browse("", tenant="sales").get("/fairness").content.decode()
    assert "sales" in text and "legal" not in text
    assert browse("", tenant="legal").get("/fairness/tenant/sales").status_code == 404


def test_what_was_changed_is_saved_with_its_reason(pool: None, browse: Browse) -> None:
    answer = browse().post(PATH, form(weight="2,5", min="3", max="9", aging_step_s="30"), follow=True)
    assert "Class interactive saved: weight, min, max, aging_step_s" in answer.content.decode()
    saved = WorkClass.objects.get()
    assert (saved.weight, saved.min, saved.max, saved.aging_step_s, saved.version) == (2.5, 3, 9, 30, 2)
    assert AuditEvent.objects.filter(action="patch_class").latest("id").reason == "quarter end"


def test_a_tenant_is_edited_too(pool: None, browse: Browse) -> None:
    browse().post("/fairness/tenant/sales", {"version": 1, "reason": "r", "user_max": "4", "borrow": "2"})
    saved = Tenant.objects.get(slug="sales")
    assert (saved.user_max, saved.borrow, saved.nominal, saved.weight) == (4, 2, 0, 1)


def test_a_refused_draft_comes_back_beside_the_fields(pool: None, browse: Browse) -> None:
    client = browse()
    answer = client.post(PATH, form(min="9", max="5", weight="<i>"))
    text = answer.content.decode()
    assert answer.status_code == 422 and "must be a number" in text and 'value="&lt;i&gt;"' in text
    answer = client.post(PATH, form(min="9", max="5"))
    assert "must not be above max (5)" in answer.content.decode() and 'value="9"' in answer.content.decode()
    assert client.post(PATH, form(weight="2", reason=" ")).status_code == 422
    assert "Nothing was changed" in client.post(PATH, form()).content.decode()
    assert client.post(PATH, form(weight="1e999", version=1)).status_code == 422
    assert WorkClass.objects.get().version == 1


def test_the_edit_of_somebody_else_is_told_and_never_undone(pool: None, system: Caller, browse: Browse) -> None:
    policy.patch(system, "class", "interactive", 1, {"max": 7}, "other")
    client = browse()
    answer = client.post(PATH, form(weight="3"))
    text = answer.content.decode()
    assert answer.status_code == 409 and "version 2 meanwhile: Maximum empty → 7" in text
    assert 'name="version" value="2"' in text and 'name="weight" value="3"' in text and 'name="max" value="7"' in text
    again = form(2, weight="3") | {"max": "7", "was-max": "7"}
    client.post(PATH, again)
    saved = WorkClass.objects.get()
    assert (saved.weight, saved.max, saved.version) == (3, 7, 3)


def test_a_draft_is_judged_without_being_saved(pool: None, system: Caller, browse: Browse) -> None:
    client = browse()
    text = client.post(f"{PATH}/check", form(min="9", max="5")).content.decode()
    assert 'id="err-min" hx-swap-oob="true">must not be above max (5)<' in text and "Not valid yet" in text
    text = client.post(f"{PATH}/check", form(weight="0")).content.decode()
    assert "it may starve" in text and "All values valid" in text
    policy.patch(system, "class", "interactive", 1, {"max": 70}, "other")

    assert WorkClass.objects.get().weight == 1
    policy.patch(system, "pool", "default", 1, {"budget": 10}, "small")
    assert "exceed its budget (10)" in client.post(f"{PATH}/check", form(2, min="11")).content.decode()


def test_an_empty_weight_and_a_doubt_are_told_in_words(pool: None, browse: Browse) -> None:
    client = browse()
    assert "must be a number" in client.post(f"{PATH}/check", form(weight="")).content.decode()
    assert client.post(PATH, form(weight="")).status_code == 422
    text = client.post(f"{PATH}/check", form(max_wait_s="600")).content.decode()
    assert "Longest wait" in text and "later than the SLO of 60 s" in text and "max_wait_s<" not in text


def test_a_draft_is_tried_on_the_backlog(pool: None, browse: Browse) -> None:
    client = browse()
    text = client.post(f"{PATH}/preview", form(weight="2")).content.decode()
    assert 'id="preview-head"' in text and "waiting tasks on" in text
    assert "Nothing was changed yet" in client.post(f"{PATH}/preview", form()).content.decode()
    assert "weight: must be a number" in client.post(f"{PATH}/preview", form(weight="<i>")).content.decode()
    assert "has version 1" in client.post(f"{PATH}/preview", form(9, weight="2")).content.decode()
    assert WorkClass.objects.get().weight == 1


def test_others_change_and_judge_nothing(pool: None, browse: Browse) -> None:
    for role in ("auditor", ""):
        client = browse(role)
        assert client.post(PATH, form(weight="9")).status_code == 403
        assert "waiting tasks" not in client.post(f"{PATH}/preview", form(weight="9")).content.decode()
        assert "All values valid" not in client.post(f"{PATH}/check", form(weight="9")).content.decode()
    answer: Any = Client().post(PATH, form(weight="9"))
    assert answer["Location"].startswith("/login")
    operator = browse()
    assert operator.post("/fairness/pool/default", form()).status_code == 404
    assert operator.post("/fairness/class/missing", form(weight="9")).status_code == 404
    assert operator.get(f"{PATH}/check").status_code == 405
    assert WorkClass.objects.get().weight == 1
