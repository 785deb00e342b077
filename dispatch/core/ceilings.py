"""What a department may change about its own limits: anything inside the operators' ceiling.

A limit is a whole number or None ("none", above every number). While the department's limit is lower than what the
operators gave, the operators' value is kept as the ceiling; an operator's edit sets both.
"""

from collections.abc import Mapping

OWN = ("max", "borrow", "user_max", "max_queued", "submit_per_minute")  # limits a department may lower

Limit = int | None


def above(value: Limit, ceiling: Limit) -> bool:
    """Whether a limit is looser than another."""
    return ceiling is not None and (value is None or value > ceiling)


def sentence(ceiling: Limit) -> str:
    """The refusal of a limit above the ceiling."""
    return f"must be at most {ceiling}, the operators' ceiling; ask for more with a quota request"


def lowered(
    current: Mapping[str, Limit], ceilings: Mapping[str, Limit], wanted: Mapping[str, Limit]
) -> tuple[list[tuple[str, str]], dict[str, Limit]]:
    """A department's edit of its limits: the problems (field, sentence) and the ceilings that hold afterwards."""
    problems, after = [], dict(ceilings)
    for name, value in wanted.items():
        ceiling = ceilings.get(name, current[name])
        if above(value, ceiling):
            problems.append((name, sentence(ceiling)))
        elif value == ceiling:
            after.pop(name, None)
        else:
            after[name] = ceiling
    return problems, after


def given(ceilings: Mapping[str, Limit], named: Mapping[str, object]) -> dict[str, Limit]:
    """The ceilings after an operator's edit: what was named is theirs again."""
    return {name: value for name, value in ceilings.items() if name not in named}
