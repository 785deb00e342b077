"""What the demo's database holds: three departments, three classes, tools, and a key for each of its programs.

Made through the services, as an operator would; what exists already is left as it is, so edits survive a restart.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dispatch.errors import Conflict
from dispatch.services import access, installation, policy

MAKER = "manage.py demo"

CLASSES: Mapping[str, Mapping[str, Any]] = {
    "critical": {"weight": 6, "min": 2, "slo_queue_s": 5, "max_wait_s": 20, "backoff_s": 1},
    "interactive": {"weight": 3, "min": 1, "slo_queue_s": 20, "max_wait_s": 60, "backoff_s": 2},
    "background": {"weight": 1, "slo_queue_s": 120, "max_wait_s": 300, "backoff_s": 2, "backoff_max_s": 30},
}
DEPARTMENTS: Mapping[str, Mapping[str, Any]] = {
    "sales": {"weight": 2, "nominal": 8, "max": 14},
    "finance": {"weight": 1, "nominal": 5, "max": 10, "user_max": 6},
    "engineering": {"weight": 1, "nominal": 5},
}
TOOLS: Mapping[str, Mapping[str, Any]] = {"crm": {"max": 3}, "ledger": {"max": 2}, "search": {"max": 6}}
# Short times, so that a crash or a hang is seen to heal while one is watching.
POOL = {"lease_ttl_s": 10, "heartbeat_every_s": 3, "offer_ttl_s": 3}


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of this start: one for all agents, one per department."""

    agents: str
    departments: Mapping[str, str]


def seed() -> Keys:
    """Make what is missing; new keys for this start."""
    caller = access.system(MAKER)
    fresh = [_create("class", slug, fields) for slug, fields in CLASSES.items()]
    if all(fresh):
        pool = policy.get(caller, "pool", "default")
        policy.patch(caller, "pool", "default", pool["version"], POOL, "the demo shows healing in seconds")
    for kind, objects in (("tenant", DEPARTMENTS), ("tool", TOOLS)):
        for slug, fields in objects.items():
            _create(kind, slug, fields)
    return Keys(
        agents=installation.start_key("demo agents", ["work"]),
        departments={slug: installation.start_key(f"demo {slug}", ["submit"], slug) for slug in DEPARTMENTS},
    )


def _create(kind: str, slug: str, fields: Mapping[str, Any]) -> bool:
    try:
        policy.create(access.system(MAKER), kind, slug, fields, "set up by the demo")
    except Conflict:
        return False
    return True
