"""Alerts and silences: what needs a look, who looks, and what keeps quiet."""

from typing import Any

from django.http import HttpRequest
from ninja import Query, Router

from dispatch.api import answers_commands as answers
from dispatch.api import schemas_commands as schemas
from dispatch.api.app import caller, verb
from dispatch.api.routes_tasks import known, page
from dispatch.api.schemas_policy import given
from dispatch.api.schemas_tasks import ListQuery
from dispatch.services import alerts, rules, silences
from dispatch.services import backtest as trying

router = Router(tags=["alerts"])


@verb(router, "GET", "/alerts", "list_alerts", answer=answers.AlertPage)
def list_alerts(request: HttpRequest, query: Query[schemas.AlertsQuery]) -> dict[str, Any]:
    """Alerts, newest first."""
    found = alerts.list_alerts(caller(request), query.state, query.rule, query.severity, query.limit, query.cursor)
    return page(found)


@verb(router, "POST", "/alerts/{int:alert_id}/ack", "ack_alert", answer=answers.Alert)
def ack_alert(request: HttpRequest, alert_id: int, body: schemas.AckIn) -> dict[str, Any]:
    """Say that an alert has been seen and what is done about it."""
    return alerts.ack(caller(request), known(alert_id), body.note, body.until)


@verb(router, "GET", "/alerts/{int:alert_id}", "get_alert", answer=answers.Alert)
def get_alert(request: HttpRequest, alert_id: int) -> dict[str, Any]:
    """One alert."""
    return alerts.get_alert(caller(request), known(alert_id))


@verb(router, "GET", "/silences", "list_silences", answer=answers.SilencePage)
def list_silences(request: HttpRequest, query: Query[ListQuery]) -> dict[str, Any]:
    """Silences, newest first."""
    return page(silences.list_silences(caller(request), query.limit, query.cursor))


@verb(router, "POST", "/silences", "create_silence", answer=answers.Silence, status=201)
def create_silence(request: HttpRequest, body: schemas.SilenceIn) -> dict[str, Any]:
    """Let alerts that match keep quiet for a while."""
    matcher = body.matcher.model_dump(by_alias=True, exclude_none=True)
    return silences.create_silence(caller(request), matcher, body.note, body.until, body.starts_at)


@verb(router, "DELETE", "/silences/{int:silence_id}", "end_silence", answer=None, status=204)
def end_silence(request: HttpRequest, silence_id: int) -> None:
    """End a silence before its time."""
    silences.end_silence(caller(request), known(silence_id))


@verb(router, "GET", "/alert-rules", "list_alert_rules", answer=answers.Rules)
def list_alert_rules(request: HttpRequest) -> dict[str, Any]:
    """The rules behind alerts, with their thresholds."""
    return {"items": rules.list_rules(caller(request)), "next_cursor": None}


@verb(router, "PATCH", "/alert-rules/{slug}", "patch_alert_rule", answer=answers.Rule)
def patch_alert_rule(request: HttpRequest, slug: str, body: schemas.RuleChange) -> dict[str, Any]:
    """Change thresholds of a rule, or switch it off or on; for everything or for one class."""
    edits = given(body)
    version, reason, work_class = edits.pop("version"), edits.pop("reason"), edits.pop("class", None)
    return rules.patch_rule(caller(request), slug, version, edits, reason, work_class)


@verb(router, "POST", "/alert-rules/{slug}/backtest", "backtest", answer=answers.Backtest)
def backtest(request: HttpRequest, slug: str, body: schemas.BacktestIn | None = None) -> dict[str, Any]:
    """When a rule would have fired, with these thresholds, on recorded samples."""
    how = body or schemas.BacktestIn()
    return trying.backtest(caller(request), slug, how.thresholds, pool=how.pool, span_s=how.span_s)
