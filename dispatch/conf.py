"""One frozen, validated object with the limits of this app (contract: Sizes).

The project's settings build it from the environment (EVENFLOW_MAX_<NAME>); what an operator changes while the
product runs lives in the database, not here. Sizes are bytes of compact UTF-8 JSON or text.
"""

from dataclasses import dataclass

from django.conf import settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The largest input that is taken; more is refused with 413 (sizes) or 422 (counts, depth)."""

    body_bytes: int = 16 * 1024 * 1024  #: a whole request
    claim_bytes: int = 16 * 1024 * 1024  #: the payloads of one claim's answer; further leases come with the next
    payload_bytes: int = 1024 * 1024
    result_bytes: int = 1024 * 1024
    checkpoint_bytes: int = 256 * 1024
    error_bytes: int = 64 * 1024  #: error texts are cut and marked, not refused
    batch: int = 1000  #: tasks, leases or outcomes in one call
    depth: int = 64  #: nesting of a JSON value
    task_capabilities: int = 16
    task_tools: int = 8
    worker_capabilities: int = 64
    lanes: int = 5000  #: with queued work, per tenant and pool; more is refused with 429


def limits() -> Limits:
    """The limits in force."""
    found: Limits = settings.EVENFLOW_LIMITS
    return found
