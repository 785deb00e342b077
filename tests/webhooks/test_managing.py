"""Who may manage which webhook; the secret is shown once; commands leave an audit entry."""

from typing import Any

import pytest

from dispatch.errors import Conflict, Forbidden, Invalid, NotFound
from dispatch.models import ApiKey, AuditEvent
from dispatch.services import webhooks
from tests.services.world import ROOT, key, person

URL = "https://example.com/hook/T0KEN"


def make(caller: Any = ROOT, **fields: Any) -> dict[str, Any]:
    return webhooks.create_webhook(caller, **{"name": "ci", "url": URL} | fields)


def refused(*fields: str, **given: Any) -> None:
    with pytest.raises(Invalid) as caught:
        make(**given)
    assert [error["field"] for error in caught.value.errors] == list(fields)


def test_made_shown_and_audited_without_the_secret() -> None:
    made = make(events=["task.dead", "task.dead"])
    assert made["secret"].startswith("whsec_") and made["events"] == ["task.dead"]
    shown = webhooks.get_webhook(ROOT, made["id"])
    assert shown == {name: value for name, value in made.items() if name != "secret"}
    assert webhooks.list_webhooks(ROOT).items == [shown]
    noted = str(list(AuditEvent.objects.values_list("after", flat=True)))
    assert "T0KEN" not in noted and made["secret"] not in noted and "example.com" in noted
    assert not ApiKey.objects.filter(name__contains="whsec").exists()
    assert make()["secret"] != made["secret"]


def test_bad_fields_are_named() -> None:
    refused("name", name=" ")
    refused("url", url="http://example.com")
    refused("events", events=[])
    refused("events", events=["task.started"])
    refused("tenant", tenant="nobody")
    refused("name", "url", name="x\0", url="https://[")


def test_a_department_admin_manages_its_own_and_sees_no_others() -> None:
    whole, beta = make(name="whole"), make(name="beta", tenant="beta")
    admin, member = person(alpha="admin"), person(alpha="member")
    own = make(admin, tenant="alpha")
    assert [hook["id"] for hook in webhooks.list_webhooks(admin).items] == [own["id"]]
    assert [hook["id"] for hook in webhooks.list_webhooks(ROOT, tenant="beta").items] == [beta["id"]]
    for foreign in (whole["id"], beta["id"], 10**6, 0, 2**70):
        for call in (
            lambda id_: webhooks.get_webhook(admin, id_),
            lambda id_: webhooks.patch_webhook(admin, id_, {"name": "x"}),
            lambda id_: webhooks.rotate_webhook(admin, id_),
            lambda id_: webhooks.delete_webhook(admin, id_),
            lambda id_: webhooks.test_webhook(admin, id_),
            lambda id_: webhooks.list_deliveries(admin, id_),
            lambda id_: webhooks.redeliver(admin, id_, 1),
        ):
            with pytest.raises(NotFound):
                call(foreign)
    with pytest.raises(Invalid, match="tenant"):
        make(admin)
    with pytest.raises(Invalid, match="tenant"):
        make(admin, tenant="beta")
    for caller in (member, key("read", "submit", "work", "admin"), person("auditor")):
        with pytest.raises(Forbidden):
            webhooks.list_webhooks(caller)
        with pytest.raises(Forbidden):
            make(caller, tenant="alpha")


def test_a_bound_keys_webhooks_are_bound_like_it() -> None:
    assert make(key("operate", tenant="alpha"))["tenant"] == "alpha"
    assert make(key("operate", pool="other"))["pool"] == "other"
    assert len(webhooks.list_webhooks(key("operate", pool="other")).items) == 1


def test_changed_rotated_deleted() -> None:
    made = make()
    changed = webhooks.patch_webhook(ROOT, made["id"], {"name": "new", "enabled": False}, "moved")
    assert (changed["name"], changed["enabled"], changed["url"]) == ("new", False, URL)
    for call in (lambda: webhooks.test_webhook(ROOT, made["id"]), lambda: webhooks.redeliver(ROOT, made["id"], 1)):
        with pytest.raises(Conflict):
            call()
    with pytest.raises(Invalid):
        webhooks.patch_webhook(ROOT, made["id"], {"secret": "mine"})
    with pytest.raises(Invalid):
        webhooks.rotate_webhook(ROOT, made["id"], overlap_s=-1)
    webhooks.delete_webhook(ROOT, made["id"], "over")
    with pytest.raises(NotFound):
        webhooks.get_webhook(ROOT, made["id"])
    actions = list(AuditEvent.objects.order_by("id").values_list("action", flat=True))
    assert actions[-3:] == ["create_webhook", "patch_webhook", "delete_webhook"]


def test_a_test_message_is_in_the_log_and_pages_go_on() -> None:
    made = make(events=["task.dead"])
    sent = [webhooks.test_webhook(ROOT, made["id"]) for _ in range(3)]
    assert (sent[0]["type"], sent[0]["state"]) == ("webhook.test", "pending")
    first = webhooks.list_deliveries(ROOT, made["id"], limit=2)
    rest = webhooks.list_deliveries(ROOT, made["id"], limit=2, cursor=first.next_cursor)
    assert [item["id"] for item in [*first.items, *rest.items]] == [one["id"] for one in reversed(sent)]
    assert webhooks.list_deliveries(ROOT, made["id"], "failed").items == []
    with pytest.raises(Conflict, match="already"):
        webhooks.redeliver(ROOT, made["id"], sent[0]["id"])
    with pytest.raises(NotFound):
        webhooks.redeliver(ROOT, make()["id"], sent[0]["id"])
