"""Tables, constraints and indexes; no behaviour (services decide, store writes)."""

from dispatch.models.alerts import Alert, AlertRule, Silence
from dispatch.models.budget import Budget, BudgetExtra, BudgetSpend
from dispatch.models.bulk import BulkItem, BulkJob
from dispatch.models.fleet import Demand, PoolLeader, Process, Worker, WorkerSession
from dispatch.models.ledger import Decision, LaneDelta, LaneDepth, LearnedCost, Settlement, ShareAccount
from dispatch.models.operations import ApiKey, AuditEvent, AuditLink, IdempotencyKey
from dispatch.models.people import Invitation, Membership, User
from dispatch.models.policy import (
    Capability,
    CapSet,
    Pool,
    QuotaRequest,
    Tenant,
    TenantClass,
    TenantUser,
    Tool,
    WorkClass,
)
from dispatch.models.samples import FlowTotal, QueueSample, SampleMark
from dispatch.models.triage import DeadGroup, SavedView
from dispatch.models.webhooks import Webhook, WebhookDelivery
from dispatch.models.work import Attempt, JournalEntry, Lane, Lease, Task

__all__ = [
    "Alert",
    "AlertRule",
    "ApiKey",
    "Attempt",
    "AuditEvent",
    "AuditLink",
    "Budget",
    "BudgetExtra",
    "BudgetSpend",
    "BulkItem",
    "BulkJob",
    "CapSet",
    "Capability",
    "DeadGroup",
    "Decision",
    "Demand",
    "FlowTotal",
    "IdempotencyKey",
    "Invitation",
    "JournalEntry",
    "Lane",
    "LaneDelta",
    "LaneDepth",
    "LearnedCost",
    "Lease",
    "Membership",
    "Pool",
    "PoolLeader",
    "Process",
    "QueueSample",
    "QuotaRequest",
    "SampleMark",
    "SavedView",
    "Settlement",
    "ShareAccount",
    "Silence",
    "Task",
    "Tenant",
    "TenantClass",
    "TenantUser",
    "Tool",
    "User",
    "Webhook",
    "WebhookDelivery",
    "WorkClass",
    "Worker",
    "WorkerSession",
]
