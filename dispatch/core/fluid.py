"""The shares that the classes of a pool are heading for: weighted max-min with floors and ceilings, exact.

x = min(demand, max, max(min, weight × λ)) with λ such that the capacity is used up. Floors that do not fit together
shrink in proportion. Better levels are filled first, weight 0 last; floors are kept for everybody. Limits that cut
across classes (tenants, users, tools, capabilities) are not looked at: this is what the operator compares with.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dispatch.core.types import Id

ZERO = Fraction(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """One class: weight in any unit, floor and ceiling in slots, how many slots it could use now."""

    demand: int
    weight: Fraction = Fraction(1)
    min: int = 0
    max: int | None = None
    level: int = 1

    @property
    def high(self) -> Fraction:
        """Slots beyond which it takes no more."""
        return Fraction(max(0, self.demand if self.max is None else min(self.demand, self.max)))

    @property
    def low(self) -> Fraction:
        """Its floor, as far as it wants it."""
        return min(Fraction(self.min), self.high)


def fill(capacity: int, wants: Mapping[Id, Want]) -> dict[Id, Fraction]:
    """Slots per class."""
    floors = sum((want.low for want in wants.values()), ZERO)
    if floors >= capacity:
        return {key: want.low * capacity / floors if floors else ZERO for key, want in wants.items()}
    ranks = sorted({(want.weight == 0, want.level) for want in wants.values()})
    left = Fraction(capacity)
    slots: dict[Id, Fraction] = {}
    for rank in ranks:
        group = {key: want for key, want in wants.items() if (want.weight == 0, want.level) == rank}
        later = sum((want.low for key, want in wants.items() if key not in slots and key not in group), ZERO)
        filled = _level(left - later, group)
        slots |= filled
        left -= sum(filled.values(), ZERO)
    return slots


def _level(capacity: Fraction, group: Mapping[Id, Want]) -> dict[Id, Fraction]:
    """Fill one level: raise λ until the capacity is used or everybody has enough."""
    weights = {key: want.weight or Fraction(1) for key, want in group.items()}
    if sum((want.high for want in group.values()), ZERO) <= capacity:
        return {key: want.high for key, want in group.items()}

    def at(lam: Fraction) -> dict[Id, Fraction]:
        return {key: min(want.high, max(want.low, weights[key] * lam)) for key, want in group.items()}

    edges: Sequence[Fraction] = sorted(
        {ZERO} | {bound / weights[key] for key, want in group.items() for bound in (want.low, want.high)}
    )
    start = max(edge for edge in edges if sum(at(edge).values(), ZERO) <= capacity)
    filled = at(start)
    slope = sum((weights[k] for k, want in group.items() if want.low <= weights[k] * start < want.high), ZERO)
    return at(start + (capacity - sum(filled.values(), ZERO)) / slope) if slope else filled
