"""What tells the audit page, and the editors of the policy, that there is something new."""

from collections.abc import Mapping
from typing import Any


def cells(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """`audit.newest`: when the newest command was given; `policy.v`: grows with every edit of the policy."""
    commands = snapshot["commands"]
    return {"audit.newest": commands[0]["at"] if commands else "", "policy.v": snapshot["policy_version"]}
