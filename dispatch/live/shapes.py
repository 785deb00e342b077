"""Geometry of the small graphics as SVG attribute values: no style attribute is ever needed (strict CSP)."""

from collections.abc import Iterable, Sequence

SQUARE, STEP, PER_ROW, MOST = 9, 11, 10, 20


def pct(part: float) -> str:
    """A length in percent of the drawing, 0..100."""
    return f"{min(100.0, max(0.0, part)):.2f}%"


def square(index: int) -> str:
    """One slot of a row of slots as path data; its stroke rounds the corners."""
    x = index % PER_ROW * STEP + 1
    y = index // PER_ROW * STEP + 1
    side = SQUARE - 2
    return f"M{x} {y}h{side}v{side}h-{side}z"


def slots(marks: Sequence[str], kinds: Iterable[str]) -> dict[str, str]:
    """Path data for each kind of mark; more than MOST slots shrink to MOST squares, keeping each kind's proportion."""
    drawn = list(marks)
    if len(drawn) > MOST:
        drawn = [drawn[index * len(drawn) // MOST] for index in range(MOST)]
    return {kind: "".join(square(index) for index, mark in enumerate(drawn) if mark == kind) for kind in kinds}


def share_bar(achieved: float, target: float, top: float) -> dict[str, str]:
    """Bar, hatched gap up to the target and tick of a share bar whose scale ends at `top` (all shares 0..1)."""
    return {
        "bar": pct(100 * achieved / top),
        "gap_x": pct(100 * achieved / top),
        "gap_w": pct(100 * (target - achieved) / top),
        "tick": pct(100 * target / top),
    }


def spark(values: Sequence[float | None], top: float | None = None) -> str:
    """A line over 100 × 16 units as path data; gaps where a value is missing."""
    known = [value for value in values if value is not None]
    highest = max([top or 0, *known]) or 1
    step = 100 / max(1, len(values) - 1)
    path, pen = [], "M"
    for index, value in enumerate(values):
        if value is None:
            pen = "M"
            continue
        path.append(f"{pen}{index * step:.1f} {16 - 15 * value / highest:.1f}")
        pen = "L"
    return "".join(path)
