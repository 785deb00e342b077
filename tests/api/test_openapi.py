"""The OpenAPI document against the contract: operations, parameters, security, refusals."""

import pytest

from tests.api.conftest import World
from tests.api.document import document

OPERATIONS = {
    ("post", "/workers"): "register",
    ("get", "/workers"): "list_workers",
    ("delete", "/sessions/{session_id}"): "goodbye",
    ("post", "/claims"): "claim",
    ("post", "/heartbeats"): "heartbeat",
    ("post", "/completions"): "complete_many",
    ("post", "/tasks"): "submit",
    ("get", "/tasks"): "list_tasks",
    ("get", "/tasks/{task_id}"): "get_task",
    ("post", "/tasks/{task_id}/complete"): "complete",
    ("post", "/tasks/{task_id}/fail"): "fail",
    ("post", "/tasks/{task_id}/release"): "release",
    ("post", "/tasks/{task_id}/checkpoint"): "checkpoint",
    ("post", "/tasks/{task_id}/cancel"): "cancel",
    ("post", "/tasks/{task_id}/requeue"): "requeue",
    ("get", "/me"): "get_me",
    ("get", "/keys"): "list_keys",
    ("post", "/keys"): "create_key",
    ("delete", "/keys/{key_id}"): "delete_key",
    ("get", "/stats"): "get_stats",
    ("get", "/audit"): "list_audit",
    ("get", "/dead-letters/groups"): "list_dead_letter_groups",
    ("get", "/dead-letters"): "list_dead_letters",
    ("post", "/bulk"): "create_bulk",
    ("get", "/bulk"): "list_bulk",
    ("get", "/bulk/{job_id}"): "get_bulk",
    ("post", "/bulk/{job_id}/pause"): "pause_bulk",
    ("post", "/bulk/{job_id}/resume"): "resume_bulk",
    ("post", "/bulk/{job_id}/abort"): "abort_bulk",
    ("post", "/bulk/{job_id}/undo"): "undo_bulk",
    ("patch", "/tasks/{task_id}"): "patch_task",
    ("get", "/tasks/changes"): "list_changes",
    ("get", "/alerts"): "list_alerts",
    ("get", "/alerts/{alert_id}"): "get_alert",
    ("post", "/alerts/{alert_id}/ack"): "ack_alert",
    ("get", "/alert-rules"): "list_alert_rules",
    ("patch", "/alert-rules/{slug}"): "patch_alert_rule",
    ("post", "/alert-rules/{slug}/backtest"): "backtest",
    ("get", "/silences"): "list_silences",
    ("post", "/silences"): "create_silence",
    ("delete", "/silences/{silence_id}"): "end_silence",
    ("post", "/keys/{key_id}/rotate"): "rotate_key",
    ("post", "/pause"): "pause",
    ("get", "/tasks/{task_id}/why"): "why",
    ("post", "/resume"): "resume",
    ("get", "/workers/{worker_id}"): "get_worker",
    ("patch", "/workers/{worker_id}"): "patch_worker",
    ("delete", "/workers/{worker_id}"): "delete_worker",
    ("post", "/leases/{task_id}/revoke"): "revoke",
    ("get", "/webhooks"): "list_webhooks",
    ("post", "/webhooks"): "create_webhook",
    ("get", "/webhooks/{webhook_id}"): "get_webhook",
    ("patch", "/webhooks/{webhook_id}"): "patch_webhook",
    ("delete", "/webhooks/{webhook_id}"): "delete_webhook",
    ("post", "/webhooks/{webhook_id}/rotate"): "rotate_webhook",
    ("post", "/webhooks/{webhook_id}/test"): "test_webhook",
    ("get", "/webhooks/{webhook_id}/deliveries"): "list_deliveries",
    ("post", "/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver"): "redeliver",
}
KINDS = {"pool": "pools", "class": "classes", "tenant": "tenants", "tool": "tools", "capability": "capabilities"}
for kind, plural in KINDS.items():
    OPERATIONS |= {
        ("get", f"/{plural}"): f"list_{plural}",
        ("post", f"/{plural}"): f"create_{kind}",
        ("get", f"/{plural}/{{slug}}"): f"get_{kind}",
        ("patch", f"/{plural}/{{slug}}"): f"patch_{kind}",
        ("delete", f"/{plural}/{{slug}}"): f"delete_{kind}",
    }


def test_every_operation_of_the_contract_is_declared() -> None:
    found = {
        (method, path.removeprefix("/api/v1")): operation["operationId"]
        for path, operations in document()["paths"].items()
        for method, operation in operations.items()
    }
    assert found.items() >= OPERATIONS.items()
    assert len(set(found.values())) == len(found), "operation ids are unique"


def test_every_operation_tells_its_refusals_and_its_key() -> None:
    for path, operations in document()["paths"].items():
        for method, operation in operations.items():
            codes = {int(code) for code in operation["responses"]}
            assert {401, 403, 404, 409, 413, 422, 429, 503} <= codes, (method, path)
            assert operation["security"] == [{"Bearer": []}], (method, path)
            refusal = next(answer for code, answer in operation["responses"].items() if int(code) == 422)
            assert list(refusal["content"]) == ["application/problem+json"]


def test_requests_take_no_unknown_fields() -> None:
    schemas = document()["components"]["schemas"]
    for path, operations in document()["paths"].items():
        for operation in operations.values():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
            for reference in [
                part["$ref"] for part in (body or {}).get("anyOf", [body] if body else []) if "$ref" in part
            ]:
                schema = schemas[reference.rsplit("/", 1)[-1]]
                for part in schema.get("oneOf", [{"$ref": reference}]):
                    named = schemas[part["$ref"].rsplit("/", 1)[-1]]
                    assert named["additionalProperties"] is False, path


@pytest.mark.django_db(transaction=True)
def test_the_document_is_served_to_everybody(world: World) -> None:
    status, _, body = world.door.send("GET", "/api/v1/openapi.json", b"", {})
    assert status == 200
    assert b'"operationId"' in body
