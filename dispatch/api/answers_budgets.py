"""What the routes about cost budgets answer. Amounts are in the cost unit of the pools that a budget counts."""

from typing import Literal

from pydantic import BaseModel, Field

from dispatch.api.fields import Id, Slug, Time


class BudgetState(BaseModel):
    """The window of now: `limit` in force (null: none), what ended attempts cost, what running ones reserve."""

    limit: float | None
    settled: float
    reserved: float
    left: float | None
    low: bool
    waiting_since: Time | None
    window_start: Time | None
    window_end: Time | None


class BudgetItem(BaseModel):
    """One cost budget."""

    slug: Slug
    tenant: Slug
    work_class: Slug | None = Field(alias="class")
    user: str | None
    unit: str | None
    limit: float
    window: Literal["hour", "day", "week", "month"] | None
    window_s: float | None
    timezone: str
    on_breach: Literal["hold", "degrade", "stop"]
    degrade_to: Slug | None
    alert_at: float
    follows_tenant: bool
    version: int
    state: BudgetState


class BudgetExtra(BaseModel):
    """A top-up or an override in force; `until` null: as long as the budget's only window."""

    id: Id
    kind: Literal["top_up", "override"]
    amount: float | None
    created_at: Time
    until: Time | None
    by: str
    reason: str


class BudgetWindow(BaseModel):
    """What one window cost in the end."""

    start: Time
    settled: float


class Budget(BudgetItem):
    """The same with its top-ups, overrides and newest windows."""

    extras: list[BudgetExtra]
    windows: list[BudgetWindow]


class Budgets(BaseModel):
    """A page of cost budgets."""

    items: list[BudgetItem]
    next_cursor: str | None
