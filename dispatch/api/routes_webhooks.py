"""Webhooks: addresses that are told when tasks end or alerts change, and what became of each message."""

from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Query, Router
from pydantic import BaseModel, Field, StringConstraints

from dispatch.api.app import caller, verb
from dispatch.api.fields import Id, Model, Name, Slug, Text, Time
from dispatch.api.routes_tasks import known, page
from dispatch.api.schemas_policy import ReasonQuery, given
from dispatch.api.schemas_tasks import ListQuery, Word
from dispatch.services import outbound, webhooks

router = Router(tags=["webhooks"])

Event = Literal["task.succeeded", "task.dead", "task.cancelled", "alert.firing", "alert.acknowledged", "alert.resolved"]
Events = Annotated[list[Event], Field(min_length=1, max_length=len(webhooks.EVENTS))]
Url = Annotated[Text, StringConstraints(min_length=1, max_length=outbound.MAX_URL)]


class WebhookIn(Model):
    """A new webhook; without a tenant it hears of all that its maker may operate."""

    name: Name
    kind: Literal["standard", "slack", "email"] = "standard"
    url: Url
    events: Events = ["task.succeeded", "task.dead", "task.cancelled"]
    tenant: Slug | None = None


class WebhookChange(Model):
    """A change of a webhook; what is left out stays."""

    name: Name = Field(default_factory=str)
    url: Url = Field(default_factory=str)
    events: Events = Field(default_factory=list)
    enabled: bool = Field(default_factory=lambda: True)
    reason: Text = ""


class WebhookRotate(Model):
    """How long messages are signed with the old secret too."""

    overlap_s: Annotated[float, Field(ge=0, le=webhooks.MAX_OVERLAP_S, allow_inf_nan=False)] = 86400


class WebhooksQuery(ListQuery):
    """Whose webhooks."""

    tenant: Word | None = None


class DeliveriesQuery(ListQuery):
    """Which messages; `state` is pending, delivered or failed."""

    state: Word | None = None


class Webhook(BaseModel):
    """One webhook; `pending`: messages that wait (counted to 10,000), `note`: why it was switched off."""

    id: Id
    name: str
    kind: Literal["standard", "slack", "email"]
    url: str
    events: list[Event]
    tenant: Slug | None
    pool: Slug | None
    enabled: bool
    note: str
    pending: int
    failing_since: Time | None
    created_at: Time


class NewWebhook(Webhook):
    """A webhook with its signing secret, which is in this answer only."""

    secret: str | None


class RotatedWebhook(NewWebhook):
    """The new secret; the old one signs too until `old_until`."""

    old_until: Time


class WebhookPage(BaseModel):
    """A page of webhooks."""

    items: list[Webhook]
    next_cursor: str | None


class Delivery(BaseModel):
    """One message and its last try; `status` null: no answer came, `error` says why."""

    id: Id
    message_id: str
    type: str
    data: dict[str, Any]
    state: Literal["pending", "delivered", "failed"]
    tries: int
    created_at: Time
    tried_at: Time | None
    next_at: Time | None
    status: int | None
    latency_ms: int | None
    response: str
    error: str


class DeliveryPage(BaseModel):
    """A page of messages."""

    items: list[Delivery]
    next_cursor: str | None


@verb(router, "GET", "/webhooks", "list_webhooks", answer=WebhookPage)
def list_webhooks(request: HttpRequest, query: Query[WebhooksQuery]) -> dict[str, Any]:
    """Webhooks that the caller may manage."""
    return page(webhooks.list_webhooks(caller(request), query.tenant, query.limit, query.cursor))


@verb(router, "POST", "/webhooks", "create_webhook", answer=NewWebhook, status=201, withheld="secret")
def create_webhook(request: HttpRequest, body: WebhookIn) -> dict[str, Any]:
    """Make a webhook; the signing secret is in this answer only."""
    return webhooks.create_webhook(
        caller(request), name=body.name, url=body.url, events=body.events, tenant=body.tenant, kind=body.kind
    )


@verb(router, "GET", "/webhooks/{int:webhook_id}", "get_webhook", answer=Webhook)
def get_webhook(request: HttpRequest, webhook_id: int) -> dict[str, Any]:
    """One webhook."""
    return webhooks.get_webhook(caller(request), known(webhook_id))


@verb(router, "PATCH", "/webhooks/{int:webhook_id}", "patch_webhook", answer=Webhook)
def patch_webhook(request: HttpRequest, webhook_id: int, body: WebhookChange) -> dict[str, Any]:
    """Change a webhook, or switch it off and on."""
    changes = given(body)
    return webhooks.patch_webhook(caller(request), known(webhook_id), changes, changes.pop("reason", ""))


@verb(router, "DELETE", "/webhooks/{int:webhook_id}", "delete_webhook", answer=None, status=204)
def delete_webhook(request: HttpRequest, webhook_id: int, query: Query[ReasonQuery]) -> None:
    """Forget a webhook with its messages."""
    webhooks.delete_webhook(caller(request), known(webhook_id), query.reason)


@verb(router, "POST", "/webhooks/{int:webhook_id}/rotate", "rotate_webhook", answer=RotatedWebhook, withheld="secret")
def rotate_webhook(request: HttpRequest, webhook_id: int, body: WebhookRotate | None = None) -> dict[str, Any]:
    """A new signing secret; the old one signs too for `overlap_s` more."""
    overlap = (body or WebhookRotate()).overlap_s
    return webhooks.rotate_webhook(caller(request), known(webhook_id), overlap)


@verb(router, "POST", "/webhooks/{int:webhook_id}/test", "test_webhook", answer=Delivery, status=202)
def test_webhook(request: HttpRequest, webhook_id: int) -> dict[str, Any]:
    """Send a message of the type `webhook.test`; the log tells a moment later what became of it."""
    return webhooks.test_webhook(caller(request), known(webhook_id))


@verb(router, "GET", "/webhooks/{int:webhook_id}/deliveries", "list_deliveries", answer=DeliveryPage)
def list_deliveries(request: HttpRequest, webhook_id: int, query: Query[DeliveriesQuery]) -> dict[str, Any]:
    """Messages to one webhook, newest first."""
    found = webhooks.list_deliveries(caller(request), known(webhook_id), query.state, query.limit, query.cursor)
    return page(found)


@verb(
    router,
    "POST",
    "/webhooks/{int:webhook_id}/deliveries/{int:delivery_id}/redeliver",
    "redeliver",
    answer=Delivery,
    status=202,
)
def redeliver(request: HttpRequest, webhook_id: int, delivery_id: int) -> dict[str, Any]:
    """Send one message again, under the same message id."""
    return webhooks.redeliver(caller(request), known(webhook_id), known(delivery_id))
