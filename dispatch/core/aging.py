"""Time in the policy: levels that rise with age, and debts that fade.

Durations are microseconds; a fading factor is a fixed-point integer with ONE = 2^40.
"""

from math import isqrt

ONE = 1 << 40
_STEPS = 1024


def _powers() -> tuple[int, ...]:
    """2^(-i/1024) for i = 0..1024 in fixed point, from repeated integer square roots (no floats: replays are exact)."""
    root = ONE // 2
    for _ in range(10):
        root = isqrt(root << 40)
    table, fine = [ONE], ONE << 40
    for _ in range(_STEPS):
        fine = fine * root >> 40
        table.append(fine >> 40)
    table[_STEPS] = ONE // 2
    return tuple(table)


_TABLE = _powers()


def fading(elapsed: int, halflife: int) -> int:
    """2^(-elapsed/halflife) times ONE, interpolated linearly between 1024 points of each halving."""
    halvings, rest = divmod(elapsed, halflife)
    if halvings > 80:
        return 0
    at, part = divmod(rest * _STEPS, halflife)
    high = _TABLE[at]
    return (high - (high - _TABLE[min(at + 1, _STEPS)]) * part // halflife) >> halvings


def effective_level(level: int, step: int | None, age: int) -> int:
    """The level of a lane whose oldest startable task waited `age`: one better per full `step`, never below 1."""
    if not step or level <= 1 or age < step:
        return level
    return max(1, level - age // step)
