"""One plain sentence for each blocker of explain.py. The caller knows the names; times stay numbers for the caller."""

from dispatch.core.explain import NOBODY_ASKS, Blocker

_MAXIMUM = "{Kind} {name} runs {value} of at most {limit}."
_SENTENCES = {
    "pool_budget": "The pool runs {value} of its budget of {limit} slots.",
    "class_max": _MAXIMUM,
    "tenant_max": _MAXIMUM,
    "user_max": _MAXIMUM,
    "tool_max": _MAXIMUM,
    "tool_cooldown": "Tool {name} cools down.",
    "budget_spent": "Tenant {name} has spent its cost budget.",
    "scheduled": "It is not due yet.",
    "backing_off": "It waits before its next attempt.",
    "held": "It is set aside.",
    "behind_in_lane": "{value} tasks of its lane start before it.",
    "lower_share": "Others are owed the free slots first; tenant {name} has had its share for now.",
    "reserved_for_others": "The {value} free slots are kept for classes that do not lend their minimum.",
}


def sentence(blocker: Blocker, name: str) -> str:
    """What a person reads; `name` is the subject's slug (or a worker's name, empty when there is none)."""
    value, limit = blocker.value, blocker.limit
    if blocker.code == "paused":
        return "The pool is paused." if blocker.kind == "pool" else f"The {blocker.kind} {name} is paused."
    if blocker.code == "no_free_slot":
        if value == NOBODY_ASKS:
            return "No agent is asking for work."
        return f"Every capable slot is busy: {value} tasks run on {limit} slots."
    if blocker.code == "no_capable_worker":
        nearest = f"; the nearest, {name}, lacks {value}" if name and value else ""
        return f"No live worker offers {limit or 'a slot for this tenant'}{nearest}."
    return _SENTENCES[blocker.code].format(Kind=blocker.kind.capitalize(), name=name, value=value, limit=limit)
