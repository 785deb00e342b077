"""Cost: what a task is charged at dispatch, and what is learned from what it really cost.

Costs are micro-units (integers). A hint is believed only as far as history allows: it is cut to `max_task_cost`,
multiplied by the learned factor (mean actual / mean hint of the same owner and type, within 0.001..1000) and kept
between a fraction of the learned mean and twice the learned maximum. An unknown cost is the learned mean.
Sources: SFQ charges at dispatch and corrects at the end; 2DFQ and Retro learn per tenant and API (scheduling notes).
"""

from dispatch.core.types import MICRO, Id

SCALE = 10**9  # virtual time per micro-unit of cost at weight 1e-6; keeps one micro-unit visible at weight 1000
WINDOW = 16  # the averages forget with 1/16 per measured task
ANY_TYPE = "*"  # the type under which all types of an owner are learned together
ANY_TENANT = 0  # the owner under which all tenants of a class are learned together (no tenant has this id)
MAX_TYPES = 64  # learned separately per owner; further types share ANY_TYPE
BIAS_MIN, BIAS_MAX = 1_000, 1_000_000_000  # millionths
FLOOR_PART = 64  # a charge is at least 1/64 of the learned mean: a hint of nothing does not run for nothing
CAP_TIMES = 2  # and at most twice the largest cost measured lately

LearnedKey = tuple[Id, Id, str]


class Learned:
    """What one (class, tenant, type) costs in truth, in micro-units; `n` counts measured tasks up to WINDOW."""

    __slots__ = ("hint", "hinted", "mean", "n", "top")

    def __init__(self, n: int = 0, mean: int = 0, top: int = 0, hint: int = 0, hinted: int = 0) -> None:
        self.n = n
        self.mean = mean
        self.top = top
        self.hint = hint
        self.hinted = hinted

    def state(self) -> tuple[int, int, int, int, int]:
        """All fields in the order of the constructor."""
        return (self.n, self.mean, self.top, self.hint, self.hinted)

    def learn(self, actual: int, hint: int | None) -> None:
        """Take in one measured cost; `hint` None leaves the factor alone."""
        self.n = min(self.n + 1, WINDOW)
        self.mean += (actual - self.mean) // self.n if self.n > 1 else actual - self.mean
        self.top = max(self.top - self.top // 128, actual)
        if hint is not None and hint > 0:
            if self.hint:
                self.hint = max(1, self.hint + (hint - self.hint) // WINDOW)
                self.hinted += (actual - self.hinted) // WINDOW
            else:
                self.hint, self.hinted = hint, actual

    @property
    def bias(self) -> int:
        """Mean actual over mean hint in millionths, clamped to 0.001..1000; one million without a hinted task."""
        if not self.hint:
            return MICRO
        return min(max(self.hinted * MICRO // self.hint, BIAS_MIN), BIAS_MAX)


def charge_for(hint: int | None, learned: Learned | None, default: int, max_task_cost: int | None) -> int:
    """The charge at dispatch of one task, at least one micro-unit. `default` serves while nothing is known."""
    if hint is None:
        cost = learned.mean if learned is not None else default
        return max(1, cost if max_task_cost is None else min(cost, max_task_cost))
    cost = hint if max_task_cost is None else min(hint, max_task_cost)
    if learned is not None:
        cost = cost * learned.bias // MICRO
        cost = min(max(cost, learned.mean // FLOOR_PART), max(CAP_TIMES * learned.top, 1))
    return max(1, cost)
