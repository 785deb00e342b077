"""Messages: written with the end of a task, signed, tried again, never lost by a killed messenger, given up at last."""

from typing import Any

import pytest
from django.db import transaction

from dispatch.core import webhooks as core
from dispatch.jobs.messenger import Messenger
from dispatch.models import Alert, Task, Webhook, WebhookDelivery
from dispatch.services import bulk, bulk_run, outbound, webhook_delivery, webhook_events, webhooks
from dispatch.services.cancel import cancel
from dispatch.services.requeue import requeue
from tests import fleet
from tests.fleet import sql
from tests.services.world import ROOT, bury, put
from tests.webhooks.receiver import Receiver

ENDS = ["task.cancelled", "task.dead", "task.succeeded"]


def hook(receiver: Receiver, **fields: Any) -> dict[str, Any]:
    return webhooks.create_webhook(ROOT, **{"name": "ci", "url": receiver.url} | fields)


def deliver(messenger: Messenger | None = None) -> None:
    """Turn a messenger until nothing is due and nothing under way."""
    own = messenger or Messenger()
    while own.turn() or own.under_way:
        own.rest(1)
    if messenger is None:
        own.end()


def log(made: dict[str, Any], state: str | None = None) -> list[dict[str, Any]]:
    return webhooks.list_deliveries(ROOT, made["id"], state).items


def due() -> None:
    """Time passes: back-off and quiet time are over."""
    sql("UPDATE webhook_delivery SET next_at = now() - interval '1 s' WHERE state = 0")
    sql("UPDATE webhook SET quiet_until = NULL")


def test_every_way_a_task_ends_is_told_once_and_signed(receiver: Receiver) -> None:
    made = hook(receiver)
    done = fleet.held("w1")
    assert fleet.ended("complete", done.task, done.token, result={"big": "x" * 1000}) == "succeeded"
    poor = fleet.held("w2")
    error = {"message": "no such table", "kind": "permanent", "type": "SqlError", "stack": "secret"}
    assert fleet.ended("fail", poor.task, poor.token, error=error) == "dead"
    late = put(deadline=None).id
    cancel(ROOT, late, "not needed")
    given_up = put(key="order-7").id
    bury(given_up)
    bulk_run.step(bulk.create(ROOT, "discard", {"state": "dead", "key": "order-7"}, "old", {}, dry_run=False)["id"])
    deliver()
    told = {(one.data["data"]["id"], one.data["type"]): one for one in receiver.got}
    assert sorted(told) == sorted(
        [
            (done.task, "task.succeeded"),
            (poor.task, "task.dead"),
            (late, "task.cancelled"),
            (given_up, "task.dead"),
            (given_up, "task.cancelled"),
        ]
    )
    assert all(one.verified(made["secret"]) for one in receiver.got)
    assert not receiver.got[0].verified(core.secret(b"another"))
    dead = told[poor.task, "task.dead"]
    assert (dead.path, dead.headers["Content-Type"]) == ("/hook?from=evenflow", "application/json")
    assert dead.data["data"] == {
        "id": poor.task,
        "state": "dead",
        "key": None,
        "type": "",
        "tenant": "alpha",
        "class": "critical",
        "pool": "default",
        "reason": "permanent",
        "attempts": 1,
        "error": {"message": "no such table", "kind": "permanent", "type": "SqlError"},
        "finished_at": dead.data["data"]["finished_at"],
    }
    assert dead.data["data"]["finished_at"].endswith("Z") and dead.data["timestamp"].endswith("Z")
    assert told[given_up, "task.cancelled"].data["data"]["key"] == "order-7"
    assert {item["state"] for item in log(made)} == {"delivered"}
    requeue(ROOT, poor.task, "again")
    cancel(ROOT, poor.task, "no, not again")
    deliver()
    assert (receiver.got[-1].data["data"]["id"], receiver.got[-1].data["type"]) == (poor.task, "task.cancelled")


def test_who_hears_what(receiver: Receiver) -> None:
    everything = hook(receiver, name="all")
    beta = hook(receiver, name="beta", tenant="beta")
    deaths = hook(receiver, name="deaths", events=["task.dead", "alert.firing"])
    off = hook(receiver, name="off")
    webhooks.patch_webhook(ROOT, off["id"], {"enabled": False})
    cancel(ROOT, put().id)
    bury(put(tenant="beta").id)
    webhook_events.enqueue("alert.firing", {"rule": "starvation"}, Webhook.objects.get(pk=beta["id"]).tenant_id)
    counts = {one["name"]: len(log(one)) for one in (everything, beta, deaths, off)}
    assert counts == {"all": 2, "beta": 1, "deaths": 2, "off": 0}


def test_a_task_that_does_not_end_and_one_whose_end_is_rolled_back_are_not_told(receiver: Receiver) -> None:
    hook(receiver)
    running = fleet.held("w1")
    assert fleet.ended("release", running.task, running.token) == "queued"
    with pytest.raises(RuntimeError), transaction.atomic():
        cancel(ROOT, put().id)
        raise RuntimeError
    assert not WebhookDelivery.objects.exists()


def test_a_failed_message_is_tried_again_under_its_id_until_it_arrives(receiver: Receiver) -> None:
    made = hook(receiver)
    receiver.answer = 500
    ids = [put().id for _ in range(3)]
    for task in ids:
        cancel(ROOT, task)
    deliver()
    assert len(receiver.got) >= 1
    tried = len(receiver.got)
    first = log(made)[-1]
    assert (first["state"], first["status"], first["tries"]) == ("pending", 500, 1)
    assert first["response"] == "the receiver says <b>so</b>\ufffd" and first["error"] == "The answer was 500."
    assert first["latency_ms"] >= 0 and first["next_at"] is not None
    deliver()
    assert len(receiver.got) == tried, "a failing address is left alone for a while"
    due()
    deliver()
    assert len(receiver.got) == tried + 1, "and then tried with one message"
    sql("UPDATE webhook_delivery SET tried_at = tried_at - interval '2 min'")
    receiver.answer = 200
    sql("UPDATE webhook SET quiet_until = NULL")
    sql("UPDATE webhook_delivery SET next_at = now() WHERE id = (SELECT min(id) FROM webhook_delivery)")
    deliver()
    deliver()
    assert {item["state"] for item in log(made)} == {"delivered"}, "all that waited went out with the first success"
    assert {one.id for one in receiver.got} == {item["message_id"] for item in log(made)}
    assert webhooks.get_webhook(ROOT, made["id"])["failing_since"] is None


def test_what_a_killed_messenger_had_in_hand_is_sent_again(receiver: Receiver) -> None:
    made = hook(receiver)
    cancel(ROOT, put().id)
    (message,) = webhook_delivery.take(10, {})
    assert webhook_delivery.take(10, {}) == [], "nobody else has it meanwhile"
    sent = webhook_delivery.send(message)
    assert sent.arrived  # and here the messenger dies
    due()
    deliver()
    first, second = receiver.got
    assert first.id == second.id == log(made)[0]["message_id"] and first.body == second.body
    webhook_delivery.record(message, outbound.Sent(None, 1, "", "No answer in time."))
    assert log(made)[0]["state"] == "delivered", "a late failure changes nothing"


def test_a_flood_for_one_address_leaves_room_for_the_others(receiver: Receiver) -> None:
    loud, quiet = hook(receiver, name="loud"), hook(receiver, name="quiet", tenant="beta")
    for _ in range(20):
        cancel(ROOT, put().id)
    cancel(ROOT, put(tenant="beta").id)
    taken = webhook_delivery.take(16, {})
    of = [message["webhook_id"] for message in taken]
    assert (of.count(loud["id"]), of.count(quiet["id"])) == (webhook_delivery.EACH, 1)
    assert webhook_delivery.take(16, {loud["id"]: webhook_delivery.EACH}) == []


def test_a_message_is_given_up_and_an_address_switched_off_after_a_long_time(receiver: Receiver) -> None:
    made = hook(receiver)
    receiver.answer = 503
    cancel(ROOT, put().id)
    sql("UPDATE webhook_delivery SET tries = %s", core.MAX_TRIES - 1)
    deliver()
    assert [(item["state"], item["tries"]) for item in log(made)] == [("failed", core.MAX_TRIES)]
    again = webhooks.redeliver(ROOT, made["id"], log(made)[0]["id"])
    assert (again["state"], again["tries"]) == ("pending", 0)
    sql("UPDATE webhook SET failing_since = now() - interval '25 hours', quiet_until = NULL")
    deliver()
    shown = webhooks.get_webhook(ROOT, made["id"])
    assert shown["enabled"] is False and "24 hours" in shown["note"]
    alert = Alert.objects.get()
    assert (alert.rule, alert.subject, alert.resolved_at) == ("webhook_disabled", f"webhook:{made['id']}", None)
    receiver.answer = 200
    webhooks.patch_webhook(ROOT, made["id"], {"enabled": True})
    due()
    deliver()
    assert log(made)[0]["state"] == "delivered"
    assert Alert.objects.get().resolved_at is not None


def test_gone_is_gone(receiver: Receiver) -> None:
    made = hook(receiver)
    receiver.answer = 410
    cancel(ROOT, put().id)
    deliver()
    assert "410" in webhooks.get_webhook(ROOT, made["id"])["note"]


def test_tidy_bounds_what_waits_and_what_is_kept(receiver: Receiver, monkeypatch: Any) -> None:
    made = hook(receiver)
    for _ in range(5):
        cancel(ROOT, put().id)
    deliver()
    monkeypatch.setattr(webhook_delivery, "KEEP", 3)
    monkeypatch.setattr(webhook_delivery, "MAX_WAITING", 2)
    assert webhook_delivery.tidy() == 2
    assert len(log(made)) == 3 and webhooks.get_webhook(ROOT, made["id"])["enabled"]
    for _ in range(3):
        cancel(ROOT, put().id)
    webhook_delivery.tidy()
    assert "tasks/changes" in webhooks.get_webhook(ROOT, made["id"])["note"]
    Webhook.objects.all().delete()
    assert webhook_delivery.tidy() == 3


def test_during_a_rotation_both_secrets_verify(receiver: Receiver) -> None:
    made = hook(receiver)
    fresh = webhooks.rotate_webhook(ROOT, made["id"], overlap_s=60)
    assert fresh["secret"] != made["secret"]
    cancel(ROOT, put().id)
    deliver()
    assert receiver.got[0].verified(made["secret"]) and receiver.got[0].verified(fresh["secret"])
    sql("UPDATE webhook SET old_until = now()")
    cancel(ROOT, put().id)
    deliver()
    assert not receiver.got[1].verified(made["secret"]) and receiver.got[1].verified(fresh["secret"])


def test_back_off_grows_to_hours_and_ends() -> None:
    delays = [core.retry_after(tries, 0.5) for tries in range(1, core.MAX_TRIES)]
    assert delays[:4] == [5, 15, 45, 135] and delays[-1] == 4 * 3600
    assert 20 * 3600 < sum(delay for delay in delays if delay) < 40 * 3600
    assert core.retry_after(1, 0) == 3.75 and core.retry_after(1, 1) == 6.25
    assert core.retry_after(core.MAX_TRIES, 0.5) is None


def test_the_published_vector_of_the_standard() -> None:
    """The example of standardwebhooks' own libraries."""
    import base64

    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    signed = core.sign([key], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_an_end_costs_one_statement_more_only_for_those_who_listen(receiver: Receiver) -> None:
    cancel(ROOT, put().id)
    assert not WebhookDelivery.objects.exists() and Task.objects.get().state == 6
