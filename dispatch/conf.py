"""One frozen, validated object with the limits of this app (contract: Sizes).

The project's settings build it from the environment (EVENFLOW_MAX_<NAME>); what an operator changes while the
product runs lives in the database, not here. Sizes are bytes of compact UTF-8 JSON or text.
"""

from dataclasses import dataclass

from django.conf import settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The largest input that is taken; more is refused with 413 (sizes) or 422 (counts, depth)."""

    body_bytes: int  #: a whole request
    payload_bytes: int
    result_bytes: int
    checkpoint_bytes: int
    batch: int  #: tasks, leases or outcomes in one call
    depth: int  #: nesting of a JSON value
    task_capabilities: int
    task_tools: int
    worker_capabilities: int
    lanes: int  #: with queued work, per tenant and pool; more is refused with 429


def limits() -> Limits:
    """The limits in force."""
    found: Limits = settings.EVENFLOW_LIMITS
    return found
